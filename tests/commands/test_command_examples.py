"""Every command has an example in its help that runs as it is, or with a smaller stand-in of the table below."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from tests.places import ROOT

NIGHTS = ("2026-01-01T02-00-00Z", "2026-01-02T02-00-00Z")


class StandIn(NamedTuple):
    """What stands in the test for a word of an example, and why."""

    word: str
    instead: str
    why: str


STAND_INS = (
    StandIn("dse80-0123456789ab", "{before}", "the name of a run, which this code gives"),
    StandIn("dse80-ba9876543210", "{after}", "the name of a run, which this code gives"),
    StandIn("1f0c2d9 7ab9e04 --out nights", "{first} {second}", "commits; tests/nights compares by them"),
    StandIn(f"nights/nights/{NIGHTS[0]}", "{first}", "the time of a night that was run"),
    StandIn(f"nights/nights/{NIGHTS[1]}", "{second}", "the time of a night that was run"),
    StandIn("run dse80 --backend ray --workers 8", "run table6_sn10", "Ray takes ten seconds; tests/running starts it"),
    StandIn("dse80", "table6_sn10", "dse80 takes 13 seconds to run and 26 to draw"),
    StandIn(
        "run table6_sn10 --dry-run --workers 8", "run my_study.yaml --library my_library --dry-run", "is run already"
    ),
    StandIn("explain table6_sn10 12345", "explain table6_sn10 2", "a study of four points has no point 12345"),
    StandIn("run llama_405b_formats --best-by chip", "run table6_sn10 --best-by topology", "takes a minute"),
    StandIn("specs/studies", "studies", "all our studies take an hour: two small ones stand in"),
    StandIn("node_scaling --starts 20", "small.yaml --starts 1", "a search of 35 designs takes minutes"),
    StandIn("node_scaling --backend ray", "memories.yaml", "searches of 35 designs take minutes, and Ray ten seconds"),
    StandIn("node_scaling --only technology.*", "memories.yaml --only memory.*", "searches of 35 designs take minutes"),
    StandIn("node_scaling memory.bandwidth technology", "memories.yaml memory.bandwidth memory.bandwidth", "the same"),
    StandIn("a100_megatron_2022", "gb300_nccl", "fitting 15 seconds; of collectives it is a second"),
)
"""In order: later ones see what earlier ones put in."""

MEMORIES = """
study: memories
axes:
  workload: gpt_7b
  chip: h100_sxm5_80gb
  memory: hbm3_h100
  memory.bandwidth: [1 TB/s, 3 TB/s]
  link: nvlink4
  topology: switch
  chips: 8
  dim_x: 8
  tensor_parallel: 8
  sequence_parallel: 1
objective: {minimise: iteration_time_s}
"""
"""A study with nothing to search."""

ONLY_PARSED = {
    "claims dfmodel --check": "45 studies; tests/test_cli.py runs it",
    "validate --unseen": "50 seconds; tests/evidence runs its parts",
    "validate --generated": "12 seconds; tests/evidence runs its parts",
    "fit-placement placements --backend ray": "placements are simulated; tests/ranking fits to fewer",
    "fit-placement placements_changed": "placements are simulated; tests/ranking fits to fewer",
    "judge-placements placements_full": "placements are simulated; tests/ranking judges fewer",
    "fit-units placements_units": "placements are simulated; tests/ranking fits to fewer",
    "worker --address node1:6379": "starts a Ray cluster; tests/running and tests/cluster do",
    "run dse80 --address node1:6379": "asks for a Ray cluster; tests/running and tests/cluster do",
}
"""Beginnings of examples whose options are read, and no more, and why."""


LONG = (
    "break-even node_scaling",
    "optimize node_scaling",
    "place ffn --fabric plasticine",
    "run dse80 --dry-run",
    "sensitivity node_scaling",
    "serve examples/large_servers.yaml 10 --rate 1 --spread",
    "serve examples/large_servers.yaml 10 --rate 2 --prefill",
)
"""Beginnings of examples that take long."""


def examples_of(command: click.Command) -> list[str]:
    """The examples in a command's help: what follows `Example:`, and the lines of the same paragraph below."""
    _, _, after = (command.help or "").partition("Example: ")
    paragraph = after.partition("\n\n")[0].splitlines()
    return [line.strip().removeprefix("Example: ") for line in paragraph if line.strip()]


EXAMPLES = [(name, example) for name, command in main.commands.items() for example in examples_of(command)]


def arguments_of(example: str) -> list[str]:
    """What follows `sweeper` in an example, without what belongs to the shell: srun, > FILE, &."""
    words = shlex.split(example)
    words = words[words.index("sweeper") + 1 :]
    return words[: next((number for number, word in enumerate(words) if word in (">", "&")), len(words))]


def is_parsed(example: str) -> bool:
    """Whether an example is not run."""
    return any(shlex.join(arguments_of(example)).startswith(beginning) for beginning in ONLY_PARSED)


def parameters(name: str, example: str) -> Any:
    """An example as parameters of a test; long ones belong to the night."""
    long = any(shlex.join(arguments_of(example)).startswith(beginning) for beginning in LONG)
    return pytest.param(name, example, id=example, marks=[pytest.mark.nightly] if long else [])


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A directory with what examples need: files of our examples, two runs of a study and two nights."""
    home = tmp_path_factory.mktemp("examples")
    for name in ("examples", "specs"):
        (home / name).symlink_to(ROOT / name)
    (home / "my_library").symlink_to(ROOT / "examples" / "my_library")
    (home / "my_study.yaml").write_text((ROOT / "examples" / "moe_study.yaml").read_text())
    table = (ROOT / "specs" / "measurements" / "measured_training.csv").read_text().splitlines(keepends=True)
    (home / "my_runs.csv").write_text("".join(table[:4]))
    small = (ROOT / "specs" / "starts" / "chip.yaml").read_text()
    for old, new in (
        ("[as_template, public_n5_from_n7]", "as_template"),
        ("[hbm2e, hbm3]", "hbm2e"),
        ("{starts: 4, steps: 40}", "{starts: 1, steps: 1}"),
    ):
        assert old in small
        small = small.replace(old, new)
    (home / "small.yaml").write_text(small)
    (home / "memories.yaml").write_text(MEMORIES)
    (home / "studies").mkdir()
    (home / "studies" / "table6_sn10.yaml").symlink_to(ROOT / "specs" / "studies" / "table6_sn10.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for more in ((), ("--set", "memory.bandwidth=150 GB/s")):
            ran = call("run", "table6_sn10", "-q", *more)
            assert ran.exit_code == 0, ran.output
        for _ in NIGHTS:
            assert call("night", "table6_sn10", "--out", "nights", "-q").exit_code == 0
        runs = sorted(path.name for path in (home / "results").glob("table6_sn10-*"))
        nights = sorted(str(path) for path in Path("nights", "nights").iterdir())
        assert len(runs) == len(nights) == 2
        yield home, dict(zip(("before", "after", "first", "second"), (*runs, *nights), strict=True))


def test_every_command_has_an_example_of_its_own() -> None:
    for name, command in main.commands.items():
        assert any(arguments_of(example)[0] == name for example in examples_of(command)), name


def test_the_tables_are_needed_and_do_not_grow_silently() -> None:
    written = "\n".join(shlex.join(arguments_of(example)) for _, example in EXAMPLES)
    assert all(beginning in written for beginning in ONLY_PARSED)
    assert len(ONLY_PARSED) == sum(is_parsed(example) for _, example in EXAMPLES) == 9
    assert len(STAND_INS) == 16
    assert all(beginning in written for beginning in LONG)
    for stand_in in STAND_INS:
        word = shlex.join(stand_in.word.split())
        assert word in written
        written = written.replace(word, stand_in.instead)


@pytest.mark.parametrize(("name", "example"), [parameters(*each) for each in EXAMPLES])
def test_an_example_runs(name: str, example: str, workplace: tuple[Path, dict[str, str]]) -> None:
    _, places = workplace
    if is_parsed(example):
        command, *arguments = arguments_of(example)
        group = main.make_context("sweeper", [command], resilient_parsing=True)
        assert main.commands[command].make_context(command, arguments, parent=group).params
        return
    line = shlex.join(["sweeper", *arguments_of(example)])
    for stand_in in STAND_INS:
        line = line.replace(shlex.join(stand_in.word.split()), stand_in.instead)
    for word, found in places.items():
        line = line.replace(f"{{{word}}}", found)
    result = call(*shlex.split(line)[1:])
    assert result.exit_code == 0, result.output
    assert result.stdout


@pytest.mark.parametrize("name", ["", *main.commands])
def test_help_is_harmless(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for option in ("--help", "-h"):
        shown = call(*filter(None, (name, option)))
        assert shown.exit_code == 0 and shown.stderr == ""
        assert shown.stdout.startswith("Usage: ")
    assert not list(tmp_path.iterdir())
