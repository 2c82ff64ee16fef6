"""What a cost model is worth in a search: picks of judges against those of the rules, all of them simulated."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.errors import UsageFault
from sweeper.ranking.dataset import read_decisions
from sweeper.ranking.kept import trained_on, training_of
from sweeper.ranking.measures import members
from sweeper.ranking.rules import rules, schedules
from sweeper.ranking.trials import picks
from sweeper.ranking.trials.picks import ORACLE, RULES, SCHEDULE, Search, compared, refuse_known, room_of, seen
from tests.support.labels import labelled


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A labelled dataset with six placements of every graph."""
    return labelled(tmp_path_factory.mktemp("labels"))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two probes, four candidates, and no graph without room."""
    monkeypatch.setattr(picks, "PROBES", 2)
    monkeypatch.setattr(picks, "COUNTS", (4,))
    monkeypatch.setattr(picks, "SHORTLISTS", (1, 2))
    monkeypatch.setattr(picks, "STEADILY", 1.0)
    monkeypatch.setattr(picks, "JUDGED", 0.0)
    monkeypatch.setattr(picks, "ROOM", 0.0)


def search() -> Search:
    label, brief = np.array([0.4, 0.5, 0.3, 0.8]), np.array([0.6, 0.45, 0.3, 0.5])
    return Search(label, brief, {RULES: np.array([0.9, 0.1, 0.1, 0.1]), "mine": np.array([0.1, 0.2, 0.9, 1.0])})


@pytest.fixture
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation takes as long as a candidate, a brief one half as long, and to judge takes no time."""
    monkeypatch.setattr(picks, "JUDGED", 0.0)
    monkeypatch.setattr(picks, "BRIEFLY", 0.5)
    monkeypatch.setattr(picks, "STEADILY", 1.0)
    monkeypatch.setattr(picks, "SHORTLISTS", (1, 2))


@pytest.mark.usefixtures("dear")
def test_a_gain_is_that_of_simulated_rates() -> None:
    assert search().gain("mine", 4) == pytest.approx(0.8 / 0.4 - 1.0)
    assert search().gain("mine", 3) == pytest.approx(0.3 / 0.4 - 1.0)
    assert search().gain(ORACLE, 3) == pytest.approx(0.5 / 0.4 - 1.0)
    assert search().gain(ORACLE, 4) == pytest.approx(0.8 / 0.4 - 1.0)


@pytest.mark.usefixtures("dear")
def test_a_judge_with_a_shortlist_sees_fewer_for_what_is_simulated_more() -> None:
    """Of four candidates three: the one that it likes best, and the best of all, is not among them."""
    assert [seen(4, shortlist) for shortlist in (1, 2, 3, 9)] == [4, 3, 1, 0]
    assert search().gain("mine", 4, 2) == pytest.approx(0.5 / 0.4 - 1.0)
    assert search().gain("mine", 8, 2) == pytest.approx(0.8 / 0.4 - 1.0)


def test_of_a_long_shortlist_those_are_finished_that_are_fastest_at_first() -> None:
    """Of all four, number 0 and 3; number 3 is the fastest in the end."""
    assert search().picks("mine", 4, 4).tolist() == [0, 3]
    assert search().picks("mine", 3, 3).tolist() == [0, 1]


def test_room_is_what_the_best_has_over_the_mean() -> None:
    assert room_of(np.array([0.5, 0.5])) == 0.0
    assert room_of(np.array([0.2, 0.4])) == pytest.approx(1.0 / 3.0)


@pytest.mark.usefixtures("few")
def test_gains_of_a_dataset_are_those_of_its_labels(directory: str) -> None:
    decisions = read_decisions(directory)
    found = compared({"few": directory}, [SCHEDULE])
    assert found["graphs"] == {"few": {"drawn": 12, "with_room": 12}}
    rows = {row["judge"]: row for row in found["gains"] if row["judge"] == ORACLE or row["simulated"] == 1}
    by_hand = []
    for at in members(decisions.graph):
        at = at[2:]
        picked = decisions.label[at[np.argmax(rules(decisions)[at])]]
        by_hand.append(decisions.label[at[np.argmax(schedules(decisions)[at])]] / picked - 1.0)
    assert rows[SCHEDULE]["gain"] == pytest.approx(np.mean(by_hand))
    assert rows[ORACLE]["of_oracle"] == 1.0
    low, high = rows[SCHEDULE]["gain_interval"]
    assert low <= rows[SCHEDULE]["gain"] <= high
    assert all(row["gain"] <= rows[ORACLE]["gain"] for row in found["gains"])


@pytest.mark.usefixtures("few")
def test_graphs_without_room_are_left_out_by_their_probes(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = read_decisions(directory)
    rooms = sorted(room_of(decisions.label[at[:2]]) for at in members(decisions.graph))
    monkeypatch.setattr(picks, "ROOM", rooms[5])
    assert compared({"few": directory}, [SCHEDULE])["graphs"]["few"]["with_room"] == 12 - rooms.index(rooms[5])
    monkeypatch.setattr(picks, "ROOM", 99.0)
    assert compared({"few": directory}, [SCHEDULE])["gains"] == []


@pytest.mark.usefixtures("few")
def test_the_command(directory: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["judge-placements", directory, "--model", "schedule", "--json"])
    assert done.exit_code == 0, done.output
    assert {row["judge"] for row in json.loads(done.output)["gains"]} == {SCHEDULE, ORACLE}
    done = CliRunner().invoke(main, ["judge-placements", directory])
    assert "of the oracle's" in done.output
    done = CliRunner().invoke(main, ["judge-placements", directory, "--model", "guesses"])
    assert done.exit_code == 2
    assert "unknown cost model 'guesses'" in done.output


def test_a_model_is_not_judged_on_what_it_has_learned_or_does_not_know(directory: str) -> None:
    decisions = read_decisions(directory)
    own = training_of(directory, decisions)
    model = trained_on("mine", (), decisions, (own,))
    with pytest.raises(UsageFault, match="mine has learned from few: judge placements of another study"):
        refuse_known(model, directory, decisions)
    refuse_known(replace(model, training=(replace(own, hash="other"),)), directory, decisions)
    for fabrics in ({"plasticine": "abc"}, {"plasticine_narrow": "abc"}):
        with pytest.raises(UsageFault, match="mine was not trained on plasticine_narrow as it is in few"):
            refuse_known(replace(model, training=(replace(own, hash="o", fabrics=fabrics),)), directory, decisions)


def test_too_few_placements_are_an_error(directory: str) -> None:
    done = CliRunner().invoke(main, ["judge-placements", directory])
    assert done.exit_code == 2
    assert "6 placements: 16 tell how much room there is" in done.output


def test_options_that_nothing_reads_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    run, save = str(tmp_path / "run"), str(tmp_path / "mine.json")
    Path(run, "resolved.json").write_text("{}")
    for options, words in (
        (["judge-placements", run, run, "--library", "none"], f"{run}, {run} name runs: leave out --library"),
        (["fit-units", run, "--out", "none"], f"{run} names a run: leave out --out"),
        (["fit-placement", run, "--library", "none"], f"{run} names a run: leave out --library"),
        (["fit-placement", run, "--save", save, "--out", "none"], f"{run} names a run: leave out --out"),
        (["fit-placement", run, "--save", save, "--after", run], "--after compares, and --save keeps"),
        (["fit-placement", run, "--save", save, "--graphs", "3"], "it needs --after STUDY"),
        (["fit-placement", run, "--save", save, "--folds", "3", "-q"], "leave out --folds and -q, or name a --model"),
    ):
        done = CliRunner().invoke(main, options)
        assert done.exit_code == 2 and words in done.output, done.output
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_the_fastest_of_a_shortlist_is_placed_and_may_be_refined(tmp_path: Path) -> None:
    """More that is simulated is never slower; what is refined is one candidate more."""
    size = ["--size", "rows=32", "--size", "width=96", "--size", "depth=2", "--shard", "samples=1"]
    asked = ["place", "mlp", "--fabric", "plasticine_narrow", *size, "--candidates", "6", "--moves", "20", "--json"]
    found = {}
    for shortlist, moves in ((1, 0), (6, 0), (7, 200)):
        options = ["--shortlist", str(shortlist), "--refine", str(moves), "--out", str(tmp_path)]
        done = CliRunner().invoke(main, [*asked, *options])
        assert done.exit_code == 0, done.output
        found[shortlist] = json.loads(done.stdout)
        assert found[shortlist]["pick"]["simulated"] == shortlist
    assert [each["pick"]["candidates"] for each in found.values()] == [6, 6, 7]
    rates = [each["share_of_bound"] for each in found.values()]
    assert rates[0] <= rates[1] <= rates[2]
