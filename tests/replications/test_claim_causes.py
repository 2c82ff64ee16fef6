"""Why claims of DFModel move: what the file says is what changing every assumption alone finds."""

import math

import pytest

from replications.claim_causes import (
    FURTHER,
    Effects,
    Study,
    claims_about,
    effects,
    half_h100,
    row,
    steps_of,
    study_of,
    whole_h100,
    with_switch,
)
from sweeper.evidence.claims import published
from sweeper.words.defaults import SWITCH_DEFAULTS

FILE = published("dfmodel")
LONG = {"grid": pytest.mark.nightly}
"""Datasets whose causes take a minute and more to find."""


@pytest.mark.slow
@pytest.mark.parametrize("dataset", [pytest.param(name, marks=LONG.get(name, ())) for name in FILE.datasets])
def test_causes_are_those_found(dataset: str) -> None:
    """The first figure of a claim speaks for the others: they differ by prices and powers, which do not change."""
    claims = claims_about(dataset)
    found = effects(dataset, claims)
    assert {claim.claim: found[next(iter(claim.figures))].causes for claim in claims} == {
        claim.claim: claim.causes for claim in claims
    }
    for claim in claims:
        first, *others = (found[name] for name in claim.figures)
        for other in others:
            assert other.change == pytest.approx(first.change, rel=1e-9)
            assert other.there == pytest.approx(first.there, rel=1e-6, abs=1e-9)


def test_every_claim_that_moves_has_a_cause() -> None:
    """Two of 45 figures stay within their digits, beside others of their claims that do not."""
    assert [claim.claim for claim in FILE.claims if not claim.causes] == []
    further = {step.name for steps in FURTHER.values() for step in steps}
    assert {cause for claim in FILE.claims for cause in claim.causes} <= further | SWITCH_DEFAULTS.keys()


def test_steps_are_all_differences() -> None:
    """Sixteen switches have another choice in full physics than as published."""
    names = [step.name for step in steps_of("table6_sn10")]
    assert len(names) == len(set(names)) == 16
    assert [step.name for step in steps_of("grid")][16:] == [step.name for step in FURTHER["grid"]]


def test_a_switch_replaces_all_that_a_study_says_of_it() -> None:
    study = study_of("dfmodel_published")
    dlrm = study["boxes"][1]
    assert dlrm["axes"]["machine"]["columns"] == ["chip", "partitioning", "gradient_all_reduce"]
    with_switch(study, "gradient_all_reduce", "overlapped")
    assert study["assumptions"] == ["dfmodel_published", {"gradient_all_reduce": "overlapped"}]
    assert "assumptions" not in dlrm
    assert dlrm["axes"]["machine"]["rows"][0] == ["h100_sxm", "kernel_by_kernel"]
    serving = study_of("serving_llama3_8b")
    with_switch(serving, "overlap", "streamed")
    assert serving["assumptions"] == ["dfmodel_published", {"overlap": "streamed", "latency": "included"}]


def chips(study: Study) -> list[object]:
    return [box["axes"].get("chip") for box in study["boxes"]]


def test_half_a_chip_there_and_back() -> None:
    theirs, ours = study_of("dfmodel_published"), study_of("dse80")
    assert "h100_sxm_half" in chips(theirs) and "h100_sxm_half" not in chips(ours)
    whole_h100(theirs)
    half_h100(ours)
    assert "h100_sxm_half" not in chips(theirs)
    (box,) = (box for box in ours["boxes"] if box["axes"].get("chip") == "h100_sxm_half")
    assert [row[0] for row in box["axes"]["network"]["rows"]] == ["dragonfly"]
    assert box["axes"]["workload"] == "fft_1t"


def test_causes_act_in_the_direction_of_the_change() -> None:
    found = Effects(4.0, 2.0, {"more": math.log(3.0), "less": math.log(0.6)}, {"less": -0.1, "least": -0.3})
    assert found.causes == ["less", "least"]
    assert found._replace(back={"less": -0.1}).causes == ["less"]
    assert found._replace(full_physics=4.01).causes == []
    assert row("X", found) == ("X", "4", "2", "-50.0%", "more +200%, less -40%", "least -26%, less -10%", "less, least")
