"""Damaged specs are read or refused with positions: no other exception may come out of the reader."""

import copy
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweeper.errors import SpecError
from sweeper.library import library as library_module
from sweeper.study.study import load_study
from tests.support.examples import examples
from tests.support.small_specs import FILES, STUDY, write_files

WORKLOADS = "workloads/workloads.yaml"

HOSTILE: list[Any] = [
    None, "", " ", True, 0, -1, 1e308, -0.0, float("nan"), float("inf"), 2**80, "nan GB", "1e999 B", "no", "é\u2028",
    "{i}", "x" * 5000, "__import__('os')", "a..b..c", "..", "9**9**9", "min", "halves", "alpha", "chips", "1 GB/s",
    [], {}, [[]], [None], {"": ""}, {"columns": []}, {"columns": ["chip"], "rows": [[]]}, {"library": None},
    {"divisors_of": "1e12 + 1"}, {"linspace": [0, 1, 2]}, {"range": ["1 B", "2 B", "1 B"]}, {"values": {}},
]  # fmt: skip


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a tree of lists and dicts."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
    return [found for key in keys for found in [(node, key), *places(node[key])]]


def damage(tree: Any, chance: random.Random) -> None:
    """Delete, rename, duplicate, replace or move one value of a tree."""
    spots = places(tree)
    if not spots:
        return
    holder, key = chance.choice(spots)
    action = chance.choice(["delete", "rename", "hostile", "hostile", "swap", "wrap", "text"])
    if action == "delete":
        del holder[key]
    elif action == "rename" and isinstance(holder, dict):
        holder[chance.choice([str(key) + "x", str(key)[:-1], "name", "columns", "", "chip", "extends"])] = holder.pop(
            key
        )
    elif action == "hostile":
        holder[key] = copy.deepcopy(chance.choice(HOSTILE))
    elif action == "swap":
        other, place_of = chance.choice(spots)
        holder[key] = copy.deepcopy(other[place_of])
    elif action == "wrap":
        holder[key] = chance.choice(
            [[holder[key]], {"columns": holder[key]}, [holder[key]] * 2, {"value": holder[key]}]
        )
    elif isinstance(holder[key], str) and holder[key]:
        at = chance.randrange(len(holder[key]))
        holder[key] = holder[key][:at] + chance.choice("*{}().,:/-1e \n'\\") + holder[key][at + 1 :]


@pytest.mark.slow
@settings(examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_damaged_specs_are_read_or_refused(tmp_path: Path, seed: int, wounds: int) -> None:
    chance = random.Random(seed)
    trees = {name: yaml.safe_load(text) for name, text in {**FILES, "study.yaml": STUDY}.items()}
    for _ in range(wounds):
        name = chance.choice(["study.yaml", "study.yaml", "study.yaml", WORKLOADS, WORKLOADS, *FILES])
        damage(trees[name], chance)
    texts = {name: yaml.safe_dump(tree, sort_keys=False, allow_unicode=True) for name, tree in trees.items()}
    if chance.random() < 0.2:
        # Damage to the text itself: the end is lost, or two characters change places.
        text = texts["study.yaml"]
        at = chance.randrange(len(text))
        texts["study.yaml"] = text[:at] + chance.choice(["", text[at + 1 :], "\t" + text[at:], "\n" + text[at:]])
    shutil.rmtree(tmp_path / "fuzz", ignore_errors=True)
    root = write_files(tmp_path / "fuzz", texts)
    with pytest.MonkeyPatch.context() as patch:
        # The built-in library would only make this slower.
        patch.setattr(library_module, "installed_specs", lambda: (root,))
        try:
            study = load_study(root / "study.yaml")
        except SpecError as fault:
            problems = fault.problems
        else:
            assert study.boxes
            return
    assert problems
    for problem in problems:
        assert Path(problem.file).exists()
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
