"""Training of a transformer as Calculon models it: a block as a table of operators, a batch by closed forms of its sum.

Source of all equations: Isaev, McDonald, Dennison and Vuduc, SC'23, doi 10.1145/3581784.3607102, and their program
calculon-ai/calculon, commit caa4b11, with its defects repaired (tests/twins/calculon_oracle.py lists them). A block is
summed twice: as one in the middle of a chunk (base), and as the last of a chunk (edge), which also talks to the next
stage and, under `p2p_rs_ag`, reduces and gathers what the base blocks all-reduce.
"""
