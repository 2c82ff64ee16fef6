"""The physics, as compiled functions of numbers: no YAML, no Ray, no Parquet, no paths.

At the root stand what an equation is (`equation`), the codes of named choices (`codes`), random draws (`draws`) and
reductions (`reduce`); the rooms below hold the equations, and `models` lists them by family of workloads.
"""
