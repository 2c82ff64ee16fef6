"""How many servers hold a service level: dealing, scaling, the fewest of them, and the command."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.errors import UsageFault
from sweeper.serving.fleet import (
    Fleet,
    Level,
    Scaling,
    Shift,
    constant,
    dealt_among,
    fleet_of,
    least,
    scaled,
    smallest_fleet,
)
from sweeper.serving.load import Admission, under_load
from sweeper.serving.passes import Replica
from sweeper.serving.plans import FleetPlan, remarks
from sweeper.serving.prefixes import Blocks
from sweeper.serving.traffic import Arrivals, Traffic, drawn
from tests.serving.test_serve import AXES
from tests.support.servers import alike

ONE_SECOND = Replica(
    timing=alike(1.0),
    room_B=1e12, token_B=1.0, working_B=np.zeros(2), host_s=0.0, link_Bps=1e9, replicas=1, chips=4,
)  # fmt: skip
"""Every pass takes a second."""
ALONE = Admission(slots=1)
LEVEL = Level({"ttft": 1.5}, 0.95)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_constant_fleet_deals_in_turn_and_is_paid_for_all_the_time() -> None:
    asked = drawn(Traffic(60, 1, 1, rate=2.0, variation=0.0))
    assert dealt_among(asked.arrival_s, constant(3)).tolist() == [0, 1, 2] * 20
    fleet = fleet_of(ONE_SECOND, asked, constant(3), ALONE, LEVEL)
    assert (fleet.servers, fleet.mean_servers, fleet.good, fleet.ttft_p90_s) == (3, 3.0, 1.0, 1.0)


def test_one_server_is_what_a_server_under_load_is() -> None:
    asked, server = drawn(Traffic(500, 1, 1, rate=0.7)), replace(ONE_SECOND, host_s=0.25)
    fleet = fleet_of(server, asked, constant(1), ALONE, LEVEL)
    load = under_load(server, asked, 0, ALONE, LEVEL.limits)
    assert fleet.ttft_p90_s == pytest.approx(load.time_to_first_token_s.p90)
    assert fleet.good == pytest.approx(load.good)


def test_replicas_of_servers_take_requests_in_turn() -> None:
    asked = drawn(Traffic(300, 1, 1, rate=2.0))
    two = fleet_of(replace(ONE_SECOND, replicas=2), asked, constant(2), ALONE, LEVEL)
    four = fleet_of(ONE_SECOND, asked, constant(4), ALONE, LEVEL)
    assert (two.good, two.ttft_p90_s, two.servers) == (four.good, four.ttft_p90_s, 2)


def test_the_fewest_servers_hold_and_one_fewer_does_not() -> None:
    asked = drawn(Traffic(4_000, 1, 1, rate=9.3))
    found = smallest_fleet(ONE_SECOND, asked, ALONE, LEVEL)
    assert found.good >= LEVEL.within and found.servers > 10
    fewer = fleet_of(ONE_SECOND, asked, constant(found.servers - 1), ALONE, LEVEL)
    assert fewer.good < LEVEL.within


def test_a_limit_that_an_idle_server_misses_is_held_by_none() -> None:
    asked = drawn(Traffic(50, 1, 1, rate=1.0))
    with pytest.raises(UsageFault, match=r"^0\.0% of the requests are within the limits where each has a server"):
        smallest_fleet(ONE_SECOND, asked, ALONE, Level({"ttft": 0.9}, 0.5))


def test_what_fits_into_no_cache_is_counted_and_the_reason_if_it_is_too_much() -> None:
    asked = drawn(Traffic(200, 100, 1, rate=1.0, spread=0.5))
    small = replace(ONE_SECOND, room_B=90.0)
    found = smallest_fleet(small, asked, ALONE, Level({"ttft": 2.0}, 0.5))
    assert found.refused == (asked.prompts + 1 > 90).sum() > 10
    assert found.good <= 1.0 - found.refused / 200
    with pytest.raises(
        UsageFault, match=r"^\d\d\.\d% of the requests do not fit into the cache: say a smaller --budget"
    ):
        smallest_fleet(small, asked, ALONE, Level({"ttft": 2.0}, 0.95))
    with pytest.raises(UsageFault, match=r"^the cache holds 9 tokens, and no request is so short$"):
        smallest_fleet(replace(small, room_B=9.0), asked, ALONE, Level({"ttft": 2.0}, 0.01))


def test_limits_that_no_start_up_can_hold_are_told() -> None:
    """Hundreds of requests at once after a long calm: whoever is asked for is too late."""
    arrivals = np.array([*np.arange(0.0, 50.0), *np.full(500, 50.5), *np.arange(51.0, 90.0)])
    ones = np.ones(len(arrivals), np.int64)
    asked = Arrivals(arrivals, ones, ones, Blocks.none(len(arrivals)))
    with pytest.raises(UsageFault, match=r"589 servers do not hold 90\.0% of the requests within the limits"):
        smallest_fleet(ONE_SECOND, asked, ALONE, Level({"ttft": 1.5}, 0.9), Scaling(10.0, 60.0))
    with pytest.raises(UsageFault, match="no window of 100 s"):
        scaled(arrivals, 3, Scaling(100.0, 1.0))


def test_the_window_that_is_cut_off_says_nothing_of_the_rate() -> None:
    arrivals = np.arange(0.0, 21.0)
    assert len(scaled(arrivals, 4, Scaling(10.0, 0.0))) == 4, "two windows of ten, and one request more"
    assert len(scaled(np.append(arrivals, np.full(50, 21.0)), 4, Scaling(10.0, 0.0))) == 4


def test_many_windows_and_servers_are_dealt_as_by_the_rule() -> None:
    random = np.random.default_rng(3)
    arrivals = np.sort(random.uniform(0.0, 100.0, 2_000))
    shifts = [Shift(0, 0.0, 0.0, np.inf)]
    for server in range(1, 30):
        on, ready, off = np.sort(random.uniform(0.0, 110.0, 3)).tolist()
        shifts.append(Shift(server, on, ready, off))
    where = dealt_among(arrivals, shifts)
    for number, when in enumerate(arrivals):
        there = [each for each, shift in enumerate(shifts) if shift.ready_s <= when < shift.off_s]
        assert where[number] == there[number % len(there)]


@pytest.mark.parametrize("fewest", [1, 2, 3, 7, 64, 100])
def test_least_finds_the_first_that_holds(fewest: int) -> None:
    def fleet(servers: int) -> Fleet:
        return Fleet(servers, servers, float(servers >= fewest), 0.0, 0.0, 0, 0.0)

    found = least(fleet, lambda fleet: fleet.good == 1.0, 100)
    assert found is not None and found.servers == fewest
    assert least(fleet, lambda fleet: False, 100) is None


def test_servers_follow_the_rate_a_window_and_a_start_up_later() -> None:
    """One request a second, four from second 20 to 40, one again: four servers are asked for at 30."""
    arrivals = np.array([*np.arange(0.0, 20.0), *np.arange(20.0, 40.0, 0.25), *np.arange(40.0, 70.0)])
    shifts = scaled(arrivals, 4, Scaling(10.0, 5.0))
    assert shifts[0] == Shift(0, 0.0, 0.0, np.inf)
    # At first as many as the mean rate asks for, 130 / 70 of 4 a second: two. One after the first window.
    assert shifts[1:] == [
        Shift(1, 0.0, 0.0, 10.0),
        Shift(1, 30.0, 35.0, 50.0),
        Shift(2, 30.0, 35.0, 50.0),
        Shift(3, 30.0, 35.0, 50.0),
    ]
    where = dealt_among(arrivals, shifts)
    assert set(where[(arrivals >= 10.0) & (arrivals < 35.0)]) == {0}
    assert set(where[(arrivals >= 35.0) & (arrivals < 50.0)]) == {0, 2, 3, 4}
    assert set(where[arrivals >= 50.0]) == {0}


def test_scaling_at_once_costs_less_than_servers_for_the_peak_and_waiting_for_servers_more() -> None:
    asked = drawn(Traffic(20_000, 1, 1, rate=5.0, swing=0.9, period_s=2_000.0))
    level = Level({"ttft": 3.0}, 0.9)
    plain = smallest_fleet(ONE_SECOND, asked, ALONE, level)
    quick, slow = (
        smallest_fleet(ONE_SECOND, asked, ALONE, level, Scaling(20.0, start_up_s)) for start_up_s in (0.0, 300.0)
    )
    assert quick.mean_servers < 0.8 * plain.mean_servers
    assert quick.mean_servers < slow.mean_servers
    assert quick.good >= 0.9 and slow.good >= 0.9


def test_a_server_that_is_taken_away_costs_until_it_is_done() -> None:
    """Ten requests of ten seconds come at once to each of two servers; the second is there for five seconds."""
    ten = Arrivals(np.zeros(20), np.ones(20, np.int64), np.full(20, 10), drawn(Traffic(20, 1, 1, rate=1.0)).blocks)
    fleet = fleet_of(ONE_SECOND, ten, [Shift(0, 0.0, 0.0, np.inf), Shift(1, 0.0, 0.0, 5.0)], ALONE, LEVEL)
    assert fleet.mean_servers == 2.0


def test_a_rate_swings_and_keeps_its_mean() -> None:
    asked = drawn(Traffic(100_000, 1, 1, rate=10.0, variation=0.0, swing=0.5, period_s=1_000.0))
    counts = np.bincount((asked.arrival_s / 250.0).astype(int))[:40].reshape(10, 4)
    up = 0.5 * 2.0 / np.pi
    np.testing.assert_allclose(counts[:, :2], 2500.0 * (1.0 + up), rtol=0.01)
    np.testing.assert_allclose(counts[:, 2:], 2500.0 * (1.0 - up), rtol=0.01)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "served.yaml"
    path.write_text(json.dumps({"study": "served", "axes": AXES | {"workload": ["llama3_8b", "llama3_405b"]}}))
    return path


def test_the_command_sizes_fleets_the_cheapest_first(study: Path) -> None:
    options = ("--rate", 40, "--seconds", 60, "--ttft", 0.2, "--tpot", 0.02)
    asked = call("capacity", study, 0, 1, 3, *options, "--json")
    assert asked.exit_code == 0, asked.output
    plans = json.loads(asked.stdout)
    assert [plan["point"] for plan in plans] == [0, 1, 3] and plans[0]["servers"] >= 1
    assert plans[0]["good"] >= 0.9 and plans[0]["chips"] == 8 * plans[0]["servers"]
    assert plans[0]["usd_per_hour"] > 0.0 and plans[0]["standing"] == "uncalibrated"
    assert "does not hold its weights" in plans[2]["why"] and plans[2]["servers"] is None
    shown = call("capacity", study, 0, 3, *options)
    assert "usd_per_hour" in shown.stdout and "\npoint 3 of served does not hold its weights" in shown.stdout
    none = call("capacity", study, 0, "--rate", 1, "--seconds", 30, "--ttft", 1e-6)
    assert "point 0: 0.0% of the requests are within the limits where each has a server of its own" in none.stderr
    assert none.exit_code == 2 and none.stdout == ""
    small = call("capacity", study, 3, *options).stderr
    assert small.count("point 3") == 1 and "does not hold its weights" in small


def test_who_adds_servers_is_told_how_many_would_do_all_the_time(study: Path) -> None:
    """A start-up as long as the swing adds them when nobody needs them any more."""
    comes = ("--rate", 150, "--swing", 0.9, "--period", 120, "--seconds", 240, "--ttft", 0.2, "--window", 20)
    (constant,) = json.loads(call("capacity", study, 0, *comes[:-2], "--json").stdout)
    assert constant["constant_chips"] == constant["chips"] == constant["mean_chips"]
    quick, slow = (
        json.loads(call("capacity", study, 0, *comes, "--start-up", seconds, "--json").stdout)[0] for seconds in (0, 60)
    )
    assert quick["constant_chips"] == slow["constant_chips"] == constant["chips"]
    assert slow["mean_chips"] > quick["mean_chips"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give one of --rate and --trace"),
        (("--rate", 1), "give --ttft, --tpot or both"),
        (("--rate", 1, "--ttft", 1, "--window", 5), "nothing reads --window without --start-up"),
        (("--rate", 1, "--ttft", 1, "--period", 5), "nothing reads --period without --swing"),
        (("--trace", "t.csv", "--ttft", 1, "--seconds", 5), "nothing reads --seconds beside --trace"),
        (("--rate", 1e6, "--ttft", 1), "requests come in 600 s"),
        (("--rate", 1, "--ttft", 1, "--swing", 0.5, "--period", 1e-3), "is one rate over 600 s"),
        (("--rate", 1, "--ttft", 1, "--start-up", 1, "--window", 1e-3), "have at most 10,000"),
        (("--rate", 1, "--ttft", 1, "--start-up", 1, "--window", 1e3), "say a --window of at most half of"),
        (("--rate", 1, "--ttft", 1, "--within", 0), "0"),
    ],
)
def test_what_is_asked_wrongly_is_one_line(study: Path, options: tuple[Any, ...], message: str) -> None:
    result = call("capacity", study, 0, *options)
    assert result.exit_code == 2 and message in result.stderr and result.stdout == ""


def test_who_comes_last_does_not_wait_and_who_came_before_may() -> None:
    """Of two requests of a second each that come at a time, the first has no token when the last one comes."""
    asked = drawn(Traffic(2, 1, 1, rate=1e6, variation=0.0))
    assert fleet_of(ONE_SECOND, asked, constant(1), ALONE, LEVEL).waiting_share == 0.5
    assert fleet_of(ONE_SECOND, asked.taken(np.arange(1)), constant(1), ALONE, LEVEL).waiting_share == 0.0


def test_what_figures_depend_on_is_said_below_the_table() -> None:
    plans = [FleetPlan(3, waiting_share=0.2, sharing_experts=8), FleetPlan(4, waiting_share=0.0, sharing_experts=1)]
    late, shared = remarks(plans)
    assert late.startswith("point 3: 20.0% of the requests had no first token when the last one came")
    assert shared.startswith("point 3: experts lie over 8 replicas")


def test_a_server_of_several_replicas_is_the_same_alone_and_in_a_fleet(tmp_path: Path) -> None:
    """`sweeper serve` and `sweeper capacity` deal requests alike."""
    path = tmp_path / "many.yaml"
    axes = AXES | {"tensor_parallel": 1, "data_parallel": 8, "requests": None, "batch_size": 8, "microbatch": 1}
    axes = {name: value for name, value in axes.items() if value is not None}
    path.write_text(json.dumps({"study": "many", "axes": axes}))
    limits = ("--rate", 60, "--output", 8, "--ttft", 0.2)
    (fleet,) = json.loads(call("capacity", path, 0, *limits, "--seconds", 200, "--within", 0.01, "--json").stdout)
    load = json.loads(call("serve", path, 0, *limits, "--requests", 12_000, "--json").stdout)
    assert fleet["servers"] == 1 and load["replicas"] == 8
    assert load["time_to_first_token_s"]["p90"] == pytest.approx(fleet["ttft_p90_s"], rel=0.1)
