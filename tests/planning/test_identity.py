"""A run's directory is named after what its bytes depend on: equations and library values it uses, engine, encoding."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import sweeper
from sweeper.engine.compilation import sources
from sweeper.planning import schema
from sweeper.study.study import Study
from tests.places import ROOT

STUDIES = ("dse80", "imec_moe", "calculon_search", "chiplet_count")
"""One study of each family, and one with packages."""

NAMES = """
import json, sys
from pathlib import Path
import sweeper
from sweeper.running.storage.store import directory_of
studies = {name: sweeper.plan(Path("specs/studies") / f"{name}.yaml") for name in sys.argv[1:]}
print(json.dumps({name: directory_of("results", plan) for name, plan in studies.items()}))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a checkout has, to edit."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in ("kernels", "sweeper", "specs", "replications", "docs"):
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def run_directories(checkout: Path) -> dict[str, str]:
    """Names of the run directories of some studies, as the code of a checkout gives them."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "SWEEPER_CACHE_DIR": str(checkout / "cache")}
    command = [sys.executable, "-c", NAMES, *STUDIES]
    found = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(found.stdout))


@pytest.fixture(scope="module")
def before(checkout: Path) -> dict[str, str]:
    return run_directories(checkout)


def changed(checkout: Path, files: Iterable[Path]) -> dict[str, str]:
    """Names of the run directories while some files end otherwise."""
    return edited(checkout, dict.fromkeys(files, "\nONE_MORE = 1\n"))


def edited(checkout: Path, endings: Mapping[Path, str]) -> dict[str, str]:
    """Names of the run directories while files have more at their ends."""
    texts = {file: file.read_text() for file in endings}
    try:
        for file, text in texts.items():
            file.write_text(text + endings[file])
        return run_directories(checkout)
    finally:
        for file, text in texts.items():
            file.write_text(text)


@pytest.mark.slow
def test_what_does_not_touch_the_bytes_leaves_every_name_unchanged(checkout: Path, before: dict[str, str]) -> None:
    """Statements and comments in pictures, the command line and replications; comments everywhere; documents."""
    rooms = [checkout / "replications", *(checkout / "sweeper" / name for name in ("views", "commands", "evidence"))]
    beside = [file for room in rooms for file in room.rglob("*.py")] + [checkout / "sweeper" / "cli.py"]
    documents = list((checkout / "docs").glob("*.md"))
    evaluated = [*(checkout / "kernels").rglob("*.py"), *(checkout / "sweeper").rglob("*.py")]
    assert min(map(len, (beside, documents, evaluated))) >= 20
    endings = dict.fromkeys(evaluated, "\n# a remark\n") | dict.fromkeys(documents, "\nOne more sentence.\n")
    assert edited(checkout, endings | dict.fromkeys(beside, "\nONE_MORE = 1\n# a remark\n")) == before


@pytest.mark.slow
def test_a_change_of_one_familys_physics_leaves_the_runs_of_the_others_valid(
    checkout: Path, before: dict[str, str]
) -> None:
    theirs = {
        "transformers": {"imec_moe", "chiplet_count", "dse80"},  # whose layers are graphs
        "graphs": {"dse80"},
        "calculon": {"calculon_search"},
        "packages": {"chiplet_count"},
    }
    for room, studies in theirs.items():
        files = [file for file in (checkout / "kernels" / room).glob("*.py") if file.name != "__init__.py"]
        after = changed(checkout, files)
        assert {name for name in before if after[name] != before[name]} == studies, room


@pytest.mark.parametrize(
    "file", ["kernels/shared/network.py", "sweeper/engine/evaluation.py", "sweeper/reading/units.py"]
)
def test_what_all_studies_use_changes_all_names(file: str, checkout: Path, before: dict[str, str]) -> None:
    after = changed(checkout, [checkout / file])
    assert all(after[name] != before[name] for name in before)


def test_library_values_and_encoding_change_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    study: Study = sweeper.load(ROOT / "specs" / "studies" / "table6_sn10.yaml")
    before = sweeper.Plan(study).hash
    assert sweeper.Plan(study).hash == before
    monkeypatch.setattr(schema, "ENCODING", {**schema.ENCODING, "compression_level": 2})
    monkeypatch.setattr("sweeper.planning.plan.ENCODING", schema.ENCODING)
    assert sweeper.Plan(study).hash != before
    monkeypatch.undo()
    entry = study.library.find("chip", str(sweeper.Plan(study).contents.constants["chip"]))
    monkeypatch.setattr(type(entry), "resolved", lambda self: {"name": self.name})
    assert sweeper.Plan(study).hash != before


def test_neither_comments_nor_docstrings_nor_layout_are_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))

    def digest(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        return sources.code_digest(name)

    plain = digest("plain", "def f(x):\n    return x + 1\n")
    assert digest("dressed", '"""M."""\n# c\ndef f(x):  # c\n    """D."""\n\n    return (x\n        + 1)\n') == plain
    others = ["def f(x):\n    return x + 2\n", "def f(y):\n    return y + 1\n", "def f(x):\n    return x - 1\n"]
    assert len({plain, *(digest(f"other{n}", text) for n, text in enumerate(others))}) == 4


def test_what_was_read_is_kept_and_damage_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sources, "_folder", lambda: tmp_path)
    (tmp_path / "kept.py").write_text("import json\nfrom os import path\n")

    def reading() -> sources.Reading:
        sources._reading.cache_clear()
        return sources._reading("kept")

    once = reading()
    assert once.imported == [["json", ""], ["os", "path"]]
    (file,) = tmp_path.glob("*.json")
    with monkeypatch.context() as patch:
        patch.setattr(sources, "_read", None)
        assert reading() == once
    for damage in ("", "{", "[]", '{"digest": 1}'):
        file.write_text(damage)
        assert reading() == once
    sources._reading.cache_clear()
