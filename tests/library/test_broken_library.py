"""A mistake in the library spoils what uses it, and nothing else."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.errors import SpecError
from sweeper.library.library import Library
from sweeper.study.study import load_study
from tests.support.small_specs import FILES, STUDY, write_files

SOUND = "gamma: {extends: alpha, source: s, grade: assumed, power: 200 W}\n"
BROKEN_FILES = {
    "syntax": b"delta: {source: s\n",
    "not UTF-8": b"delta: \xff\n",
    "control character": b"delta: \x07\n",
    "empty": b"",
    "a list": b"[delta]\n",
    "two documents": b"delta: {}\n---\nepsilon: {}\n",
    "list as a key": b"? [delta]\n: {}\n",
    "broken and aliased": b"delta: &x {source: s, source: t}\nepsilon: *x\n",
}
BROKEN_ENTRIES = {
    "no mapping": "delta: 3\n",
    "nothing": "delta:\n",
    "duplicate key": "delta: {extends: alpha, power: 1 W, power: 2 W}\n",
    "duplicate entry": "delta: {extends: alpha}\ndelta: {extends: alpha}\n",
    "tag": "delta: {extends: alpha, power: !!str 1 W}\n",
    "merge key": "delta: {<<: {power: 1 W}}\n",
    "unknown alias": "delta: *nowhere\n",
    "aliases of a wrong type": "delta: {extends: alpha, aliases: {a: b}}\n",
    "alias of another": "delta: {extends: alpha, aliases: [gamma]}\n",
    "unknown key": "delta: {extends: alpha, colour: red}\n",
}


def library_with(root: Path, text: str | bytes) -> Library:
    """The small library with one more file of chips after the sound ones, and one of the same layer after that."""
    write_files(root, {**FILES, "chips/more.yaml": SOUND})
    (root / "chips" / "broken.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
    return Library.load([root])


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_entries_of_other_files_stay_usable(name: str, tmp_path: Path) -> None:
    library = library_with(tmp_path, BROKEN_FILES[name])
    assert library.names("chip") == ("alpha", "beta", "gamma")
    assert library.find("chip", "gamma").values["power"].number == 200
    assert library.find("memory", "dram").values["capacity"].number == 64 * 2**30


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_a_file_that_cannot_be_read_is_the_likely_cause_of_an_unknown_name(name: str, tmp_path: Path) -> None:
    library = library_with(tmp_path, BROKEN_FILES[name])
    with pytest.raises(LookupError, match=r"unknown chip 'delta'.* cannot be read: .*chips/broken\.yaml:\d+:\d+: "):
        library.find("chip", "delta")
    (tmp_path / "study.yaml").write_text(STUDY.replace("[alpha, beta]", "delta"))
    with pytest.raises(SpecError, match=r"broken\.yaml:1:|broken\.yaml:2:") as caught:
        load_study(tmp_path / "study.yaml", [tmp_path])
    assert any("unknown chip 'delta'" in problem.message for problem in caught.value.problems)


@pytest.mark.parametrize("name", BROKEN_ENTRIES)
def test_neighbours_of_a_broken_entry_stay_usable(name: str, tmp_path: Path) -> None:
    text = f"before: {{extends: alpha}}\n{BROKEN_ENTRIES[name]}after: {{extends: alpha}}\n"
    library = library_with(tmp_path, text)
    for sound in ("before", "after", "gamma", "alpha"):
        assert library.find("chip", sound).values["cores"].number == 4
    with pytest.raises(SpecError) as caught:
        library.find("chip", "delta")
    assert {problem.file for problem in caught.value.problems} == {str(tmp_path / "chips" / "broken.yaml")}
    assert {problem.line for problem in caught.value.problems} <= {2, 3}


@pytest.mark.parametrize("text", [*BROKEN_FILES.values(), *BROKEN_ENTRIES.values()])
def test_a_selection_uses_the_whole_kind(text: str | bytes, tmp_path: Path) -> None:
    library = library_with(tmp_path, text)
    for tags in ((), ("gpu",)):
        with pytest.raises(SpecError, match=r"broken\.yaml"):
            library.select("chip", None, tags)
    assert library.select("memory")


def test_a_file_that_may_redefine_an_entry_spoils_it(tmp_path: Path) -> None:
    theirs = write_files(tmp_path / "theirs", FILES)
    mine = write_files(tmp_path / "mine", {"chips/mine.yaml": "alpha: {power: 1 W\n"})
    library = Library.load([mine, theirs])
    for spoilt in ("alpha", "beta", "ALPHA"):
        with pytest.raises(SpecError, match=r"mine\.yaml"):
            library.find("chip", spoilt)
    (mine / "chips" / "mine.yaml").write_text("delta: {power: 1 W\n")
    assert Library.load([mine, theirs]).find("chip", "alpha").values["power"].number == 100


def test_a_broken_entry_does_not_uncover_what_it_hides(tmp_path: Path) -> None:
    theirs = write_files(tmp_path / "theirs", FILES)
    mine = write_files(tmp_path / "mine", {"chips/mine.yaml": "alpha: {power: 1 W, power: 2 W}\n"})
    with pytest.raises(SpecError, match="duplicate key 'power'"):
        Library.load([mine, theirs]).find("chip", "alpha")


def test_an_alias_that_is_the_name_of_another_entry_is_a_mistake(tmp_path: Path) -> None:
    """An entry is found by its name first: the alias was never reached, and nothing said so."""
    theirs = write_files(tmp_path / "theirs", {**FILES, "chips/more.yaml": SOUND.replace("{", "{aliases: [short], ")})
    text = "delta:\n  extends: alpha\n  aliases: [beta]\nepsilon: {extends: alpha, aliases: [short, ALPHA]}\n"
    mine = write_files(tmp_path / "mine", {"chips/mine.yaml": text})
    library = Library.load([mine, theirs])
    for spoilt in ("delta", "beta", "Beta"):
        with pytest.raises(SpecError, match=r"'beta' is the name of the entry at .*chips\.yaml:\d+, which") as caught:
            library.find("chip", spoilt)
        assert [(problem.line, problem.path) for problem in caught.value.problems] == [(3, "delta.aliases")]
    for taken in ("short", "ALPHA"):  # the first is their alias, the second is found as it is written
        assert library.find("chip", taken).name == "epsilon"
    assert library.find("chip", "alpha").name == "alpha"


def test_names_given_twice_spoil_that_name_only(tmp_path: Path) -> None:
    library = library_with(tmp_path, "gamma: {extends: beta}\nzeta: {extends: beta}\n")
    assert library.find("chip", "zeta").values["peak_flops"].number == 40e12
    with pytest.raises(SpecError, match="defined twice"):
        library.find("chip", "gamma")


@pytest.mark.parametrize("text", [BROKEN_FILES["syntax"], BROKEN_ENTRIES["unknown key"]])
def test_lists_and_validation_report_what_is_broken(text: str | bytes, tmp_path: Path) -> None:
    library_with(tmp_path, text)
    (tmp_path / "study.yaml").write_text(STUDY)
    for arguments in (("list", "chip"), ("list",), ("validate", str(tmp_path / "study.yaml"))):
        result = CliRunner().invoke(main, [*arguments, "--library", str(tmp_path)])
        assert result.exit_code == 2
        assert "broken.yaml:1:" in result.stderr
        assert result.stdout == ""
    for arguments in (("list", "memory"), ("plan", str(tmp_path / "study.yaml"))):
        assert CliRunner().invoke(main, [*arguments, "--library", str(tmp_path)]).exit_code == 0


@pytest.mark.parametrize(
    "text", ["next_year: {extends: sn10\nother: 3", "next_year: {extends: sn10, source: s, colour: red}\n"]
)
def test_a_run_of_what_uses_nothing_of_a_broken_file_runs(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine" / "chips" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    options = ["--library", str(tmp_path / "mine"), "--out", str(tmp_path / "out"), "-q"]
    used = CliRunner().invoke(main, ["run", "table6_sn10", "--set", "chip=next_year", *options])
    assert used.exit_code == 2 and used.stdout == ""
    assert f"{path}:" in used.stderr and "Traceback" not in used.stderr
    assert not (tmp_path / "out").exists()
    assert CliRunner().invoke(main, ["run", "table6_sn10", *options]).exit_code == 0
