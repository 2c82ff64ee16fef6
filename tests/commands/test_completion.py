"""What a shell completes."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from sweeper.cli import main
from tests.support.small_specs import FILES, write_files


def completed(*words: str) -> list[str]:
    """What comes after some words, the last of them unfinished."""
    found = ShellComplete(main, {}, "sweeper", "_SWEEPER_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return [item.value for item in found if item.type == "plain"]


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("r",), ("run",)),
        (
            ("run", "dse"),
            (
                "dse80",
                "dse80_dense",
            ),
        ),
        (("plan", "table6"), ("table6_sn10",)),
        (
            ("list", "ch"),
            (
                "chip",
                "choice",
                "chart",
            ),
        ),
        (
            ("list", "chip", "h100_sxm5"),
            (
                "h100_sxm5_80gb",
                "h100_sxm5_datasheet",
            ),
        ),
        (("cost", "a1"), ("a100",)),
        (("cost", "a100", "--set", "tensor_pa"), ("tensor_parallel=",)),
        (("generate", "gpu"), ("gpu_n7",)),
        (("show", "dse80", "--chart", "p"), ("pareto",)),
        (("sensitivity", "node_scaling", "--objective", "iteration_ti"), ("iteration_time_s",)),
        (("break-even", "node_scaling", "memory.band"), ("memory.bandwidth",)),
        (("run", "dse80", "--backend", "r"), ("ray",)),
        (("calibrate", "un"), ("uncalibrated",)),
        (("schema", "li"), ("link",)),
    ],
    ids=" ".join,
)
def test_names_are_completed(words: tuple[str, ...], some: tuple[str, ...]) -> None:
    found = completed(*words)
    assert {*some} <= {*found}
    assert all(name.startswith(words[-1]) for name in found)


def test_entries_of_a_library_of_ones_own_and_of_a_broken_one(tmp_path: Path) -> None:
    library = write_files(tmp_path / "mine", FILES)
    assert "alpha" in completed("list", "--library", str(library), "chip", "al")
    assert completed("list", "--library", str(tmp_path / "none"), "chip", "al") == []


def test_runs_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, {"results/mine-1/resolved.json": "{}"})
    assert completed("show", "results/m") == ["results/mine-1"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    printed = CliRunner().invoke(main, ["completion", shell])
    assert printed.exit_code == 0 and "_SWEEPER_COMPLETE" in printed.output


def test_bash_completes_as_the_script_says(tmp_path: Path) -> None:
    """The script in a real bash, which calls its function as a press of the key does."""
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    asked = (
        "COMP_WORDS=(sweeper list chip h100_sxm5_8); COMP_CWORD=3; _sweeper_completion sweeper; echo ${COMPREPLY[@]}"
    )
    folder = Path(sys.executable).parent
    # Only its last lines speak of the version of bash, whose command "complete" needs a terminal's library.
    command = ["bash", "--norc", "-c", f"PATH={folder}:$PATH\n{script}\n{asked}"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["h100_sxm5_80gb"], found.stderr
