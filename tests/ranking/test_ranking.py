"""Cost models from labels to a comparison, small: what `make placement` does at length."""

import json
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.errors import UsageFault
from sweeper.kernels.placement.judging.candidates import TIE, Subject, by_networks, by_rules, by_schedule, seen_at
from sweeper.kernels.placement.judging.network import share_of_bound
from sweeper.library.library import Library, builtin_specs
from sweeper.placing.cutting import bound_cycles
from sweeper.placing.decisions import load_decisions
from sweeper.placing.place import Placement, units_of
from sweeper.ranking import kept, published
from sweeper.ranking.dataset import SUMMARIES, WIDTHS, Decisions, joined, read_decisions
from sweeper.ranking.models import GROUPED, MODELS, PROTOCOLS, RANDOM
from sweeper.ranking.network import OURS, learned, log_shares, shares
from sweeper.ranking.recipe import Recipe
from sweeper.ranking.rules import calibrated, rules, tuned_rules
from sweeper.ranking.search import Judge, candidates, judge_named, picked, subject_of, told
from sweeper.ranking.training import Batches, predicted, trained
from sweeper.ranking.trees import boosted, single
from sweeper.ranking.trees import shares as tree_shares
from sweeper.ranking.trials.folds import Comparison, FoldPlan, fold_of
from sweeper.ranking.trials.relearning import RELEARNED, SCRATCH, UNCHANGED, before, first_graphs
from tests.support.examples import first_of
from tests.support.labels import STUDY, labelled

LIBRARY = Library.load([builtin_specs()])
TRAINING = kept.Training("few", "abc", {}, 72, 12)
SMALL = Recipe(width=8, rounds=1, epochs=2, graphs=2, decisions=3)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A labelled dataset."""
    return labelled(tmp_path_factory.mktemp("labels"))


@pytest.fixture(scope="module")
def decisions(directory: str) -> Decisions:
    """Its decisions."""
    return read_decisions(directory)


def test_decisions_are_read_as_they_were_written(decisions: Decisions) -> None:
    assert len(decisions) == 72
    assert len(np.unique(decisions.graph)) == 12
    assert (decisions.label <= 1.0 / decisions.peak + 1e-9).all()
    some = decisions.taken([5, 70])
    for at, number in enumerate((5, 70)):
        assert some.label[at] == decisions.label[number]
        for name, table in decisions.tables.items():
            assert np.array_equal(some.tables[name].of(at), table.of(number))
    nodes, seen = list(some.features())[1]
    assert seen.actor.shape == (len(nodes.kind), WIDTHS["actor"])
    assert seen.sink_reader.max() < len(seen.actor)
    assert seen.pair_stream.max(initial=-1) < len(seen.stream)


def test_datasets_are_joined_with_their_graphs_apart(decisions: Decisions) -> None:
    both = joined([decisions, decisions.taken([3, 71])])
    assert len(both) == 74
    assert len(np.unique(both.graph)) == 14
    assert both.label[73] == decisions.label[71]
    for name, table in decisions.tables.items():
        assert np.array_equal(both.tables[name].of(72), table.of(3))


def test_no_graph_is_in_both_parts_of_a_grouped_fold(decisions: Decisions) -> None:
    fold = fold_of(decisions, GROUPED, 5)
    for number in range(5):
        assert not set(decisions.graph[fold == number]) & set(decisions.graph[fold != number])
    sizes = np.bincount(fold_of(decisions, RANDOM, 5))
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(fold, fold_of(decisions, GROUPED, 5))


@pytest.mark.nightly
def test_a_network_predicts_the_same_with_jax_and_without(decisions: Decisions) -> None:
    network = learned(decisions, SMALL)
    there = predicted(OURS, network, decisions, many=9)
    here = shares(network, decisions)
    assert np.abs(here - there).max() < 1e-5  # JAX computes in float32
    with jax.enable_x64(True):
        batch = Batches(OURS, decisions, [np.arange(len(decisions))]).batch(np.arange(len(decisions)))
        exact = np.exp(np.asarray(log_shares(jax.tree.map(jax.numpy.asarray, network), batch, len(decisions))))
    assert np.abs(here - exact).max() < 1e-6
    assert ((here > 0.0) & (here <= 1.0 / decisions.peak)).all()


@pytest.mark.nightly
def test_training_fits_what_it_is_shown_and_is_the_same_again(decisions: Decisions) -> None:
    longer = Recipe(width=8, rounds=2, epochs=60, graphs=2, decisions=3)
    network = learned(decisions, longer)
    error = np.abs(shares(network, decisions) / decisions.label - 1.0).mean()
    assert error < 0.5 * np.abs(rules(decisions) / decisions.label - 1.0).mean()
    again = learned(decisions, longer)
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(network), jax.tree.leaves(again)))


def test_trees_score_as_the_library_that_trained_them(decisions: Decisions) -> None:
    from sklearn.ensemble import GradientBoostingRegressor

    from sweeper.ranking.trees import SHAPE

    beyond = np.log(decisions.label * decisions.expected)
    model = GradientBoostingRegressor(random_state=0, **SHAPE).fit(single(decisions.summary), beyond)
    rate = np.exp(model.predict(single(decisions.summary))) / decisions.expected
    wanted = np.minimum(rate, 1.0 / decisions.peak)
    assert np.allclose(tree_shares(boosted(decisions), decisions), wanted, rtol=1e-12)


def test_tuned_rules_are_no_worse_than_rules_on_what_they_were_tuned_to(decisions: Decisions) -> None:
    tuned = tuned_rules(decisions)
    errors = [np.abs(each / decisions.label - 1.0).mean() for each in (tuned.shares(decisions), rules(decisions))]
    assert errors[0] < errors[1]
    line = calibrated(np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.1, 0.4, 0.2, 0.5]))
    assert (np.diff(line) > 0.0).all()  # it rises, though labels do not


@pytest.mark.parametrize("sight", ["PUBLISHED", *first_of(["EVERYTHING", "NO_NODES", "NO_EDGES"])])
def test_the_network_of_the_paper_sees_what_it_is_let_see(sight: str, decisions: Decisions) -> None:
    seen = getattr(published, sight)
    learner = published.learner(seen)
    network = trained(learner, decisions, SMALL)
    found = predicted(learner, network, decisions, many=9)
    assert ((found > 0.0) & (found < 1.0)).all()
    longer = decisions.tables["sink"].rows.copy()
    longer[:, 3] += 5.0
    table = type(decisions.tables["sink"])(longer, decisions.tables["sink"].first)
    tables = {**decisions.tables, "sink": table}
    other = Decisions(*decisions.columns, tables)
    same = np.allclose(predicted(learner, network, other, many=9), found)
    assert same == (not seen.route_features)


def test_folds_fan_out_and_are_compared(directory: str, tmp_path: Path) -> None:
    names = ("mean", "rules", "tuned_rules", "trees")
    arguments = [word for name in names for word in ("--model", name)]
    done = CliRunner().invoke(main, ["fit-placement", directory, "--out", str(tmp_path), "--json", "-q", *arguments])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert [(row["protocol"], row["model"]) for row in found["over_all"]] == [(p, n) for p in PROTOCOLS for n in names]
    for row in found["over_all"]:
        low, high = row["rank_interval"]
        assert low - 1e-9 <= row["rank"] <= high + 1e-9 or row["model"] == "mean"
        assert row["relative_error"] > 0.0
    plan = FoldPlan(directory, Comparison(names))
    rows = [plan.evaluate(chunk) for chunk in range(plan.chunk_count) if plan.jobs[chunk].model == "trees"]
    asked = [point for part, job in zip(rows, (j for j in plan.jobs if j.model == "trees")) if job.protocol == GROUPED
             for point in part["point_id"].to_pylist()]  # fmt: skip
    assert sorted(asked) == list(range(72))


@pytest.mark.nightly
def test_a_kept_network_is_the_same_network(directory: str, decisions: Decisions, tmp_path: Path) -> None:
    network = learned(decisions, SMALL)
    model = kept.trained_on("mine", (network,), decisions, (kept.training_of(directory, decisions),))
    path = tmp_path / "mine.json"
    kept.save(model, path)
    narrow, other = (LIBRARY.find("fabric", name) for name in ("plasticine_narrow", "sn10_like"))
    read = kept.load(str(path), narrow)
    assert read.hash == model.hash
    assert np.array_equal(shares(read.networks[0], decisions), shares(network, decisions))
    assert read.covers(decisions.summary).all()
    assert not read.covers(decisions.summary + 1e6).any()
    text = path.read_text()
    for change, words in (
        (text.replace('"features": 4', '"features": 0'), "features of version 0"),
        (text.replace('"sha256": "', '"sha256": "0'), "is damaged"),
        (text[:100], "is no cost model"),
    ):
        path.write_text(change)
        with pytest.raises(UsageFault, match=words):
            kept.load(str(path))
    path.write_text(text)
    with pytest.raises(UsageFault, match="was trained on plasticine_narrow, not on sn10_like"):
        kept.load(str(path), other)
    longer = {**narrow.values, "hop_cycles": replace(narrow.values["hop_cycles"], number=3.0)}
    with pytest.raises(UsageFault, match="was trained on another plasticine_narrow, with other numbers"):
        kept.load(str(path), replace(narrow, values=longer))
    with pytest.raises(UsageFault, match="unknown cost model 'rulez', did you mean 'rules'"):
        judge_named("rulez", narrow)


@pytest.mark.nightly
def test_a_network_is_trained_kept_and_picks(directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.ranking.models.OURS", SMALL)
    path = tmp_path / "mine.json"
    saved = CliRunner().invoke(main, ["fit-placement", directory, "--also", directory, "--save", str(path)])
    assert saved.exit_code == 0, saved.output
    assert [part["decisions"] for part in json.loads(path.read_text())["training"]] == [72, 72]
    size = ["--size", "rows=32", "--size", "hidden=64", "--size", "feed_forward=128"]
    asked = ["place", "ffn", "--fabric", "plasticine_narrow", *size, "--candidates", "5", "--moves", "50"]
    place = [*asked, "--out", str(tmp_path), "--model", str(path)]
    done = CliRunner().invoke(main, place)
    assert done.exit_code == 0, done.output
    known = f"mine ({kept.load(str(path)).hash[:12]}), which expects"
    assert f"5 of 5 simulated, 2 of them to the end, chosen by {known}" in done.output
    assert not list(tmp_path.glob("*_folds*"))  # nothing was asked to be compared
    others = ["plasticine" if word == "plasticine_narrow" else word for word in place]
    refused = CliRunner().invoke(main, others)
    assert refused.exit_code == 2
    assert "mine was trained on plasticine_narrow, not on plasticine: train it with" in refused.output


@pytest.mark.parametrize("name", kept.names())
def test_a_model_of_the_library_knows_its_fabrics_as_they_are(name: str) -> None:
    """Nobody may change features or a fabric without training it again."""
    fabrics = {fabric for part in kept.load(name).training for fabric in part.fabrics}
    assert fabrics
    for fabric in fabrics:
        model = kept.load(name, LIBRARY.find("fabric", fabric))
        assert sum(part.decisions for part in model.training) >= 6000
        assert model.source.startswith("sweeper fit-placement ")


@pytest.mark.nightly
def test_candidates_are_judged_as_they_would_be_one_by_one(decisions: Decisions, tmp_path: Path) -> None:
    path = tmp_path / "few.yaml"
    path.write_text(STUDY)
    study = load_decisions(path)
    entry, graph = study.fabrics[0], study.graph(study.fabrics[0], 1)
    bound = bound_cycles(units_of(entry), graph.operators, graph.units)
    subject = subject_of(entry, graph.units, bound)
    sites = candidates(subject, graph.units, 6, 50)
    network = learned(decisions, SMALL)
    for site, rule, timed in zip(sites, by_rules(subject, sites), by_schedule(subject, sites)):
        numbers = dict(zip(SUMMARIES, seen_at(subject, site)[2]))
        peak, crowded = max(numbers["peak"], 1.0), TIE * numbers["lane_norm"]
        assert rule == pytest.approx(1.0 / peak - crowded, rel=1e-12)
        assert timed == pytest.approx(1.0 / max(numbers["schedule"], peak) - crowded, rel=1e-12)
        placement = Placement(entry, graph.units, site)
        assert np.allclose(placement.sight(bound)[1], seen_at(subject, site)[2])
        assert rule + crowded >= bound / placement.rate.interval_cycles - 1e-12
    model = kept.trained_on("mine", (network, network), decisions, (TRAINING,))

    def judged(subject: Subject, sites: np.ndarray) -> np.ndarray:
        return by_networks(subject, model.networks, sites)

    pick = picked(entry, graph.units, subject, sites, Judge("mine", judged, model))
    one_by_one = [share_of_bound(network, *seen_at(subject, site)) for site in sites]
    assert judged(subject, sites) == pytest.approx(np.array(one_by_one))
    assert pick.predicted == pytest.approx(max(one_by_one))
    assert np.array_equal(pick.placement.site, sites[pick.number])
    words = told(pick, Judge("mine", by_rules, model), 6, bound)
    assert (words["model"], words["hash"], words["covered"]) == ("mine", model.hash, True)
    assert not told(pick, Judge("mine", by_rules, replace(model, lowest=model.lowest + 1.0)), 6, bound)["covered"]


def test_every_model_says_what_it_is_and_unknown_ones_are_refused(directory: str) -> None:
    assert all(model.about for model in MODELS.values())
    with pytest.raises(UsageFault, match="unknown cost model 'tree', did you mean 'trees'"):
        Comparison(("tree",))
    with pytest.raises(UsageFault, match="two or more"):
        FoldPlan(directory, folds=1)


@pytest.mark.nightly
def test_a_change_is_learned_from_few_graphs(directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OURS", "ANEW", "AGAIN"):
        monkeypatch.setattr(f"sweeper.ranking.trials.relearning.{name}", SMALL)
    before.cache_clear()
    asked = ["fit-placement", directory, "--out", str(tmp_path), "--after", directory, "--folds", "2"]
    done = CliRunner().invoke(main, [*asked, "--graphs", "3", "--json", "-q"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    ways = [(row["protocol"], row["model"]) for row in found["over_all"]]
    assert ways == [("0 graphs", UNCHANGED), ("3 graphs", SCRATCH), ("3 graphs", RELEARNED)]
    assert not found["by_block"]
    for more, words in (
        (["--graphs", "7"], "found 7 graphs to learn from; beside those of a fold there are 6"),
        (["--model", "trees"], "--after asks ours alone: leave --model out"),
    ):
        refused = CliRunner().invoke(main, [*asked, *more])
        assert refused.exit_code == 2
        assert words in refused.output
    alone = CliRunner().invoke(main, ["fit-placement", directory, "--graphs", "3"])
    assert alone.exit_code == 2
    assert "it needs --after STUDY" in alone.output
    unkept = CliRunner().invoke(main, ["fit-placement", directory, "--also", directory])
    assert unkept.exit_code == 2
    assert "give --save FILE.json" in unkept.output


def test_few_graphs_are_as_many_as_are_asked_for(decisions: Decisions) -> None:
    few = first_graphs(decisions, 4)
    assert len(np.unique(few.graph)) == 4
    assert len(few) == 24


def test_without_what_trains_there_is_one_clear_error(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.ranking.models.TRAINERS", ("numpy", "jaxx"))
    for more in ([], ["--save", "mine.json"]):
        done = CliRunner().invoke(main, ["fit-placement", directory, *more])
        assert done.exit_code == 3
        assert "jaxx trains cost models, and is not installed" in done.output
