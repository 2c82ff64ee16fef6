"""Where combinations lie, which of them are alike, and what is taken from the domain before."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweeper
from sweeper.engine.evaluation import FEW, Evaluation, evaluate, largest_B
from sweeper.engine.folding import folded, together
from sweeper.engine.forms import fold
from sweeper.engine.numbering import (
    Combinations,
    Index,
    fast_parts,
    index_at,
    index_between,
    layout_of,
    listed,
    strides,
    total,
)
from sweeper.engine.space import Axis, Box, Factor, Points, grids
from sweeper.kernels.models import EQUATIONS
from sweeper.kernels.numbering import write_cycle, write_digits
from sweeper.library.library import builtin_specs
from tests.places import ROOT
from tests.support.examples import compared, examples


@pytest.mark.parametrize("few", [0, 1000], ids=["by kernels", "without"])
@pytest.mark.parametrize("seed", range(6))
def test_rows_are_alike_if_all_keys_are(seed: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of few values; both zeros, which are equal and differ in bits, are told apart."""
    monkeypatch.setattr("sweeper.engine.forms.FEW", few)
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 200))
    keys = [random.choice([0.0, -0.0, 1.0, np.nan][: 2 + seed % 3], count) for _ in range(1 + seed % 3)]
    keys.append(random.choice([0.0, 2.0], (count, 1 + seed % 2)))
    rows, number = fold(count, keys)
    words = [key.view(np.int64).reshape(count, -1).tolist() for key in keys]
    bits = [tuple(map(tuple, row)) for row in zip(*words, strict=True)]
    first = list(dict.fromkeys(bits))
    assert [bits[row] for row in rows] == first
    assert [bits.index(alike) for alike in first] == rows.tolist()
    assert [first[at] for at in number] == bits


def test_one_key_that_agrees_does_not_make_rows_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should rows that differ ever be mixed to the same number, nothing is folded."""

    def careless(mix: np.ndarray, rows: np.ndarray, number: np.ndarray) -> int:
        rows[0] = number[:] = 0
        return 1

    monkeypatch.setattr("sweeper.engine.forms.FEW", 0)
    monkeypatch.setattr("sweeper.engine.forms.alike", careless)
    for other in (np.array([1.0, 2.0, 1.0]), np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 1.0]])):
        rows, number = fold(3, [np.array([1.0, 1.0, 1.0]), other])
        assert (rows.tolist(), number.tolist()) == ([0, 1, 2], [0, 1, 2])
    assert fold(2, [np.array([1.0, 1.0])])[0].tolist() == [0]


def test_without_keys_all_rows_are_one() -> None:
    rows, number = fold(4, [])
    assert (rows.tolist(), number.tolist()) == ([0], [0, 0, 0, 0])


def factors(random: np.random.Generator, count: int) -> tuple[Factor, ...]:
    """Factors of two columns each, `a0`, `b0`, `a1`, ..., of few values."""
    found = []
    for number in range(count):
        size = int(random.integers(1, 6))
        codes = {f"{letter}{number}": random.integers(0, 3, size).astype(np.int32) for letter in "ab"}
        found.append(Factor(codes, size))
    return tuple(found)


def codes_of(domain: tuple[Factor, ...], columns: frozenset[str], rows: tuple[int, ...]) -> tuple[int, ...]:
    """Codes of some columns at a point, given its row of every factor."""
    return tuple(
        int(f.codes[name][row])
        for f, row in zip(domain, rows, strict=True)
        for name in sorted(columns & f.codes.keys())
    )


@examples(200)
@given(st.integers(0, 2**32 - 1))
def test_an_index_leads_to_the_combination_of_fewer_columns(seed: int) -> None:
    random = np.random.default_rng(seed)
    domain = factors(random, int(random.integers(1, 4)))
    names = [name for factor in domain for name in factor.codes]
    wide = frozenset(name for name in names if random.random() < 0.6)
    narrow = frozenset(name for name in wide if random.random() < 0.6)
    forms = tuple(factor.form for factor in domain)
    child, parent = Combinations(forms, wide), Combinations(forms, narrow)
    places = list(itertools.product(*(rows.tolist() for rows in child.rows)))
    assert len({codes_of(domain, wide, place) for place in places}) == child.count == len(places)
    entries = [codes_of(domain, narrow, place) for place in itertools.product(*(r.tolist() for r in parent.rows))]
    index = index_between(child, parent)
    assert [entries[at] for at in index.all] == [codes_of(domain, narrow, place) for place in places]
    assert index.is_itself == (index.all.tolist() == list(range(child.count)))
    for slow in range(len(domain) + 1):
        before, behind = index.halves(slow)
        assert (before[:, None] + behind).reshape(-1).tolist() == index.all.tolist()
    every = list(itertools.product(*(range(factor.size) for factor in domain)))
    points = random.integers(0, len(every), 7)
    found = [codes_of(domain, narrow, every[point]) for point in points]
    whole = index_between(Combinations(forms, None), parent)
    assert [entries[at] for at in whole.all[points]] == found
    assert [entries[at] for at in index_at(listed(points, domain), whole).all] == found


def test_axes_of_the_same_form_share_their_numbering_and_lists_of_points_do_not() -> None:
    rows = tuple((float(v), name) for v, name in zip((1, 2, 2, 3, 4, 4, 5, 6, 7), "aabccdeef", strict=True))
    (grid,) = grids([Box((Axis("x", ("x", "name"), rows, False), Axis("y", ("y",), ((1.0,), (2.0,)), False)))])
    one, two, other = (layout_of(grid.slice([(low, low + 3), (0, 2)])) for low in (0, 3, 6))
    assert one is two, "1 2 2 and 3 4 4, a a b and c c d"
    assert one is not other, "5 6 7, e e f: alike in their names alone"
    lists = [layout_of(grid.listing(np.array(numbers))) for numbers in ([0, 1], [2, 3])]
    assert lists[0] is not lists[1]


def test_networks_of_layers_are_compared_by_content() -> None:
    """Otherwise layers are evaluated for every link that they do not use: ten times as often in a search of Llama."""
    (network,) = (o for equation in EQUATIONS for o in equation.outputs if o.name == "layer_network")
    assert math.prod(int(length) for length in network.shape) <= FEW


def test_what_folding_numbered_is_looked_up() -> None:
    numbers = np.array([5, 6, 5, 7], np.uint32)
    index = Index((2, 2), (np.array([0, 2], np.uint32), np.array([0, 1], np.uint32)), numbers)
    assert index.all.tolist() == [5, 6, 5, 7]
    assert not index.is_itself
    domain = (Factor({"a": np.arange(4)}, 4),)
    whole = layout_of(domain).index(None, frozenset("a"))
    some = replace(index_at(listed(np.array([3, 0]), domain), whole), numbers=numbers)
    assert some.all.tolist() == [7, 5]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
@examples(40)
def test_points_have_what_belongs_to_their_values(sizes: list[int], data: st.DataObject) -> None:
    """Runs of points that begin and end anywhere, and points here and there."""
    axes = tuple(
        Axis(f"a{k}", (f"a{k}",), tuple((float(v),) for v in range(size)), False) for k, size in enumerate(sizes)
    )
    (grid,) = grids([Box(tuple(axes))])
    first = data.draw(st.integers(0, grid.points - 1))
    until = data.draw(st.integers(first + 1, grid.points))
    some = data.draw(st.lists(st.integers(0, grid.points - 1), unique=True).map(sorted))
    for numbers in (np.arange(first, until), np.array(some, np.int64)):
        points = Points(grid, numbers)
        for k, size in enumerate(sizes):
            by_value = np.arange(size) ** 2
            assert points.taken(f"a{k}", by_value).tolist() == by_value[grid.digits(numbers)[k]].tolist()
        assert points.taken("of_no_axis", np.array([7.0])).tolist() == [7.0] * len(numbers)


def test_numbers_of_parts_in_mixed_radix() -> None:
    assert strides((4, 3, 2)) == [6, 2, 1]
    assert total((), ()).tolist() == [0]
    assert total((2, 3), (None, None)).tolist() == [0] * 6


@pytest.mark.parametrize("sizes", [(), (1,), (100_000,), (5, 20_000), (20_000, 5), (2, 100, 100, 5)])
def test_the_inner_loop_is_long_and_both_lists_are_short(sizes: tuple[int, ...]) -> None:
    slow = fast_parts(sizes)
    outer, inner = math.prod(sizes[:slow]), math.prod(sizes[slow:])
    assert outer * inner == math.prod(sizes)
    assert inner >= min(math.prod(sizes), 100)


@compared()
@given(st.integers(0, 2**32 - 1))
def test_folded_parts_are_those_of_all_combinations(seed: int) -> None:
    """Against comparing the keys of all combinations: alike are those that read the same entries' values."""
    random = np.random.default_rng(seed)
    sizes = tuple(random.integers(1, 5, random.integers(1, 5)).tolist())
    indices, columns = [], []
    for _ in range(random.integers(0, 4)):
        parts = [part for part, size in enumerate(sizes) if size > 1 and random.random() < 0.5]
        steps: list[np.ndarray | None] = [None] * len(sizes)
        for part, stride in zip(parts, strides([sizes[part] for part in parts])):
            steps[part] = (np.arange(sizes[part]) * stride).astype(np.uint32)
        entries = math.prod(sizes[part] for part in parts)
        numbers = random.integers(0, entries, entries).astype(np.uint32) if random.random() < 0.3 else None
        indices.append(Index(sizes, tuple(steps), numbers))
        columns.append(random.integers(0, 2, entries).astype(float))
    found = folded(sizes, indices, lambda places: [columns[origin][place] for origin, place in places.items()])
    read = [column[index.all] for column, index in zip(columns, indices, strict=True)]
    at = [index.all for index in found.indices]
    for column, values, places in zip(columns, read, at, strict=True):
        assert np.array_equal(column[places][found.numbers], values)
    kept = [tuple(column[places[n]] for column, places in zip(columns, at)) for n in range(len(at[0]) if at else 0)]
    assert len(set(kept)) == len(kept)
    assert set(found.numbers.tolist()) == set(range(max(len(kept), 1)))


def test_parts_that_are_read_together_however_indirectly() -> None:
    chain = [frozenset({0, 1}), frozenset({4}), frozenset({2, 3}), frozenset({3, 1})]
    assert together(chain) == [(0, 1, 2, 3), (4,)]


@compared()
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.lists(st.integers(0, 10**6), max_size=20), st.booleans())
def test_digits_are_those_of_the_numbers(sizes: list[int], picked: list[int], counted: bool) -> None:
    points = math.prod(sizes)
    numbers = np.array([n % points for n in picked], np.int64)
    if counted and len(numbers):
        numbers = np.sort(np.concatenate([numbers, np.arange(numbers[0], points)]))
    digits = np.full((len(sizes), len(numbers)), -1, np.int64)
    write_digits(numbers, np.array(sizes, np.int64), digits)
    assert np.array_equal(digits, np.array(np.unravel_index(numbers, sizes)).reshape(digits.shape))


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=5), st.integers(1, 4), st.integers(0, 99), st.integers(0, 30))
def test_a_cycle_repeats_every_value_and_then_all(values: list[int], repeats: int, first: int, count: int) -> None:
    cycle = np.empty(count, np.int64)
    write_cycle(np.array(values), repeats, first, cycle)
    assert cycle.tolist() == [values[i // repeats % len(values)] for i in range(first, first + count)]


STUDIES = ("dfmodel_published", "lstm_parallelism", "codesign_parallelism")


@pytest.mark.parametrize("study", STUDIES)
def test_what_was_known_before_changes_no_bit(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbouring tiles, each with all that is kept of the one before, and each alone; something is kept."""
    path = ROOT / "specs" / "studies" / f"{study}.yaml"
    monkeypatch.setattr("sweeper.planning.modes.TILE_POINTS", 40)
    taken = 0
    run = Evaluation.run

    def counted(self: Evaluation, stage: object) -> None:
        nonlocal taken
        before = self._before
        taken += before is not None and self.same(stage.needs) and before.has(stage)  # type: ignore[attr-defined,arg-type]
        run(self, stage)  # type: ignore[arg-type]

    monkeypatch.setattr(Evaluation, "run", counted)
    with_memory = rows(path)
    assert taken
    monkeypatch.setattr("sweeper.planning.columns.KEPT_B", 0)
    taken = 0
    assert with_memory.equals(rows(path))
    assert not taken


@pytest.mark.parametrize("name", ["llama_405b_formats", "table6_sn10"])
def test_columns_take_no_more_than_what_is_told(name: str) -> None:
    """Those that are given among them: the operators of a table at every mapping are most of what there is."""
    plan = sweeper.plan(builtin_specs() / "studies" / f"{name}.yaml")
    grid, ranges = plan.chunks.locate(0)
    for program, part, _ in plan.columns._parts(grid, grid.slice(ranges), plan.contents.all_columns):
        evaluation = Evaluation(program, part)
        evaluate(evaluation, program.wanted)
        assert evaluation.size_B <= largest_B(program, part)
        given = sum(evaluation.columns[each].nbytes for each in program.inputs_read & evaluation.columns.keys())
        assert 8 * sum(program.given_sizes.values()) <= given, "one entry of each at least"


def rows(path: Path) -> object:
    """Rows of the first chunk of a study."""
    return sweeper.plan(path).evaluate(0)


def test_a_single_combination_is_itself_only_where_it_is_the_first() -> None:
    assert [Index((1,), (np.array([at], np.uint32),)).is_itself for at in (0, 3)] == [True, False]


@pytest.mark.parametrize("points", [[0], [1], [7], [0, 1], [3, 8]])
def test_few_points_have_what_all_have_there(points: list[int]) -> None:
    """Also where one is left, at which a column has entries for others too."""
    plan = sweeper.plan(ROOT / "specs" / "studies" / "dfmodel_published.yaml")
    grid, wanted = plan.grids[0], plan.contents.all_columns
    program, part, _ = next(plan.columns._parts(grid, grid.slice([(0, size) for size in grid.sizes]), wanted))
    whole, few = Evaluation(program, part), Evaluation(program, part)
    for stage in program.stages:
        whole.run(stage)
        if stage.number in program.feasibility:
            few.run(stage)
    few.restrict(np.array(points))
    for stage in program.stages:
        if stage.number not in program.feasibility:
            few.run(stage)
    for name in wanted:
        assert np.array_equal(few.at_points(name), whole.at_points(name)[points], equal_nan=True), name


def test_evaluated_again_with_other_entries_is_as_evaluated_anew() -> None:
    """Also where what is folded depends on them: which combinations are alike is found again."""
    plan = sweeper.plan(ROOT / "specs" / "studies" / "dfmodel_published.yaml")
    grid, wanted = plan.grids[0], plan.contents.all_columns
    program, part, _ = next(plan.columns._parts(grid, grid.slice([(0, size) for size in grid.sizes]), wanted))
    several = [name for name, entries in program.values.items() if len(entries) > 1]
    folding = [stage for stage in program.stages if stage.folds and stage.needs & {*several}]
    assert several and folding
    again = Evaluation(program, part, several)
    for order in (slice(None), slice(None, None, -1), slice(None)):
        values = {name: program.values[name][order] for name in several}
        again.renew(values)
        anew = evaluate(Evaluation(replace(program, values={**program.values, **values}), part), wanted)
        for name in wanted:
            assert np.array_equal(again.at_points(name), anew[name], equal_nan=True), name
