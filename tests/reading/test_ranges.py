"""What is possible: every number of the vocabulary has a range, and what lies beyond it is refused where it stands."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from sweeper.cli import main
from sweeper.errors import Problem, SpecError
from sweeper.library.agreement import RULES
from sweeper.library.library import FOLDERS, Library, builtin_specs
from sweeper.library.packages.reader import read_package
from sweeper.planning.plan import make_plan
from sweeper.reading.limits import possible
from sweeper.reading.nodes import parse_yaml
from sweeper.study.axes import Constants, read_axis
from sweeper.study.columns import Stock, read_value
from sweeper.study.study import load_study
from sweeper.words.attributes import Attribute
from sweeper.words.models import MODEL
from sweeper.words.packages import DIE, LINK_ROW, PACKAGE
from sweeper.words.ranges import BUCKET, BY_UNIT
from sweeper.words.system import ATTRIBUTES, NUMERIC
from tests.support.examples import examples

HUGE = (1e19, 2.0**63, 1e31, 1e308)
TINY = (5e-324, 1e-31)
WRITTEN = (".nan", ".inf", "-.inf", "1e400", "1" + "0" * 400)
"""What no range holds: numbers, and texts that are none."""

TABLE = "operators: []"


def impossible(attribute: Attribute) -> list[str]:
    """Texts of numbers outside the range of an attribute: next to its ends, far beyond them, and without a value."""
    return [with_unit(text, attribute) for text in (*map(repr, beyond(attribute)), *WRITTEN)]


def beyond(attribute: Attribute) -> list[float]:
    """Numbers outside the range of an attribute."""
    low, high = attribute.range
    near = (math.nextafter(low, 0.0), math.nextafter(high, math.inf), -low, -high, low + 0.5)
    return [number for number in (*near, -1.0, 0.0, *HUGE, *TINY) if not attribute.allows(number)]


def allowed(attribute: Attribute) -> list[str]:
    """Texts of the ends of a range, and of 0 where that is allowed."""
    numbers = (*attribute.range, *(() if attribute.positive else (0.0,)))
    return [with_unit(repr(number), attribute) for number in numbers]


def with_unit(text: str, attribute: Attribute) -> str:
    return f"{text} {attribute.unit}".strip()


def turns(texts: Mapping[str, list[str]]) -> list[dict[str, str]]:
    """Every text of every name, one of each name at a time."""
    most = max(map(len, texts.values()))
    return [{name: some[min(turn, len(some) - 1)] for name, some in texts.items()} for turn in range(most)]


def lines_of(values: Mapping[str, str], indent: int) -> str:
    return "".join(f"{' ' * indent}{name}: {text}\n" for name, text in values.items())


def complaints(problems: Iterable[Problem]) -> set[tuple[str, int, int]]:
    """Where numbers are refused."""
    return {
        (problem.file, problem.line, problem.column)
        for problem in problems
        if any(word in problem.message for word in ("must be", "finite", "not a number", "too large", "characters"))
    }


def found_in(path: Path, library: Iterable[Path] = ()) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        load_study(path, list(library))
    return caught.value.problems


def test_every_number_of_a_study_is_refused_beyond_its_range(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    for values in turns({name: impossible(attribute) for name, attribute in NUMERIC.items()}):
        path.write_text("study: hostile\naxes:\n" + lines_of(values, 2))
        places = {(str(path), line, len(name) + 5) for line, name in enumerate(values, 3)}
        assert places - complaints(found_in(path)) == set()


def test_every_number_of_a_study_may_lie_at_the_ends_of_its_range(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    for values in turns({name: allowed(attribute) for name, attribute in NUMERIC.items()}):
        path.write_text("study: extreme\naxes:\n" + lines_of(values, 2))
        assert complaints(found_in(path)) == set()


ENTRIES = {
    **{kind: (attributes, "", 2) for kind, attributes in ATTRIBUTES.items()},
    "package": (PACKAGE, "  parameters:\n", 4),
    "workload": (MODEL, f"  {TABLE}\n  parameters:\n", 4),
}
"""Numbers of every kind of entry, what stands before them, and by how much they are indented."""


def entries_problems(root: Path, kind: str, entries: Iterable[str]) -> list[Problem]:
    """What is wrong with the numbers of some entries, each in a library of its own."""
    problems = []
    for number, text in enumerate(entries):
        path = root / str(number) / FOLDERS[kind] / "numbers.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        try:
            Library.load([root / str(number)]).select(kind)
        except SpecError as fault:
            problems += fault.problems
    return problems


@pytest.mark.parametrize("kind", ENTRIES)
def test_every_number_of_an_entry_is_refused_beyond_its_range(tmp_path: Path, kind: str) -> None:
    attributes, before, indent = ENTRIES[kind]
    head = f"entry:\n  source: s\n  grade: assumed\n{before}"
    texts = turns({name: impossible(attribute) for name, attribute in attributes.items()})
    found = complaints(entries_problems(tmp_path, kind, [head + lines_of(values, indent) for values in texts]))
    first = head.count("\n") + 1
    for number in range(len(texts)):
        file = str(tmp_path / str(number) / FOLDERS[kind] / "numbers.yaml")
        places = {(file, line, indent + len(name) + 3) for line, name in enumerate(attributes, first)}
        assert places - found == set()


@pytest.mark.parametrize("kind", ENTRIES)
def test_every_number_of_an_entry_may_lie_at_the_ends_of_its_range(tmp_path: Path, kind: str) -> None:
    attributes, before, indent = ENTRIES[kind]
    head = f"entry:\n  source: s\n  grade: assumed\n{before}"
    texts = turns({name: allowed(attribute) for name, attribute in attributes.items()})
    problems = entries_problems(tmp_path, kind, [head + lines_of(values, indent) for values in texts])
    # Not all may lie there together: a panel has no diameter.
    apart = tuple(rule.why for rule in RULES)
    assert [problem for problem in problems if not problem.message.endswith(apart)] == []


@pytest.mark.parametrize("end", ["low", "high"])
def test_both_ends_of_an_uncertain_number_must_be_possible(tmp_path: Path, end: str) -> None:
    for kind, attributes in ATTRIBUTES.items():
        head = "entry:\n  source: s\n  grade: assumed\n"
        numbers = {
            name: f"{{value: {allowed(attribute)[0]}, {end}: {impossible(attribute)[end == 'high']}}}"
            for name, attribute in attributes.items()
        }
        places = [
            (line, len(f"  {name}: {text}") - len(text.split(f"{end}: ")[1]) + 1)
            for line, (name, text) in enumerate(numbers.items(), 4)
        ]
        problems = entries_problems(tmp_path / kind, kind, [head + lines_of(numbers, 2)])
        assert set(places) - {(line, column) for _, line, column in complaints(problems)} == set()


PACKAGE_PARTS = {
    "die": (DIE, "p:\n  dies:\n    - {carrier}\n    - name: die\n      on: root\n{process}{numbers}"),
    "link": (
        LINK_ROW,
        "p:\n  dies:\n    - {carrier}\n  links:\n    - from: root\n      to: outside\n{interface}{numbers}",
    ),
}
"""Numbers of the parts of a package, and a design that has them."""


@pytest.mark.parametrize("part", PACKAGE_PARTS)
def test_numbers_of_dies_and_links_are_refused_beyond_their_range(tmp_path: Path, part: str) -> None:
    attributes, design = PACKAGE_PARTS[part]
    path = tmp_path / FOLDERS["package"] / "p.yaml"
    path.parent.mkdir()
    library = Library.load([builtin_specs()])
    first = {kind: library.names(kind)[0] for kind in ("node", "wafer", "assembly", "test", "interface")}
    process = {kind: name for kind, name in first.items() if kind != "interface"}
    carrier = "{name: root, " + ", ".join(f"{kind}: {name}" for kind, name in process.items()) + "}"
    interface = f"      interface: {first['interface']}\n"
    for values in turns({name: [with_unit(repr(x), a) for x in beyond(a)] for name, a in attributes.items()}):
        numbers = lines_of(values, 6)
        text = design.format(carrier=carrier, process=lines_of(process, 6), interface=interface, numbers=numbers)
        path.write_text(text)
        library = Library.load([tmp_path, builtin_specs()])
        with pytest.raises(SpecError) as caught:
            read_package(library.find("package", "p"), library)
        last = text.count("\n") - len(values) + 1
        places = {(str(path), line, len(name) + 9) for line, name in enumerate(values, last)}
        assert places - complaints(caught.value.problems) == set()


def test_parameters_that_a_workload_names_itself_are_refused_beyond_what_any_number_may_be(tmp_path: Path) -> None:
    head = "entry:\n  source: s\n  grade: assumed\n  parameters:\n"
    values = {f"p{i}": text for i, text in enumerate(["1e19", "1e-31 s", "-1", ".nan", ".inf", "1e10 EB"])}
    problems = entries_problems(tmp_path, "workload", [head + lines_of(values, 4)])
    assert [(problem.line, problem.column) for problem in problems] == [(line, 9) for line in range(5, 11)]


def test_a_message_says_what_was_found_and_what_is_possible(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("study: far\naxes:\n  memory.bandwidth: [1 TB/s, 1e30 TB/s]\n")
    answer = CliRunner().invoke(main, ["validate", str(path)])
    assert answer.exit_code == 2
    message = "found '1e30 TB/s'; bandwidth per chip must be from 1 B/s to 1 EB/s"
    assert f"{path}:3:30: axes.memory.bandwidth[2]: {message}" in answer.output


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chip.cores", "a whole number from 1 to 1e9"),
        ("chip.price", "0 or from 1e-6 usd to 1e15 usd"),
        ("link.latency", "0 or from 1 fs to 3.1536e10 s"),
        ("link.processor_share", "0 or from 1e-12 to 0.99"),
        ("sequence_parallel", "0 or 1"),
        ("zero_stage", "0 or a whole number from 1 to 3"),
        ("lane.nominal_voltage", "from 50 mV to 50 V"),
    ],
)
def test_ranges_in_words(name: str, text: str) -> None:
    assert possible(NUMERIC[name]) == text


@pytest.mark.parametrize(
    ("details", "fragment"),
    [
        ({}, "no unit that tells its limits"),
        ({"limits": (0.0, 1.0)}, "needs limits above 0"),
        ({"limits": (1.0, math.inf)}, "needs limits above 0 and below infinity"),
        ({"limits": (2.0, 1.0)}, "the less first"),
        ({"limits": (1.0, 2.0), "default": 3.0}, "the default of 'width' is not possible"),
        ({"limits": (1.0, 2.0), "default": 0.0}, "the default of 'width' is not possible"),
        ({"limits": (1.0, 2.0), "default": 1.5, "integer": True}, "the default of 'width' is not possible"),
    ],
)
def test_an_attribute_needs_a_range_that_holds_its_default(details: dict[str, object], fragment: str) -> None:
    with pytest.raises(ValueError, match=fragment):
        Attribute("", "width", **details)  # type: ignore[arg-type]


def test_whole_numbers_are_exact_in_64_bits() -> None:
    assert max(attribute.range[1] for attribute in NUMERIC.values() if attribute.integer) < 2.0**53
    assert {attribute.range[0] for attribute in NUMERIC.values() if attribute.integer} == {1.0, BUCKET[0]}


def test_products_of_ten_numbers_stay_in_float64() -> None:
    ends = sorted((low, high) for low, high in BY_UNIT.values())
    assert math.isfinite(max(high for _, high in ends) ** 10)
    assert min(low for low, _ in ends) ** 10 > 1e-250


def test_every_number_of_the_built_in_library_is_possible() -> None:
    stock = Stock(Library.load([builtin_specs()]))
    stock.library.check()
    for role in ("workload", "package", "calibration"):
        for name in stock.library.names(role):
            assert read_value(role, parse_yaml(name), stock) == name


GENERATORS = {"linspace": 3, "geomspace": 3, "range": 3, "powers_of_two": 2}


@st.composite
def generated(draw: st.DrawFn) -> tuple[str, str]:
    """A column, and a generator with ends in, at and beyond its range."""
    name = draw(st.sampled_from(sorted(NUMERIC)))
    low, high = NUMERIC[name].range
    spread = st.floats(-2.0, math.log10(high / low) + 2.0).map(lambda exponent: low * 10.0**exponent)
    end = st.one_of(st.sampled_from([low, high, 0.0, 1e300, 5e-324]), spread, spread.map(lambda x: float(f"{x:.1g}")))
    key = draw(st.sampled_from(sorted(GENERATORS)))
    numbers = [with_unit(repr(draw(end)), NUMERIC[name]) for _ in range(GENERATORS[key])]
    if key in ("linspace", "geomspace"):
        numbers[-1] = str(draw(st.integers(2, 40)))
    return name, f"{{{key}: [{', '.join(numbers)}]}}"


@examples(600)
@given(generated())
def test_generators_give_possible_numbers_or_are_refused(case: tuple[str, str]) -> None:
    name, text = case
    try:
        axis = read_axis(name, parse_yaml(text), False, Stock(Library([])), Constants({}, {}))
    except SpecError:
        return
    assert all(NUMERIC[name].allows(float(number)) for (number,) in axis.rows)


WORKLOAD = """\
entry:
  source: s
  grade: assumed
  parameters: {side: 1e12, none: 0}
  layers: 1
  batch: 1
  word: 2
  kernels:
    - name: "k_{i}"
      repeat: {i: [1, 3]}
      type: gemm
      m: side
      n: 8
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "fragment"),
    [
        ("m: side", "m: side * side", 12, "'side * side' gives 1e+24; m must be 0 or from 1e-30 to 1e18"),
        ("m: side", "m: side / none", 12, "gives inf; m must be 0"),
        ("m: side", "m: none / none", 12, "gives nan; m must be 0"),
        ("m: side", "m: 2 - i", 12, "gives -1; m must be 0"),
        ("n: 8", "split: {m: 0 - side}\n      n: 8", 13, "split of m must be 0"),
        ("n: 8", "n: 8\n      collectives: [{channel: all_reduce_data, bytes: side**2}]", 14, "bytes must be 0"),
        ("batch: 1", "batch: side**2", 6, "batch must be 0"),
        ("word: 2", "word: 5e-324", 7, "word must be 0"),
    ],
)
def test_what_expressions_of_a_graph_give_must_be_possible(
    tmp_path: Path, old: str, new: str, line: int, fragment: str
) -> None:
    path = tmp_path / "workloads" / "w.yaml"
    path.parent.mkdir()
    path.write_text(WORKLOAD.replace(old, new))
    with pytest.raises(SpecError) as caught:
        Stock(Library.load([tmp_path])).workload("entry")
    assert [problem.line for problem in caught.value.problems] == [line]
    assert fragment in caught.value.problems[0].message


def test_what_expressions_of_an_operator_table_give_must_be_possible(tmp_path: Path) -> None:
    text = (builtin_specs() / "workloads" / "decoder.yaml").read_text(encoding="utf-8")
    path = tmp_path / "workloads" / "decoder.yaml"
    path.parent.mkdir()
    old = next(line for line in text.splitlines() if line.strip().startswith("head_layers:"))
    path.write_text(text.replace(old, f"{old.split(':')[0]}: (hidden * 1e9)**2"))
    library = Library.load([tmp_path, builtin_specs()])
    with pytest.raises(SpecError, match="head_layers must be 0 or from 1e-30 to 1e18") as caught:
        Stock(library).workload(library.names("workload")[0])
    assert caught.value.problems[0].line == text.splitlines().index(old) + 1


def test_what_expressions_of_a_package_give_must_be_possible(tmp_path: Path) -> None:
    library = Library.load([builtin_specs()])
    name = next(name for name in library.names("package") if "silicon_area" in library.find("package", name).values)
    path = tmp_path / "packages" / "p.yaml"
    path.parent.mkdir()
    of = library.find("package", name).body["dies"].plain()[-1]["name"]
    die = f"{{name: {of}, core_area: silicon_area * 1e9}}"
    path.write_text(f"p:\n  extends: {name}\n  source: s\n  grade: assumed\n  dies:\n    - {die}\n")
    mine = Library.load([tmp_path, builtin_specs()])
    with pytest.raises(SpecError) as caught:
        read_package(mine.find("package", "p"), mine)
    (problem,) = (problem for problem in caught.value.problems if problem.file == str(path))
    assert "area without interfaces must be 0 or from 1e-12 mm" in problem.message
    assert problem.line == 6


STUDY = """\
study: sizes
axes:
  workload: {workload}
  {numbers}
  chip: a100_sxm4_80gb
  memory: hbm2e
  link: nvlink3
  topology: ring
  chips: 8
  dim_x: 8
"""


@pytest.mark.parametrize(
    ("workload", "numbers", "message"),
    [
        ("llama2_7b", "workload.layers: 1", ""),
        (
            "llama2_7b",
            "{microbatch: 1e12, sequence_length: 1e12}",
            "gives 1.6384e+28 in operator embedding of 'llama2_7b'",
        ),
        ("llama2_7b", "{microbatch: [1, 1e12], sequence_length: 1e12}", ""),
        ("gpt3_1t", "microbatch: 1", ""),
        ("gpt3_1t", "microbatch: 1e12", "of 'gpt3_1t'; it must be 0 or from 1e-30 to 1e18"),
    ],
)
def test_sizes_that_the_numbers_of_a_study_make_impossible_are_told_before_a_run(
    tmp_path: Path, workload: str, numbers: str, message: str
) -> None:
    path = tmp_path / "sizes.yaml"
    lines = numbers.strip("{}").replace(", s", "\n  s")
    path.write_text(STUDY.format(workload=workload, numbers=lines))
    if not message:
        assert make_plan(path).point_count >= 1
        return
    with pytest.raises(SpecError) as caught:
        make_plan(path)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (3, 3)
    assert message in problem.message


@pytest.mark.parametrize("step", ["[1e31 flop, 1]", "[5e-324 flop, 1]", "[1 flop, 1.5]", "[1 flop, 5e-324]"])
def test_steps_of_efficiency_curves_must_be_possible(tmp_path: Path, step: str) -> None:
    path = tmp_path / "calibrations" / "c.yaml"
    path.parent.mkdir()
    path.write_text(f"c:\n  source: s\n  grade: assumed\n  efficiency_curves:\n    matrix: [{step}, [0 flop, 0.5]]\n")
    with pytest.raises(SpecError) as caught:
        read_value("calibration", parse_yaml("c"), Stock(Library.load([tmp_path])))
    assert [problem.line for problem in caught.value.problems] == [5]
    assert "must be" in caught.value.problems[0].message
