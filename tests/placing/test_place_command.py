"""`sweeper place`: answers, pictures, and one clear error for what it cannot place."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.commands import placing, shared
from sweeper.kernels.placement.fabric import kind_of
from sweeper.library.library import Library, builtin_specs
from sweeper.placing import decisions
from sweeper.placing.account import Part, account, busy_actors, busy_resources, resource_name
from sweeper.placing.blocks import block
from sweeper.placing.cutting import Cutting, DoesNotFit, bound_cycles
from sweeper.placing.place import Placement, placed, sites_of, units_of

LIBRARY = Library.load([builtin_specs()])


def placement(
    name: str = "mha", fabric: str = "plasticine", moves: int = 2000, **shards: int
) -> tuple[Placement, float]:
    """A block placed, and its bound."""
    entry = LIBRARY.find("fabric", fabric)
    units, operators = units_of(entry), block(name, {}, shards)
    graph = Cutting(units, operators).cut()
    return placed(entry, graph, moves, 1), bound_cycles(units, operators, graph)


def test_the_parts_of_a_sample_add_up_and_nothing_is_faster_than_the_bound() -> None:
    for name in ("gemm", "mlp", "ffn", "mha"):
        found = account(*placement(name))
        assert found["ending"] == "steady"
        assert sum(found["cycles"].values()) == pytest.approx(found["interval_cycles"])
        assert all(cycles >= 0.0 for cycles in found["cycles"].values())
        assert 0.0 < found["share_of_bound"] <= 1.0


def test_what_a_lane_takes_beyond_the_pieces_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, bound = placement("gemm")
    piece = busy_actors(found)[0].cycles
    monkeypatch.setattr("sweeper.placing.account.busy_resources", lambda placement: [Part("lane", piece + 5.0)])
    cycles = account(found, bound)["cycles"]
    assert cycles["shared lanes and ports"] == 5.0
    assert sum(cycles.values()) == pytest.approx(found.rate.interval_cycles)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--seed", 1 << 64), "is not in the range"),
        (("--refine", 1 << 64), "is not in the range"),
        (("--size", f"rows={10**400}"), "a whole number from 1 to 1,048,576"),
        (("--size", f"rows={10**22}", "--shard", f"rows={10**22}"), "a whole number from 1 to 1,048,576"),
        (("--size", "=3"), "write NAME=N"),
        (("--shard", "rows=1000000"), "product has 256 rows, and is to be cut into 1,000,000 pieces of them"),
        (("--shard", "inner=512"), "product has 256 inner, and is to be cut into 512 pieces of them"),
    ],
)
def test_what_is_too_large_is_refused_at_once(asked: tuple[object, ...], message: str) -> None:
    shown = CliRunner().invoke(main, ["place", "gemm", *map(str, asked)])
    assert shown.exit_code == 2 and message in shown.stderr


def test_limits_are_those_of_studies() -> None:
    assert (placing.MOST_SIZE, shared.MOST) == (decisions.MOST_SIZE, decisions.MOST)
    assert len(str(placing.MOST_SIZE)) == placing.MOST_DIGITS


def test_words_are_those_of_the_fabric() -> None:
    plasticine = LIBRARY.find("fabric", "plasticine")
    assert [units_of(LIBRARY.find("fabric", name)).vector for name in ("plasticine", "sn10_like")] == [16, 32]
    narrow = {**plasticine.values, "vector": plasticine.values["word"]}
    assert units_of(replace(plasticine, values=narrow)).vector == 1
    wide = {**plasticine.values, "word": replace(plasticine.values["vector"], number=65.0)}
    with pytest.raises(DoesNotFit, match="plasticine: a vector of 64 B has no room for a word of 65 B"):
        units_of(replace(plasticine, values=wide))


def test_units_lie_on_sites_of_their_kind_and_one_seed_gives_one_answer() -> None:
    found, again = placement()[0], placement()[0]
    kinds = [kind_of(sites_of(found.entry), site) for site in found.site]
    assert kinds == found.graph.kinds
    assert np.array_equal(found.site, again.site) and found.rate == again.rate


def test_the_placer_finds_shorter_ways_than_chance() -> None:
    by_chance, annealed = placement(moves=0)[0], placement(moves=20_000)[0]
    assert len(annealed.line.hops.parent) < 0.7 * len(by_chance.line.hops.parent)


def test_the_busiest_come_first_and_have_names() -> None:
    found = placement()[0]
    for parts in (busy_actors(found), busy_resources(found)):
        cycles = [part.cycles for part in parts]
        assert cycles == sorted(cycles, reverse=True)
        assert len({part.name for part in parts}) == len(parts)
    names = [resource_name(found, resource) for resource in (0, 1, 2 * 4)]
    assert names == ["lane 0 from (0, 0) east", "lane 1 from (0, 0) east", "lane 0 from (0, 1) east"]


def test_the_command_says_where_the_cycles_go_and_draws(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["place", "ffn", "--moves", "500", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("ffn on plasticine: a sample every ")
    assert "shared lanes and ports" in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ffn_plasticine_0.png", "ffn_plasticine_0.svg"]
    again = CliRunner().invoke(main, ["place", "ffn", "--moves", "500", "--out", str(tmp_path / "b"), "--json"])
    assert json.loads(again.stdout)["units"] == {"compute units": 28, "memory units": 14, "address generators": 4}
    assert (tmp_path / "b" / "ffn_plasticine_0.svg").read_bytes() == (tmp_path / "ffn_plasticine_0.svg").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["conv"], "unknown block 'conv' (allowed: ffn, gemm, layer, mha, mlp)"),
        (["mlp", "--size", "hidden=3"], "unknown size 'hidden' (allowed: depth, rows, width)"),
        (["mlp", "--shard", "row=3"], "unknown sharding 'row', did you mean 'rows'"),
        (["mlp", "--size", "rows"], "--size rows: write NAME=N with a whole number from 1"),
        (["mlp", "--size", "rows=0"], "--size rows=0: write NAME=N"),
        (["ffn", "--size", "hidden=128", "--size", "hidden=64"], "--size hidden is given twice"),
        (["mlp", "--shard", "rows=2", "--size", "rows=64", "--shard", "rows=2"], "--shard rows is given twice"),
        (["ffn", "--candidates", "1", "--shortlist", "8"], "--shortlist 8: at most 1 here, as many as --candidates"),
        (["ffn", "--candidates", "1", "--shortlist", "3", "--refine", "5"], "--shortlist 3: at most 2 here"),
        (["gemm", "--fabric", "plasticin"], "plasticine"),
        (["gemm", "--shard", "rows=16", "--shard", "columns=16"], "does not fit on plasticine: it needs 256 of 64"),
        (["gemm", "--size", "inner=65536"], "does not fit on plasticine"),
        (["gemm", "--size", "rows=3", "--shard", "rows=4"], "product has 3 rows, and is to be cut into 4"),
        (["mha", "--shard", "columns=3"], "4 heads must be a multiple of the pieces along columns, or fewer"),
    ],
)  # fmt: skip
def test_what_cannot_be_placed_is_one_clear_error(arguments: list[str], words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["place", *arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert words in result.output
    assert not (tmp_path / "out").exists()
