"""Names that want to be paths: whatever they name, nothing is written outside `--out`."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.errors import UsageFault
from sweeper.library import library as library_module
from sweeper.reading.checks import is_name
from sweeper.views.pictures.canvas import picture_stem
from tests.support.examples import nightly
from tests.support.hand_made import commit
from tests.support.small_specs import FILES, STUDY, write_files

COUNT = 1000 if nightly() else 200
PIECES = (
    "..", "../", "/", "\\", "\\..\\", "//", "./", "~", "-", "--out=evil", "\n", "\r", "\t", "\0", "\x1b[2J", "\x7f",
    "é", "\u202e", "\u2028", "\ufeff", "\U0001f600", "%2e%2e", "$HOME", "`id`", "*", "?", "{i}", "'", '"', ":", ";",
    "|", " ", "a", "evil", "A1", "_", ".", "0", "x" * 200,
)  # fmt: skip
WHOLE = (
    "", " ", ".", "..", "../evil", "/", "/etc/evil", "evil/../../..", "evil\n", "\nevil", "evil\0", "\0", "x" * 101,
    "x" * 5000, "../" * 40 + "evil", "_evil", "-evil", ".evil", "évil", "a/b", "a\\b", "~/evil", "file:///evil",
)  # fmt: skip


def hostile_names(root: Path) -> Iterator[str]:
    """Names that are none, the same ones every time; absolute ones lead below `root`."""
    chance = random.Random(20)
    yield from WHOLE
    yield from (f"{root}/evil", f"/{root}/evil")
    for _ in range(COUNT - len(WHOLE) - 2):
        name = "".join(chance.choices(PIECES, k=chance.randint(1, 5)))
        yield name if not is_name(name) else f"../{name}"


def quoted(name: str) -> str:
    return json.dumps(name)


PLACES: dict[str, Callable[[str], dict[str, str]]] = {
    "study": lambda name: {"study.yaml": STUDY.replace("study: demo", f"study: {quoted(name)}")},
    "workload": lambda name: {
        "workloads/evil.yaml": f"{quoted(name)}: {{extends: toy}}\n",
        "study.yaml": STUDY.replace("workload: toy", f"workload: {quoted(name)}"),
    },
    "chip": lambda name: {
        "chips/evil.yaml": f"{quoted(name)}: {{extends: alpha}}\n",
        "study.yaml": STUDY.replace("[alpha, beta]", quoted(name)),
    },
    "alias": lambda name: {
        "chips/evil.yaml": f"evil: {{extends: alpha, aliases: [{quoted('/' + name)}]}}\n",
        "study.yaml": STUDY.replace("[alpha, beta]", quoted("/" + name)),
    },
    "tag": lambda name: {
        "chips/evil.yaml": f"evil: {{extends: alpha, tags: [{quoted(name)}]}}\n",
        "study.yaml": STUDY.replace("[alpha, beta]", f"{{library: {{tags: [{quoted(name)}]}}}}"),
    },
    "package": lambda name: {
        "packages/evil.yaml": f"{quoted(name)}: {{dies: []}}\n",
        "study.yaml": STUDY.replace("  link:", f"  package: {quoted(name)}\n  link:"),
    },
    "partitioning": lambda name: {
        "workloads/workloads.yaml": FILES["workloads/workloads.yaml"].replace("halves", quoted(name)),
        "study.yaml": STUDY.replace("[halves, single]", quoted(name)),
    },
    "parameter": lambda name: {
        "workloads/workloads.yaml": FILES["workloads/workloads.yaml"].replace(
            "{hidden:", f"{{{quoted(name)}: 1, hidden:"
        )
    },
    "kernel": lambda name: {
        "workloads/workloads.yaml": FILES["workloads/workloads.yaml"].replace("name: last", f"name: {quoted(name)}")
    },
}
"""Files in which a name names something, by what it names."""

COMMANDS = (
    ("validate", "study.yaml"),
    ("run", "study.yaml", "-q"),
    ("show", "study.yaml"),
    ("query", "study.yaml", "SELECT * FROM data"),
    ("status", "study.yaml"),
    ("map", "study.yaml", "0"),
)


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a directory with its content."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_hostile_names_are_refused_and_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builtin = write_files(tmp_path / "builtin", {name: FILES[name] for name in FILES})
    monkeypatch.setattr(library_module, "installed_specs", lambda: (builtin,))
    work = tmp_path / "a" / "b" / "c" / "d" / "work"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    for number, name in enumerate(hostile_names(tmp_path)):
        what = list(PLACES)[number % len(PLACES)]
        files = {**FILES, "study.yaml": STUDY, **PLACES[what](name)}
        write_files(work, files)
        before = tree(tmp_path)
        command, *arguments = COMMANDS[number // len(PLACES) % len(COMMANDS)]
        options = ["--library", "."] if command == "validate" else ["--library", ".", "--out", "results"]
        result = CliRunner().invoke(main, [command, *arguments, *options])
        assert result.exit_code == 2, (what, name, result.output)
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        assert tree(tmp_path) == before, (what, name)
        for file in files.keys() - FILES.keys():
            (work / file).unlink()


@pytest.mark.parametrize("name", ["..", "a/b", "/etc/passwd", "a\n", "", "a" * 101])
def test_no_picture_is_named_after_what_is_no_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="no picture can be named after"):
        picture_stem(tmp_path, "heat_map", name)


def test_a_dataset_with_a_workload_that_is_a_path_is_not_drawn(tmp_path: Path) -> None:
    work = write_files(tmp_path / "work", {"tiny.yaml": TINY})
    made = CliRunner().invoke(main, ["run", str(work / "tiny.yaml"), "--out", str(work / "out"), "-q", "--json"])
    directory = Path(json.loads(made.stdout)["run_directory"])
    part = directory / "data" / "part-00000000.parquet"
    rows = pl.read_parquet(part).with_columns(workload=pl.lit("../../../../evil")).to_arrow()
    shutil.rmtree(directory)
    commit(directory, [rows.drop_columns(["run"])])
    before = tree(tmp_path)
    shown = CliRunner().invoke(main, ["show", str(directory)])
    assert shown.exit_code == 2
    assert "no picture can be named after the workload" in shown.stderr
    assert tree(tmp_path) == before


TINY = """
study: tiny
axes:
  {workload: fft_1t, chips: 64, chip: h100, memory: hbm, link: [pcie, nvlink], topology: torus_2d, dim_x: 8, dim_y: 8}
"""
