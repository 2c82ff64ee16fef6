"""Commands without anybody at a terminal: every failure is one message, its documented exit code, and no traceback."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import polars as pl
import pytest
from click.testing import CliRunner

import sweeper
from sweeper import errors
from sweeper.cli import main
from tests.places import ROOT

TINY = """
study: tiny
axes:
  {workload: fft_1t, chips: 64, chip: h100, memory: hbm, link: [pcie, nvlink], topology: torus_2d, dim_x: 8, dim_y: 8,
   tensor_parallel: 64}
"""
SQL = "SELECT * FROM data"
LONG = "x" * 5000

Failure = tuple[tuple[str, ...], int, str]
"""Arguments, exit code, and words of the message."""

USAGE: tuple[Failure, ...] = (
    ((), 2, "Usage: main"),
    (("nonsense",), 2, "No such command 'nonsense'"),
    (("--nonsense",), 2, "No such option"),
    *(((command,), 2, "Missing argument") for command in ("plan", "run", "optimize", "status", "show", "query")),
    *(((command,), 2, "Missing argument") for command in ("explain", "map", "cost", "generate", "place")),
    *(((command,), 2, "Missing argument") for command in ("calibrate", "claims")),
    *(
        ((command, "tiny.yaml", "0", "1", "2"), 2, "unexpected extra argument")
        for command in ("plan", "explain", "query")
    ),
    (("plan", "tiny.yaml", "--library"), 2, "requires an argument"),
    (("run", "tiny.yaml", "--backend", "slurm"), 2, "'slurm' is not one of"),
    (("run", "tiny.yaml", "--workers", "0"), 2, "0 is not in the range"),
    (("run", "tiny.yaml", "--workers", "many"), 2, "'many' is not a valid integer"),
    (("run", "tiny.yaml", "--retries", "-1"), 2, "-1 is not in the range"),
    (("optimize", "tiny.yaml", "--starts", "0"), 2, "0 is not in the range"),
    (("optimize", "tiny.yaml", "--method", "luck"), 2, "'luck' is not one of"),
    (("explain", "tiny.yaml", "-1"), 2, "No such option"),
    (("explain", "tiny.yaml", "2"), 2, "point 2 is not in 0..1"),
    (("explain", "tiny.yaml", "9" * 30), 2, "is not in 0..1"),
    (("map", "tiny.yaml", "2"), 2, "point 2 is not in 0..1"),
    (("map", "tiny.yaml", "first"), 2, "'first' is not a valid integer"),
    (("list", "chips"), 2, "unknown kind 'chips', did you mean 'chip'"),
    (("list", LONG), 2, "unknown kind"),
    (("claims", "nobody"), 2, "unknown"),
    (("calibrate", "nobody"), 2, "unknown"),
    (("cost", "nothing"), 2, "unknown package 'nothing'"),
    (("cost", "a100", "--set", "nonsense"), 2, "write NAME=VALUE"),
    (("cost", "a100", "--set", "nonsense=1"), 2, "unknown setting"),
    (("cost", "a100", "--set", "package.memory_stacks=[1"), 2, "package.memory_stacks: not YAML"),
    (("cost", "a100", "--draws", "1"), 2, "1 is not in the range"),
    (("cost", "a100", "--figure", "a100.pdf"), 2, "a picture is .png or .svg"),
    (("cost", "a100", "--versus", "nothing"), 2, "unknown package 'nothing'"),
    (("generate", "nothing"), 2, "unknown template 'nothing'"),
    (("generate", "deepflow_v100", "--set", "technology=nothing"), 2, "unknown technology"),
    (("place", "nothing"), 2, "unknown block 'nothing'"),
    (("place", "gemm", "--fabric", "nothing"), 2, "unknown fabric 'nothing'"),
    (("validate", "tiny.yaml", "--out", "x.csv"), 2, "a study is checked, not scored"),
    (("validate", "--library", "."), 2, "measurements are scored with our library"),
)

FILES: tuple[Failure, ...] = (
    *(
        ((command, "none.yaml"), 2, "no file or run directory")
        for command in ("plan", "run", "show", "status", "validate")
    ),
    (("plan", LONG), 2, "no file or run directory"),
    (("plan", "../dse80"), 2, "no file or run directory"),
    (("plan", "a\nb"), 2, "no file or run directory"),
    (("plan", "directory"), 2, "directory:1:1: cannot read the file: Is a directory"),
    (("plan", "empty.yaml"), 2, "empty.yaml:1:1: the file is empty"),
    (("plan", "binary.yaml"), 2, "binary.yaml:1:1: byte 0xff is not UTF-8"),
    (("plan", "huge.yaml"), 2, "huge.yaml:1:1: the file is larger than"),
    (("plan", "/dev/zero"), 2, "/dev/zero:1:1: the file is larger than"),
    (("plan", "/dev/null"), 2, "/dev/null:1:1: the file is empty"),
    (("plan", "tiny.yaml", "--library", "none"), 2, "none:1:1: the library directory does not exist"),
    (("plan", "tiny.yaml", "--library", "tiny.yaml"), 2, "tiny.yaml:1:1: the library directory does not exist"),
    (("plan", "tiny.yaml", "--library", LONG), 2, "cannot read the library directory: File name too long"),
    (("list", "--library", "none"), 2, "the library directory does not exist"),
    (("validate", "--measured", "none.csv"), 3, "none.csv"),
    (("validate", "--measured", "directory"), 3, "Is a directory"),
    (("validate", "--measured", "binary.yaml"), 3, "codec can't decode"),
    (("validate", "--measured", "empty.yaml"), 2, "no rows"),
    (("run", "tiny.yaml", "-q", "--out", "tiny.yaml"), 3, "cannot write to"),
    (("run", "tiny.yaml", "-q", "--out", "tiny.yaml/below"), 3, "cannot write to"),
    (("run", "tiny.yaml", "-q", "--out", "/proc/nowhere"), 3, "cannot write to"),
    (("run", "tiny.yaml", "-q", "--out", LONG), 3, "File name too long"),
    (("run", "tiny.yaml", "-q", "--out", "nowhere://x"), 3, "cannot open 'nowhere://x'"),
    (("run", "tiny.yaml", "-q", "--address", "127.0.0.1:1"), 3, "cannot use Ray at '127.0.0.1:1'"),
    (("run", "tiny.yaml", "-q", "--address", "ray://127.0.0.1:1"), 3, "cannot use Ray at 'ray://127.0.0.1:1'"),
    (("run", "tiny.yaml", "-q", "--address", "nowhere"), 3, "cannot use Ray at 'nowhere'"),
    (("map", "tiny.yaml", "0", "--out", "tiny.yaml"), 3, "tiny.yaml"),
    (("map", "tiny.yaml", "0", "--out", "/proc/nowhere"), 3, "/proc/nowhere"),
    (("show", "tiny.yaml", "--out", "none"), 3, "has not been run"),
    (("query", "tiny.yaml", SQL, "--out", "none"), 3, "has not been run"),
    (("status", "tiny.yaml", "--out", "none"), 3, "has not been run"),
    (("show", "nowhere://x"), 3, "cannot open 'nowhere://x'"),
    (("query", "nowhere://x", SQL), 3, "cannot open 'nowhere://x'"),
    (("show", "file:///none"), 3, "is no run directory"),
    (("query", "file:///none", SQL), 3, "holds no run"),
    (("status", "nowhere://x"), 3, "cannot open"),
    (("status", "file:///none"), 4, "is no run directory"),
    (("status", "directory"), 3, "directory holds no run: there is no resolved.json in it"),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory that is complete."""
    root = tmp_path_factory.mktemp("finished")
    (root / "tiny.yaml").write_text(TINY)
    result = CliRunner().invoke(main, ["run", str(root / "tiny.yaml"), "--out", str(root / "out"), "-q", "--json"])
    return Path(json.loads(result.stdout)["run_directory"])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with files of all kinds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "directory").mkdir()
    (tmp_path / "empty.yaml").touch()
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01")
    (tmp_path / "huge.yaml").write_bytes(b"# \n" * 2_000_000)
    return tmp_path


def check(arguments: tuple[str, ...], code: int, words: str) -> None:
    """A failure is one message on standard error, with nothing before or after."""
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert words in result.stderr
    said = [line for line in result.stderr.splitlines() if line and not line.startswith(("Usage:", "Try '"))]
    assert len(said) == 1 or not arguments, said


@pytest.mark.parametrize("failure", USAGE, ids=lambda failure: " ".join(failure[0])[:60])
def test_a_mistake_in_a_command_is_one_message(failure: Failure, place: Path) -> None:
    check(*failure)


@pytest.mark.parametrize("failure", FILES, ids=lambda failure: " ".join(failure[0])[:60])
def test_what_is_wrong_with_a_file_is_one_message(failure: Failure, place: Path) -> None:
    check(*failure)


def remove(name: str) -> Callable[[Path], None]:
    return lambda run: shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()


def replace(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda run: [path.write_bytes(data) for path in run.glob(name)] and None


def halve(name: str) -> Callable[[Path], None]:
    def cut(run: Path) -> None:
        (path,) = run.glob(name)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return cut


PART = "data/part-00000000.parquet"


def rename(run: Path) -> None:
    """Change a word of what a run says of itself."""
    file = run / "resolved.json"
    file.write_text(file.read_text().replace('"h100_sxm"', '"h200_sxm"'))


DAMAGES: tuple[tuple[Callable[[Path], None], tuple[str, ...], int, str], ...] = (
    (remove("_SUCCESS"), ("show",), 3, "has no _SUCCESS"),
    (remove("_SUCCESS"), ("query", SQL), 3, "has no _SUCCESS"),
    (remove("data"), ("show",), 3, f"{PART} is missing"),
    (remove(PART), ("query", SQL), 3, f"{PART} is missing"),
    (remove(PART), ("status",), 3, f"{PART} is missing"),
    (replace(PART, b""), ("show",), 3, f"{PART} has 0 bytes"),
    (replace(PART, b""), ("query", SQL, "--verify"), 3, f"{PART} has 0 bytes"),
    (replace(PART, b"PAR1nonsensePAR1"), ("show", "--verify"), 3, f"{PART} has 16 bytes"),
    (halve(PART), ("show",), 3, PART),
    (halve(PART), ("query", SQL), 3, PART),
    (halve(PART), ("status", "--verify"), 3, PART),
    (replace("resolved.json", b"{"), ("status",), 4, "cannot be read"),
    (replace("resolved.json", b"[]"), ("status",), 4, "cannot be read"),
    (replace("resolved.json", b"\xff\x00"), ("status",), 4, "cannot be read"),
    (halve("resolved.json"), ("status",), 4, "cannot be read"),
    (replace("resolved.json", b""), ("run",), 4, "cannot be read"),
    (halve("resolved.json"), ("run",), 4, "cannot be read"),
    (replace("resolved.json", b'{"name": "other"}'), ("run",), 4, "cannot be read"),
    (rename, ("run",), 4, "was changed since the run began: put it back, or remove"),
    (rename, ("status",), 4, "was changed since the run began"),
    (rename, ("query", SQL), 3, "was changed since the run began"),
    (lambda run: (run / "data" / "mine.parquet").touch(), ("run",), 4, "is no part of this study"),
    (lambda run: (run / "failures.json").write_text("3") and None, ("status",), 4, "cannot be read"),
)
"""What is done to a run directory, a command on it, its exit code, and words of its message."""


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_a_broken_run_directory_is_one_message(number: int, finished: Path, place: Path) -> None:
    damage, (command, *more), code, words = DAMAGES[number]
    run = place / "out" / finished.name
    shutil.copytree(finished, run)
    damage(run)
    if command == "run":
        check(("run", "tiny.yaml", "--out", "out", "-q"), code, words)
    else:
        check((command, str(run), *more), code, words)


@pytest.mark.parametrize(
    "damage", [remove("_SUCCESS"), remove("manifest.json"), remove("receipts"), remove(PART), halve(PART)]
)
def test_a_run_mends_what_it_can_compute_again(damage: Callable[[Path], None], finished: Path, place: Path) -> None:
    run = place / "out" / finished.name
    shutil.copytree(finished, run)
    whole = (run / PART).read_bytes()
    damage(run)
    result = CliRunner().invoke(main, ["run", "tiny.yaml", "--out", "out", "-q"])
    assert result.exit_code == 0, result.output
    assert (run / PART).read_bytes() == whole
    assert (run / "_SUCCESS").exists()


def process(
    *arguments: str,
    code: str = "from sweeper.cli import main; main(prog_name='sweeper')",
    stdout: int | IO[str] = subprocess.PIPE,
    environment: Mapping[str, str] | None = None,
    directory: Path = ROOT,
) -> "subprocess.Popen[str]":
    """The command line in a process of its own, to which no terminal is left."""
    kept = {key: value for key, value in os.environ.items() if key not in ("TERM", "LANG", "LC_ALL")}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env={**kept, "PYTHONPATH": str(ROOT), **(environment or {})},
    )


def test_a_closed_pipe_is_no_error() -> None:
    with process("list", "column") as listing:
        assert listing.stdout is not None and listing.stderr is not None
        listing.stdout.close()
        assert listing.stderr.read() == ""
    assert listing.returncode == 0


def test_a_full_output_is_one_message() -> None:
    with open("/dev/full", "w") as full, process("list", "column", stdout=full) as listing:
        assert listing.stderr is not None
        assert listing.stderr.read() == "the system: No space left on device\n"
    assert listing.returncode == 3


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_a_locale_without_our_letters_shows_their_codes(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "µ.yaml"
    path.write_text(TINY)
    with process("plan", str(path), environment=environment) as planned:
        out, err = planned.communicate()
    assert (planned.returncode, err) == (0, "")
    assert "2 points" in out
    (tmp_path / "chips").mkdir()
    (tmp_path / "chips" / "mine.yaml").write_text("mine: {extends: h100_sxm, description: für µ}\n", encoding="utf-8")
    with process("list", "chip", "--library", str(tmp_path), environment=environment) as listed:
        out, err = listed.communicate()
    assert (listed.returncode, err) == (0, "")
    assert r"f\xfcr \xb5" in out or "für µ" in out


def test_a_name_that_is_no_text_is_one_message(tmp_path: Path) -> None:
    with process("plan", os.fsdecode(b"\xff.yaml"), directory=tmp_path) as planned:
        out, err = planned.communicate()
    assert (planned.returncode, out) == (2, "")
    assert err.startswith("no file or run directory") and "Traceback" not in err


def test_without_any_stream_a_command_ends_as_usual() -> None:
    command = [sys.executable, "-c", "from sweeper.cli import main; main(prog_name='sweeper')", "list", "link"]
    closed = 'exec 0<&- 1>&- 2>&-; exec "$@"'
    done = subprocess.run(
        ["bash", "-c", closed, "bash", *command], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == 0


def test_an_interrupt_is_one_message() -> None:
    code = (
        "import signal, sys, sweeper.views.catalogue as c, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background start without\n"
        "def wait(*a): print('waiting', file=sys.stderr, flush=True); time.sleep(60)\n"
        "c.catalogue = wait\n"
        "from sweeper.cli import main; main(['list'], prog_name='sweeper')"
    )
    with process(code=code) as listing:
        assert listing.stderr is not None and listing.stdout is not None
        assert listing.stderr.readline() == "waiting\n"
        time.sleep(0.1)
        listing.send_signal(signal.SIGINT)
        assert listing.stderr.read() == "interrupted\n"
        assert listing.stdout.read() == ""
    assert listing.returncode == 130


def asked(ask: Callable[[pl.LazyFrame], object]) -> Callable[[Path], object]:
    return lambda run: ask(sweeper.scan(run))


def ran(**how: str) -> Callable[[Path], object]:
    return lambda run: sweeper.run(sweeper.plan("tiny.yaml"), quiet=True, **how)  # type: ignore[arg-type]


A, B, FASTEST = {"chip": "a"}, {"chip": "b"}, {"utilisation": "maximise"}
API: tuple[tuple[str, Callable[[Path], object], type[errors.SweeperError]], ...] = (
    ("a missing study", lambda run: sweeper.plan("none.yaml"), errors.UsageFault),
    ("a study with a NUL", lambda run: sweeper.load("a\0b.yaml"), errors.UsageFault),
    ("a missing library", lambda run: sweeper.load("tiny.yaml", ["none"]), errors.SpecError),
    ("a library with a NUL", lambda run: sweeper.load("tiny.yaml", ["a\0b"]), errors.SpecError),
    ("an unknown backend", ran(backend="slurm"), errors.UsageFault),
    ("no place", ran(out="/proc/x"), errors.EnvironmentFault),
    ("a file as place", ran(out="tiny.yaml"), errors.EnvironmentFault),
    ("no run", lambda run: sweeper.scan("none"), errors.EnvironmentFault),
    ("no address of a run", lambda run: sweeper.scan("nowhere://x"), errors.EnvironmentFault),
    ("no run to name units of", lambda run: sweeper.units("none"), errors.EnvironmentFault),
    ("a point too far", lambda run: sweeper.explain(sweeper.plan("tiny.yaml"), 2), errors.UsageFault),
    ("a point before the first", lambda run: sweeper.explain(sweeper.plan("tiny.yaml"), -1), errors.UsageFault),
    ("an unknown sense", asked(lambda frame: sweeper.pareto(frame, {"chips": "least"})), errors.UsageFault),
    ("an unknown column", asked(lambda frame: sweeper.pareto(frame, {"speed": "maximise"})), errors.UsageFault),
    ("an unknown group", asked(lambda frame: sweeper.best(frame, ["speed"], FASTEST)), errors.UsageFault),
    ("an unknown value", asked(lambda frame: sweeper.heatmap(frame, ["chip"], ["link"], "speed")), errors.UsageFault),
    ("an unknown share", asked(lambda frame: sweeper.breakdown(frame, ["speed"])), errors.UsageFault),
    ("an unknown ratio", asked(lambda frame: sweeper.ratios(frame, "speed", A, B)), errors.UsageFault),
    ("an unknown side", asked(lambda frame: sweeper.ratios(frame, "utilisation", A, {"c": 1})), errors.UsageFault),
    ("no draws", asked(lambda frame: sweeper.compare(frame, "utilisation", [], A, B)), errors.UsageFault),
)


@pytest.mark.parametrize("number", range(len(API)), ids=[name for name, *_ in API])
def test_functions_raise_our_errors_only(number: int, finished: Path, place: Path) -> None:
    _, call, error = API[number]
    with pytest.raises(error) as caught:
        call(finished)
    assert len(str(caught.value).splitlines()) == 1


def test_exit_codes_are_documented() -> None:
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SweeperError)]
    for code in {0, *(kind.exit_code for kind in kinds)}:
        assert f"\n| {code} | " in text
