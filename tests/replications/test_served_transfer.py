"""What constants of servers are worth for other models: which stacks, which rows, and how the table counts."""

import numpy as np
import pytest

from replications import served_transfer
from replications.served_transfer import ONE, OTHERS, QUANTITIES, Carried, carried, stacks, table
from sweeper.evidence.calibration import Sample, sample_of


def test_the_stacks_are_those_of_servers() -> None:
    assert {stack.name for stack in stacks()} == {
        *("h100_vllm", "h200_vllm", "h200_trtllm", "h200_sglang", "b200_vllm", "b200_trtllm", "b200_sglang"),
    }


@pytest.mark.nightly
def test_constants_of_one_model_predict_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few runs of two models; what is predicted are never those that were fitted to."""
    stack = next(stack for stack in stacks() if stack.name == "h100_vllm")
    whole = sample_of(stack.model_copy(update={"layouts": served_transfer.READINGS}))
    chosen: list[int] = []
    for model in sorted(set(whole.sources)):
        of_model = [at for at, source in enumerate(whole.sources) if source == model]
        for answer in QUANTITIES:
            chosen += [at for at in of_model if whole.points[at].answer == answer][:4]
    few = Sample(tuple(whole.points[at] for at in chosen), tuple(whole.sources[at] for at in chosen))
    monkeypatch.setattr(served_transfer, "sample_of", lambda _: few)
    found = list(carried(stack))
    assert len(found) == 2 * 2 * len(QUANTITIES), "of two models, each fitted to and left out"
    assert all(len(part.measured) == 4 and (part.predicted > 0.0).all() for part in found)
    one, others = ([part for part in found if part.fitted == fitted] for fitted in (ONE, OTHERS))
    # of two models, the others of one are the other
    np.testing.assert_allclose(one[0].measured, others[3].measured)
    np.testing.assert_allclose(one[0].predicted, others[3].predicted, rtol=1e-12)


def test_the_table_is_of_all_runs_together() -> None:
    parts = [
        Carried(fitted, quantity, np.array(measured), np.array(predicted))
        for fitted in (ONE, OTHERS)
        for quantity in QUANTITIES.values()
        for measured, predicted in (([1.0, 2.0], [1.1, 1.8]), ([4.0], [6.0]))
    ]
    rows = table(parts).to_dicts()
    assert len(rows) == 6 and rows[0] == {
        "fitted to": "one model", "of the others": "TPOT", "runs": 3, "median": "10.00", "p90": "42.00",
        "signed, median": "10.00", "Spearman": "1.00",
    }  # fmt: skip
