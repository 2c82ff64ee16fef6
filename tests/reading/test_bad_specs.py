"""Mistakes in specs: each is one clear message with file, line and column, and never another exception.

Each case edits one place of the small specs; `test_fuzz_specs.py` damages them at random.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from sweeper.errors import SpecError
from sweeper.reading.nodes import parse_yaml, read_yaml
from sweeper.study.study import load_study
from tests.support.small_specs import FILES, STUDY, write_files


@dataclass(frozen=True)
class Case:
    """A mistake: in a file, `old` becomes `new`; the message is at `line` and holds `fragment`."""

    name: str
    old: str
    new: str
    line: int
    fragment: str
    file: str = "study.yaml"


CHIPS, WORKLOADS = "chips/chips.yaml", "workloads/workloads.yaml"
TABLE = "{divisors_of: chips}, data_parallel: {divisors_of: chips}"

STUDY_CASES = [
    Case("more than all", "  dim_x: 8", "  dim_x: 8\n  compute_efficiency: 90", 13, "must be from 1e-6 to 1"),
    # the text of the file
    Case("unclosed list", "[alpha, beta]", "[alpha, beta", 7, "not YAML"),
    Case("bad indentation", "  memory: dram", "   memory: dram", 7, "not YAML"),
    Case("tab", "  memory: dram", "\tmemory: dram", 7, "indent with spaces"),
    Case("unquoted colon", "A demonstration", "A: demonstration", 2, "not YAML"),
    Case("unclosed quote", "A demonstration", "'A demonstration", 2, "not YAML"),
    Case("reserved character", "A demonstration", "@home", 2, "not YAML"),
    Case("control character", "A demonstration", "A \x07", 2, "is not allowed in YAML"),
    Case("duplicate key", "  link: cable", "  chip: alpha", 9, "duplicate key 'chip' (first at line 6)"),
    Case("merge key", "  link: cable", "  <<: {link: cable}", 9, "merge key '<<' is not allowed"),
    Case("tag that runs code", "dram", "!!python/object/apply:os.getcwd []", 7, "tag 'tag:yaml.org,2002:python"),
    Case("harmless tag", "dram", "!!str dram", 7, "is not allowed; a study holds plain data"),
    Case("unknown alias", "memory: dram", "memory: *x", 7, "alias *x has no anchor before it"),
    Case("alias of itself", "[alpha, beta]", "&x [*x]", 6, "refers to itself"),
    Case("deep nesting", "[alpha, beta]", "[" * 60 + "]" * 60, 6, "nested deeper than 40"),
    Case("list as a key", "  link: cable", "  ? [link]\n  : cable", 9, "a key must be a name"),
    Case("two documents", "search:", "---\nsearch:", 14, "a second document begins"),
    # the study's own keys
    Case("unknown key", "title:", "titel:", 2, "unknown key of a study 'titel', did you mean 'title'?"),
    Case("no name", "study: demo\n", "", 1, "the study has no name"),
    Case("name with a slash", "study: demo", "study: a/b", 1, "a study's name has letters"),
    Case("empty name", "study: demo", "study:", 1, "found nothing"),
    Case("list as a title", "A demonstration", "[a, b]", 2, "title must be text"),
    # columns
    Case("unknown column", "  chip: [", "  chp: [", 6, "unknown column 'chp', did you mean 'chip'?"),
    Case("unknown attribute", "memory.bandwidth:", "memory.bandwith:", 8, "did you mean 'memory.bandwidth'?"),
    Case(
        "attribute of a workload",
        "memory.bandwidth: [100 GB/s, 200 GB/s]",
        "workload.depth: 3",
        8,
        "unknown parameter of workload",
    ),
    Case("missing role", "  topology: ring_1d\n", "", 1, "lacks the column 'topology'"),
    Case("missing number", "  dim_x: 8\n", "", 1, "lacks the column 'dim_x' (chips along"),
    Case(
        "column of two axes",
        "  link: cable",
        "  x: {columns: [link, chip], rows: [[cable, alpha]]}",
        9,
        "column 'chip' comes from axis 'x' and from axis 'chip' (line 6)",
    ),
    Case("swept and searched", "  microbatch: {powers_of_two: [1, 4]}", "  chip: beta", 19, "both swept and searched"),
    Case("axes is a list", "axes:\n", "axes: [workload]\nsearches:\n", 4, "axes must be a mapping"),
    # values
    Case("unknown entry", "memory: dram", "memory: dran", 7, "unknown memory 'dran', did you mean 'dram'?"),
    Case("unknown in a list", "[alpha, beta]", "[alpha, bet]", 6, "did you mean 'beta'?"),
    Case("entry of another kind", "memory: dram", "memory: cable", 7, "unknown memory 'cable'"),
    Case("no unit", "[100 GB/s,", "[100,", 8, "100 needs a unit, e.g. 300 GB/s"),
    Case("wrong dimension", "[100 GB/s,", "[100 GB,", 8, "'100 GB' is in B; need a quantity in B/s, e.g. 300 GB/s"),
    Case("unknown unit", "[100 GB/s,", "[100 GX/s,", 8, "unknown unit 'GX/s'"),
    Case("negative", "[100 GB/s,", "[-100 GB/s,", 8, "bandwidth per chip must be from 1 B/s to 1 EB/s"),
    Case("zero", "[100 GB/s,", "[0 GB/s,", 8, "must be from 1 B/s to 1 EB/s"),
    Case("not a number", "[100 GB/s,", "[.nan,", 8, "needs a unit"),
    Case("infinite", "chips: 8", "chips: .inf", 11, "not a finite number"),
    Case("fraction of a chip", "chips: 8", "chips: 8.5", 11, "must be a whole number"),
    Case("underscores", "chips: 8", "chips: 1_000", 11, "without underscores"),
    Case("octal", "chips: 8", "chips: 010", 11, "leading zero"),
    Case("clock time", "chips: 8", "chips: 12:30", 11, "not a clock time"),
    Case("boolean", "chips: 8", "chips: true", 11, "found True"),
    Case("word", "chips: 8", "chips: many", 11, "'many' is not a number"),
    Case("nothing", "chips: 8", "chips:", 11, "found nothing"),
    Case("empty list", "[alpha, beta]", "[]", 6, "found an empty list"),
    Case("list in a list", "[alpha, beta]", "[[alpha]]", 6, "found a list"),
    Case("duplicate value", "[100 GB/s, 200 GB/s]", "[100 GB/s, 1e2 GB/s]", 8, "is the same memory.bandwidth as"),
    Case("duplicate by alias", "[alpha, beta]", "[alpha, a1]", 6, "'a1' is the same chip as 'alpha'"),
    Case("unknown partitioning", "[halves, single]", "[halfs, single]", 13, "did you mean 'halves'?"),
    Case(
        "partitioning of another workload",
        "workload: toy",
        "workload: [toy, plain]",
        13,
        "unknown partitioning 'halves'",
    ),
    # generators
    Case("unknown generator", "{powers_of_two:", "{power_of_two:", 19, "did you mean 'powers_of_two'?"),
    Case(
        "two generators",
        "{powers_of_two: [1, 4]}",
        "{powers_of_two: [1, 4], range: [1, 2, 1]}",
        19,
        "found the keys powers_of_two, range",
    ),
    Case("too few ends", "[1, 4]}", "[1]}", 19, "found 1 values; need [first, last]"),
    Case("no power of two", "[1, 4]}", "[5, 7]}", 19, "both ends count, and 5 is no power of two"),
    Case("fractional count", "[100 GB/s, 200 GB/s]", "{linspace: [1 GB/s, 2 GB/s, 2.5]}", 8, "count must be a whole"),
    Case("huge count", "[100 GB/s, 200 GB/s]", "{linspace: [1 GB/s, 2 GB/s, 1e9]}", 8, "from 2 to 1000000"),
    Case(
        "geomspace from zero",
        "bandwidth: [100 GB/s, 200 GB/s]",
        "energy: {geomspace: [0 J/B, 1 J/B, 3]}",
        8,
        "greater than 0",
    ),
    Case("linspace of nothing", "[100 GB/s, 200 GB/s]", "{linspace: [1 GB/s, 1 GB/s, 3]}", 8, "not all different"),
    Case("range backwards", "{powers_of_two: [1, 4]}", "{range: [4, 1, 1]}", 19, "an empty range"),
    Case("range without end", "{powers_of_two: [1, 4]}", "{range: [1, 1e9, 1]}", 19, "at most 1000000"),
    Case("range with step 0", "{powers_of_two: [1, 4]}", "{range: [1, 4, 0]}", 19, "must be from 1e-6 to 1e12"),
    Case("steps between whole numbers", "{powers_of_two: [1, 4]}", "{linspace: [1, 4, 3]}", 19, "found 2.5"),
    Case("numbers for names", "[alpha, beta]", "{range: [1, 4, 1]}", 6, "but chip is a name"),
    Case("library of numbers", "{powers_of_two: [1, 4]}", "{library: all}", 19, "microbatch is none"),
    Case("empty selection", "[alpha, beta]", "{library: {where: power > 1e9}}", 6, "no chip of the library"),
    Case("unknown tag", "[alpha, beta]", "{library: {tags: [smal]}}", 6, "did you mean 'small'?"),
    Case("unknown name in a selection", "[alpha, beta]", "{library: {where: pwr > 1}}", 6, "unknown name 'pwr'"),
    Case(
        "divisors of an unknown",
        "{tensor_parallel: {divisors_of: chips}",
        "{tensor_parallel: {divisors_of: chip5}",
        17,
        "unknown name 'chip5', did you mean 'chips'?",
    ),
    Case("divisors of many", "  chips: 8", "  chips: [8, 16]", 17, "'chips' has 2 values in this box"),
    Case(
        "divisors of a fraction",
        "{tensor_parallel: {divisors_of: chips}",
        "{tensor_parallel: {divisors_of: chips/3}",
        17,
        "divisors need a whole number",
    ),
    # tables
    Case("no solution", "== chips", "== 2*chips + 1", 18, "none of 16 combinations satisfies this: 0 satisfy"),
    Case("no solution, with the sides", "== chips", "== 2*chips + 1", 18, "(1 to 64 against 17)"),
    Case("unknown name in where", "== chips", "== chipz", 18, "unknown name 'chipz', did you mean 'chips'?"),
    Case("code in where", "== chips", "== len(chips)", 18, "unknown function 'len'"),
    Case("text in where", "where: tensor_parallel *", "where: workload *", 18, "is text"),
    Case("column without values", ", data_parallel: {divisors_of: chips}}", "}", 17, "lacks the key 'data_parallel'"),
    Case("values without column", "[tensor_parallel, data_parallel]", "[tensor_parallel]", 17, "unknown key of values"),
    Case("column twice", "[tensor_parallel, data_parallel]", "[tensor_parallel, tensor_parallel]", 16, "given twice"),
    Case(
        "unknown column of a table",
        "[tensor_parallel, data_parallel]",
        "[tensor_paralel, data_parallel]",
        16,
        "did you mean 'tensor_parallel'?",
    ),
    Case(
        "huge table",
        TABLE,
        "{range: [1, 9999, 1]}, data_parallel: {range: [1, 9999, 1]}",
        17,
        "99980001 combinations; at most 10000000",
    ),
    Case("short row", "  link: cable", "  x: {columns: [link, dim_y], rows: [[cable]]}", 9, "found 1 values"),
    Case("row is no list", "  link: cable", "  x: {columns: [link, dim_y], rows: [cable]}", 9, "a row must be a list"),
    Case(
        "same row twice",
        "  link: cable",
        "  x: {columns: [link, dim_y], rows: [[cable, 1], [cable, 1.0]]}",
        9,
        "the same row",
    ),
    Case("neither rows nor values", "  link: cable", "  x: {columns: [link]}", 9, "either 'rows' or 'values'"),
    Case(
        "where with rows", "  link: cable", "  x: {columns: [link], rows: [[cable]], where: 1}", 9, "goes with 'values'"
    ),
    # assumptions, objectives, output
    Case("unknown set", "[simple,", "[simpel,", 3, "unknown assumptions 'simpel', did you mean 'simple'?"),
    Case("unknown switch", "{overlap: full}", "{overlp: full}", 3, "did you mean 'overlap'?"),
    Case("unknown choice", "{overlap: full}", "{overlap: no}", 3, "unknown choice of overlap 'no'"),
    Case("assumption with a list", "{overlap: full}", "{overlap: [full]}", 3, "found a list"),
    Case("unknown sense", "{minimise:", "{minimize:", 20, "did you mean 'minimise'?"),
    Case(
        "objective as text",
        "{minimise: iteration_time_s}",
        "iteration_time_s",
        20,
        "an objective is {minimise: column}",
    ),
    Case("unknown mode", "mode: best", "mode: fastest", 21, "unknown output mode 'fastest'"),
    Case("boolean as a word", "float32: false", "float32: no", 21, "float32 must be true or false"),
    Case("top_k of zero", "mode: best", "mode: top_k, top_k: 0", 21, "must lie from 1"),
    Case("top_k in another mode", "mode: best", "mode: best, top_k: 4", 21, "nothing reads it in mode best"),
    Case("column listed twice", "[iteration_time_s]", "[cost, cost]", 21, "'cost' is given twice"),
    Case("mode without objective", "objective: {minimise: iteration_time_s}\n", "", 20, "mode best needs an objective"),
    Case(
        "several objectives",
        "{minimise: iteration_time_s}",
        "[{minimise: a}, {maximise: b}]",
        20,
        "mode pareto several",
    ),
    Case(
        "objective twice",
        "{minimise: iteration_time_s}",
        "[{minimise: a}, {maximise: a}]",
        20,
        "is an objective already",
    ),
    Case("empty boxes", "search:", "boxes: []\nsearch:", 14, "found an empty list; boxes"),
    Case("unknown key of a box", "search:", "boxes: [{axis: {}}]\nsearch:", 14, "did you mean 'axes'?"),
    Case("mode without search", "search:\n", "", 20, "mode best needs at least one axis under 'search'"),
]

LIBRARY_CASES = [
    Case("library is a list", FILES[CHIPS], "- alpha\n", 1, "a library file must be a mapping", CHIPS),
    Case("entry is text", FILES[CHIPS], "alpha: fast\n", 1, "found 'fast'; a chip must be a mapping", CHIPS),
    Case("unknown number", "  cores: 4", "  core: 4", 7, "unknown key of a chip 'core', did you mean 'cores'?", CHIPS),
    Case("missing attribute", "  power: 100 W\n", "", 1, "chip 'alpha' lacks 'power'", CHIPS),
    Case(
        "no source",
        "  source: a datasheet\n",
        "",
        1,
        "cores, peak_flops, sram_capacity, power without a source; give one to 'alpha'",
        CHIPS,
    ),
    Case("no grade", "  grade: datasheet\n", "", 1, "without a grade; give one to 'alpha'", CHIPS),
    Case("empty source", "source: a datasheet", "source: ''", 4, "found empty text", CHIPS),
    Case("unknown grade", "grade: datasheet", "grade: guess", 5, "unknown grade 'guess' (allowed: assumed,", CHIPS),
    Case("unknown grade of a number", "grade: estimate}", "grade: guess}", 10, "unknown grade 'guess'", CHIPS),
    Case("wrong unit", "power: 100 W", "power: 100 J", 11, "'100 J' is in J; need a quantity in W, e.g. 700 W", CHIPS),
    Case("negative", "power: 100 W", "power: -100 W", 11, "must be 0 or from 1 nW to 10 TW", CHIPS),
    Case("fractional cores", "cores: 4", "cores: 4.5", 7, "must be a whole number", CHIPS),
    Case("value missing", "{value: 1000 usd, ", "{", 10, "lacks the key 'value'", CHIPS),
    Case(
        "unquoted comma", "source: a price list", "source: a price, a list", 10, "quote text that holds a comma", CHIPS
    ),
    Case("unknown base", "extends: alpha", "extends: alfa_x", 13, "unknown chip to extend 'alfa_x'", CHIPS),
    Case("circle", "  aliases: [a1, Alfa]", "  extends: beta", 13, "extend each other in a circle", CHIPS),
    Case("extends itself", "extends: alpha", "extends: beta", 13, "'beta' extends itself", CHIPS),
    Case("fits nothing", "beta:\n", "beta:\n  fits: {memory: dramm}\n", 13, "name or tag of a memory 'dramm'", CHIPS),
    Case("alias twice", "beta:\n", "beta:\n  aliases: [A1]\n", 13, "'A1' is already a name of 'alpha'", CHIPS),
    Case("alias is a name", "[a1, Alfa]", "[beta]", 2, "'beta' is already a name of 'beta'", CHIPS),
    Case(
        "replaced number without source", "  source: another datasheet\n", "", 12, "peak_flops without a source", CHIPS
    ),
    Case("same name in two files", "", "beta: {}\n", 1, "defined twice (first at", "chips/zz.yaml"),
    Case("unknown dimension", "[ring]", "[rings]", 1, "did you mean 'ring'?", "topologies/topologies.yaml"),
    Case("absent dimension", "[ring]", "[absent]", 1, "unknown kind of dimension", "topologies/topologies.yaml"),
    Case("no dimensions", "{dimensions: [ring]}", "{}", 1, "lacks 'dimensions'", "topologies/topologies.yaml"),
    Case(
        "four dimensions", "[ring]", "[ring, ring, ring, ring]", 1, "found 4 dimensions", "topologies/topologies.yaml"
    ),
    Case(
        "assumption of a role",
        "overlap: none",
        "chip: alpha",
        3,
        "unknown key of assumptions 'chip'",
        "assumptions/assumptions.yaml",
    ),
    Case("bad YAML", "{source: s,", "{source: s", 1, "not YAML", "memories/memories.yaml"),
]

WORKLOAD_CASES = [
    Case("no kernels", "  kernels: [{name: only, type: gemm, m: 8, n: 8}]\n", "", 29, "lacks 'kernels'", WORKLOADS),
    Case("no layers", "  layers: 4\n", "", 2, "lacks 'layers'", WORKLOADS),
    Case("parameter named as a column", "samples: 32", "samples: 32, chips: 32", 4, "'chips' is a column", WORKLOADS),
    Case("parameter named as one", "samples: 32", "samples: 32, min: 32", 4, "cannot name a parameter", WORKLOADS),
    Case("parameter without number", "samples: 32", "samples: few", 4, "'few' is not a number", WORKLOADS),
    Case("unknown symbol", "m: hidden*i", "m: hiden*i", 13, "unknown name 'hiden', did you mean 'hidden'?", WORKLOADS),
    Case("index outside its repeat", "batch: samples", "batch: i", 6, "unknown name 'i'", WORKLOADS),
    Case("text as a dimension", "m: hidden*i", "m: \"'x'\"", 13, "text is no number", WORKLOADS),
    Case("broken expression", "m: hidden*i", "m: hidden*", 13, "cannot read 'hidden*'", WORKLOADS),
    Case("unknown type", "type: elementwise", "type: elementwize", 17, "did you mean 'elementwise'?", WORKLOADS),
    Case("unknown phase", "phase: backward", "phase: backwards", 18, "did you mean 'backward'?", WORKLOADS),
    Case("unknown tile", "tile: n", "tile: outer", 21, "unknown tile 'outer'", WORKLOADS),
    Case("unknown shard", "shard: m", "shard: mm", 22, "unknown shard 'mm'", WORKLOADS),
    Case("unknown split", "split: {m:", "split: {outer:", 24, "unknown key of split 'outer'", WORKLOADS),
    Case("unknown channel", "all_reduce_data", "all_reduce_dat", 25, "did you mean 'all_reduce_data'?", WORKLOADS),
    Case("weight as a word", "weight: true", "weight: yes", 9, "weight must be true or false", WORKLOADS),
    Case("unknown field", "weight: true", "wieght: true", 9, "did you mean 'weight'?", WORKLOADS),
    Case("no dimension", "m: hidden, k: hidden, ", "", 9, "a kernel lacks the key 'm'", WORKLOADS),
    Case("unknown input", "inputs: [step_3]", "inputs: [stop_3]", 23, "did you mean 'step_3'?", WORKLOADS),
    Case("input twice", "inputs: [step_3]", "inputs: [step_3, step_3]", 23, "is given twice", WORKLOADS),
    Case("duplicate kernel", "name: last", "name: first", 16, "duplicate kernel 'first' (first at line 9)", WORKLOADS),
    Case("name without index", '"step_{i}"', "step", 10, "duplicate kernel 'step'", WORKLOADS),
    Case("unknown reduction", "tile: n", "reduces: k", 21, "unknown reduces 'k'", WORKLOADS),
    Case("product that reduces", "weight: true", "reduces: m", 9, "only elementwise kernels reduce", WORKLOADS),
    Case("weight of no kernel", "tile: n", "of: frist", 21, "did you mean 'first'?", WORKLOADS),
    Case("weight of none", "tile: n", "of: step_1", 21, "'step_1' is no forward kernel with a weight", WORKLOADS),
    Case("other weight", "tile: n", "of: first", 21, "do not share a weight, theirs are: 64 x 64; 1 x 64", WORKLOADS),
    Case("weight split apart", "tile: n", "of: first\n      k: hidden", 21, "no split is open to all", WORKLOADS),
    Case("carried from none", "tile: n", "carried: [frist]", 21, "did you mean 'first'?", WORKLOADS),
    Case("carried from a pass", "tile: n", "carried: [first]", 21, "only another kernel of the same pass", WORKLOADS),
    Case("cycle", "{name: first, ", "{name: first, inputs: [last], ", 9, "the inputs form a cycle", WORKLOADS),
    Case("empty repeat", "{i: [1, 3]}", "{i: [3, 1]}", 11, "3 is greater than 1", WORKLOADS),
    Case("huge repeat", "{i: [1, 3]}", "{i: [1, 999999]}", 11, "999999 kernels; a workload has at most", WORKLOADS),
    Case("fractional repeat", "{i: [1, 3]}", "{i: [1, hidden/3]}", 11, "must be a whole number", WORKLOADS),
    Case("repeat by the mapping", "{i: [1, 3]}", "{i: [1, chips]}", 11, "unknown name 'chips'", WORKLOADS),
    Case("index named as a parameter", "{i: [1, 3]}", "{hidden: [1, 3]}", 11, "cannot name an index", WORKLOADS),
    Case("fractional index", '"step_{i-1}"', '"step_{i/2}"', 15, "an index must be a whole number", WORKLOADS),
    Case("unknown index", '"step_{i-1}"', '"step_{j}"', 15, "unknown name 'j'", WORKLOADS),
    Case("unbalanced braces", '"step_{i-1}"', '"step_{i"', 15, "unbalanced braces", WORKLOADS),
    Case("kernel in no partition", "[step_2..last]", "[step_3..last]", 27, "stand in no partition: step_2", WORKLOADS),
    Case("kernel in two partitions", "[step_2..last]", "[step_1..last]", 27, "is already in partition 1", WORKLOADS),
    Case("unknown kernel", "[step_2..last]", "[step_2..lost]", 27, "did you mean 'last'?", WORKLOADS),
    Case("kernels backwards", "[step_2..last]", "[last..step_2]", 27, "an empty range", WORKLOADS),
    Case("partitions against the edges", "[[first, step_1], [step_2..last]]", "[[step_2..last], [first, step_1]]", 27,
         "in the later partition", WORKLOADS),
    Case("built-in partitioning", "halves:", "single:", 27, "cannot be redefined", WORKLOADS),
]  # fmt: skip


def place(root: Path, case: Case) -> None:
    """Write the small specs with one mistake."""
    files = {
        **FILES,
        "study.yaml": STUDY.replace("workload: toy", "workload: plain") if case.name == "no kernels" else STUDY,
    }
    text = files.get(case.file, "")
    assert case.old in text
    files[case.file] = text.replace(case.old, case.new, 1)
    write_files(root, files)


@pytest.mark.parametrize("case", [*STUDY_CASES, *LIBRARY_CASES, *WORKLOAD_CASES], ids=lambda case: case.name)
def test_a_mistake_is_named_where_it_is(tmp_path: Path, case: Case) -> None:
    place(tmp_path, case)
    with pytest.raises(SpecError) as caught:
        load_study(tmp_path / "study.yaml", [tmp_path])
    problems = caught.value.problems
    found = [problem for problem in problems if problem.line == case.line and case.fragment in problem.message]
    assert found, "\n" + str(caught.value)
    assert found[0].file == str(tmp_path / case.file)
    assert str(found[0]).startswith(f"{tmp_path / case.file}:{case.line}:")
    assert all(problem.line >= 1 and problem.column >= 1 for problem in problems)
    # One mistake has at most two consequences: a list of ten messages would hide it.
    assert len(problems) <= 3, "\n" + str(caught.value)


def test_all_mistakes_are_reported_at_once_in_order(tmp_path: Path) -> None:
    text = STUDY.replace("dram", "dran").replace("chips: 8", "chips: 8.5").replace("mode: best", "mode: worst")
    text = text.replace("title", "titel").replace("[1, 4]", "[1, four]").replace("{overlap: full}", "{overlap: ful}")
    write_files(tmp_path, {**FILES, "study.yaml": text})
    with pytest.raises(SpecError) as caught:
        load_study(tmp_path / "study.yaml", [tmp_path])
    assert [problem.line for problem in caught.value.problems] == [2, 3, 7, 11, 19, 21]


@pytest.mark.parametrize(
    ("data", "line", "fragment"),
    [
        (b"", 1, "the file is empty"),
        (b"# nothing here\n", 1, "the file is empty"),
        (b"study: a\ntitle: caf\xe9\n", 2, "byte 0xe9 is not UTF-8"),
        (b"study: a\n" + b"# padding\n" * 500_000, 1, "larger than 4000000 bytes"),
        ("study: a".encode("utf-16"), 1, "is not UTF-8"),
        (b"\x00\x01\x02", 1, "is not allowed in YAML"),
        (b"just text\n", 1, "a study must be a mapping"),
        (b"- a\n- b\n", 1, "a study must be a mapping"),
    ],
)
def test_files_that_are_no_study(tmp_path: Path, data: bytes, line: int, fragment: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_bytes(data)
    with pytest.raises(SpecError) as caught:
        load_study(path)
    assert any(problem.line == line and fragment in problem.message for problem in caught.value.problems)


def test_the_message_of_many_mistakes_ends(tmp_path: Path) -> None:
    names = ", ".join(f"nothing_{number}" for number in range(3000))
    write_files(tmp_path, {**FILES, "study.yaml": STUDY.replace("[alpha, beta]", f"[{names}]")})
    with pytest.raises(SpecError) as caught:
        load_study(tmp_path / "study.yaml", [tmp_path])
    assert len(caught.value.problems) == 3000
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (101, "... and 2900 more mistakes")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot read the file: No such file"):
        load_study(tmp_path / "none.yaml")
    with pytest.raises(SpecError, match="cannot read the file: Is a directory"):
        load_study(tmp_path)


def test_aliases_cannot_explode() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    with pytest.raises(SpecError, match="values once aliases are expanded"):
        parse_yaml("\n".join(lines))
    nested = ["a0: &a0 [[[[[[[[[[x]]]]]]]]]]"] + [f"a{i}: &a{i} [[[[[*a{i - 1}]]]]]" for i in range(1, 30)]
    with pytest.raises(SpecError, match="nests deeper"):
        parse_yaml("\n".join(nested))


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: [2,\r\n 3]\r\n")
    assert read_yaml(path).plain() == {"a": 1, "b": [2, 3]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0), ("1e-4", 1e-4), (".5", 0.5), ("-7", -7), ("+1", 1), ("no", "no"), ("Yes", "Yes"),
        ("true", True), ("~", None), ("", None), ("010", "010"), ("12:30", "12:30"), ("1_000", "1_000"),
        ("0x10", "0x10"), ("2024-01-01", "2024-01-01"), ("'1'", "1"), ('"true"', "true"), ("=", "="),
        ("9" * 30, 1e30), (".inf", float("inf")),
    ],
)  # fmt: skip
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    found = parse_yaml(f"a: {text}").plain()["a"]
    assert found == value
    assert type(found) is type(value)
