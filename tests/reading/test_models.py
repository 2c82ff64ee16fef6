"""The measurement behind a decision is as the decision says."""

import re

from tests.places import ROOT
from tests.reading.models import summary, told
from tests.support.small_specs import STUDY


def test_the_decision_names_what_was_measured() -> None:
    found = summary()
    text = " ".join((ROOT / "docs" / "decisions.md").read_text().split())
    said = re.search(
        r"on the (\d+) mistakes .* ruamel.yaml refuses (\d+) of them and models of a study's keys (\d+), "
        r"together (\d+) at the right line; of the (\d+) messages that name the nearest valid name none is left. "
        r"The other (\d+)",
        text,
    )
    assert said is not None
    mistakes, by_yaml, by_model, *others = list(found.values())[:5]
    counted = [mistakes, by_yaml, by_model, *others, mistakes - by_yaml - by_model]
    assert [int(each) for each in said.groups()] == counted
    assert found["with the nearest name, of theirs"] == 0
    for name in ("nodes", "units", "checks"):
        lines = (ROOT / "sweeper" / "reading" / f"{name}.py").read_text().count("\n")
        assert re.search(rf"`{name}\.py` \({lines}\b", text), f"{name}.py has {lines} lines"


def test_the_models_take_a_study() -> None:
    assert told(STUDY).by == "nobody"
