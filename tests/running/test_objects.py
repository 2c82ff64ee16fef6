"""Runs in an object store: an S3 server on loopback, reached by an address and credentials in the environment alone."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from sweeper.errors import EnvironmentFault, OutputConflict
from sweeper.running.execution import Demanded, run, run_all
from sweeper.running.limits import Limits
from sweeper.running.progress import Progress
from sweeper.running.storage.catalogue import remove_run, runs_in
from sweeper.running.storage.listing import status
from sweeper.running.storage.lock import FILE, Lock
from sweeper.running.storage.objects import ObjectFolder, store_options
from sweeper.running.storage.places import folder
from sweeper.running.storage.store import run_folder
from sweeper.views.queries import ask
from tests.running.test_faults import PATIENCE_S, go_on, held, start
from tests.running.test_store import behaves
from tests.support.fake_plan import FakePlan, dataset
from tests.support.nights import FFT, write
from tests.support.s3_server import BUCKET, Server, listed, s3_server

PLAN = FakePlan(chunks=8)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "something")
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return dataset(run(PLAN, tmp_path_factory.mktemp("local"), quiet=True).directory)


def stored(address: str, names: Any) -> dict[str, bytes]:
    place = folder(address)
    return {name: place.get(name) or b"" for name in names}


def test_a_prefix_is_a_folder(s3: Server) -> None:
    behaves(folder(s3.uri()))


def test_a_run_is_written_read_and_resumed(s3: Server, expected: dict[str, bytes]) -> None:
    result = run(PLAN, s3.uri(), quiet=True)
    assert result.directory.startswith(f"s3://{BUCKET}/results/fake-") and result.directory.endswith("region=eu-west-1")
    assert stored(result.directory, expected) == expected
    puts = [path for method, path, _ in s3.requests if method == "PUT"]
    assert sum("/data/part-" in path for path in puts) == PLAN.chunks, "a part is one request"
    assert not any("uploads" in query for _, _, query in s3.requests)
    rows = sweeper.scan(result.directory, verify=True)
    assert rows.sort("point_id").collect()["point_id"].to_list() == list(range(PLAN.point_count))
    assert sweeper.units(result.directory)["bandwidth"] == "B/s"
    assert ask(result.directory, "SELECT COUNT(*) AS n FROM data").item() == PLAN.point_count
    assert status(result.directory, verify=True)["complete"] is True
    place = folder(result.directory)
    place.remove("data/part-00000002.parquet")
    with pytest.raises(EnvironmentFault, match=r"part-00000002\.parquet is missing"):
        sweeper.scan(result.directory)
    place.put("data/part-00000002.parquet", expected["data/part-00000003.parquet"])
    with pytest.raises(EnvironmentFault, match=r"part-00000002\.parquet has"):
        sweeper.scan(result.directory)
    again = run(PLAN, s3.uri(), quiet=True)
    assert again.computed_chunks == 1
    assert stored(again.directory, expected) == expected
    assert run(PLAN, s3.uri(), quiet=True).computed_chunks == 0


@pytest.mark.parametrize("busy", [0.1, 0.4])
def test_requests_that_are_turned_away_are_repeated(s3: Server, expected: dict[str, bytes], busy: float) -> None:
    s3.busy = busy
    result = run(PLAN, s3.uri(), quiet=True)
    assert result.failed == []
    assert stored(result.directory, expected) == expected
    assert sweeper.scan(result.directory).select(pl.len()).collect().item() == PLAN.point_count
    assert f"{FILE}" not in [key.rpartition("/")[2] for key in listed(s3.uri())]


def test_of_two_drivers_one_is_refused(s3: Server, expected: dict[str, bytes]) -> None:
    with Lock(run_folder(s3.uri(), PLAN)), pytest.raises(OutputConflict, match="is in use by process"):
        run(PLAN, s3.uri(), quiet=True)
    result = run(PLAN, s3.uri(), quiet=True)
    assert stored(result.directory, expected) == expected
    place = folder(s3.uri()).inside("held")
    assert place.put_new("once", b"mine")
    assert place.put_new("once", b"mine"), "an answer that was lost"
    assert not place.put_new("once", b"other")


def test_a_killed_run_leaves_no_upload_and_is_resumed(s3: Server, tmp_path: Path) -> None:
    undisturbed = dataset(run(FakePlan(chunks=40), tmp_path / "local", quiet=True).directory)
    for round_, at in enumerate((3, 17, 33)):
        driver = start(tmp_path, held(tmp_path / f"markers{round_}", at), s3.uri(), quiet=True)
        while sum("/data/part-" in key for key in listed(s3.uri())) < at:
            assert driver.poll() is None
        driver.send_signal(signal.SIGKILL)
        driver.communicate(timeout=PATIENCE_S)
        go_on(tmp_path / f"markers{round_}")
        assert s3.uploads() == []
    result = run(FakePlan(chunks=40), s3.uri(), quiet=True)
    assert stored(result.directory, undisturbed) == undisturbed


@pytest.mark.nightly
@pytest.mark.slow
def test_workers_of_ray_write_there_too(s3: Server, tmp_path: Path, expected: dict[str, bytes]) -> None:
    """A Ray of the run's own: its workers have the credentials of the driver."""
    driver = start(tmp_path, PLAN, s3.uri(), backend="ray", workers=2, quiet=True)
    _, message = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0, message
    (address,) = {key.split("/")[0] for key in listed(s3.uri())}
    assert stored(s3.uri(f"results/{address}"), expected) == expected


def test_a_store_that_cannot_be_written_is_an_error_of_ours(s3: Server) -> None:
    """A bucket that is not there, and a server that does not speak as it is spoken to."""
    elsewhere = s3.uri().replace(f"{BUCKET}/", "bucket-that-is-not-there/")
    encrypted = s3.uri().replace("scheme=http", "scheme=https")
    for address, words in ((elsewhere, "bucket-that-is-not-there.*404"), (encrypted, "error sending request")):
        with pytest.raises(EnvironmentFault, match=f"(?s)cannot write to s3://.*{words}") as caught:
            run(PLAN, f"{address}&timeout=1s", quiet=True)
        assert caught.value.exit_code == 3
        assert "Debug source" not in str(caught.value)


def test_options_of_an_address() -> None:
    assert store_options("s3://b/p?endpoint_override=http://h:1&aws_skip_signature=true") == {
        "aws_skip_signature": "true",
        "aws_endpoint_url": "http://h:1",
        "allow_http": "true",
    }
    assert store_options("gs://b/p") == {}
    place = ObjectFolder("s3://bucket/results?region=eu-west-1")
    assert str(place.inside("a").inside("b")) == "s3://bucket/results/a/b?region=eu-west-1"
    assert place.uri("data/x") == "s3://bucket/results/data/x"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://me:secret@bucket/p", "credentials belong into the environment"),
        ("s3://bucket/p?secret_access_key=x", "'secret_access_key'"),
        ("az://container/p?account_key=x", "'account_key'"),
        ("s3://bucket/p?regoin=x", "'regoin' is not valid"),
        ("gopher://hole", "gopher"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(address: str, message: str) -> None:
    with pytest.raises(EnvironmentFault, match=message) as caught:
        folder(address)
    assert "me:secret" not in str(caught.value)


def test_runs_of_a_bucket_are_listed_found_and_removed(s3: Server, expected: dict[str, bytes]) -> None:
    whole, other = run(PLAN, s3.uri(), quiet=True), run(FakePlan("other", chunks=2), s3.uri(), quiet=True)
    unfinished = run(FakePlan("third", fail=(1,)), s3.uri(), limits=Limits(retries=0), quiet=True)
    folder(s3.uri()).put("notes.txt", b"mine")
    found = {each.study: each for each in runs_in(s3.uri())}
    assert {study: each.state for study, each in found.items()} == {
        "fake": "complete",
        "other": "complete",
        "third": "unfinished",
    }
    assert found["fake"].points == PLAN.point_count and found["third"].points == 4500
    for result in (whole, unfinished):
        name = folder(result.directory).name
        asked = CliRunner().invoke(main, ["status", name, "--out", s3.uri(), "--json"])
        assert asked.exit_code == result.exit_code, asked.output
        assert json.loads(asked.stdout)["complete"] is (result is whole)
    with Lock(folder(other.directory)), pytest.raises(OutputConflict, match="in use"):
        remove_run(s3.uri(), found["other"].run)
    for study in ("other", "third"):
        remove_run(s3.uri(), found[study].run)
    assert [each.study for each in runs_in(s3.uri())] == ["fake"]
    assert stored(whole.directory, expected) == expected
    left = [key.partition("/")[0] for key in listed(s3.uri())]
    assert {*left} == {"notes.txt", found["fake"].run}
    folder(s3.uri()).inside("never-was").clear()
    folder(whole.directory).clear()
    assert listed(s3.uri()) == ["notes.txt"]


def test_several_plans_in_a_bucket(s3: Server, expected: dict[str, bytes]) -> None:
    first, second = (
        run_all([PLAN, FakePlan("other", chunks=2)], s3.uri(), Demanded(), progress=Progress()) for _ in range(2)
    )
    assert stored(first[0].directory, expected) == expected
    assert [result.computed_chunks for result in [*first, *second]] == [8, 2, 0, 0]


def test_nights_in_a_bucket(s3: Server, tmp_path: Path) -> None:
    write(tmp_path / "studies", {"a.yaml": FFT})
    asked = ["night", str(tmp_path / "studies"), "--out", s3.uri("nights"), "-q", "--json", "--keep", "1"]
    asked += ["--fail-if", "iteration_time_s > 1.02 * baseline"]
    runs = []
    for text in (FFT, FFT, FFT.replace("[pcie, nvlink]", "pcie")):
        write(tmp_path / "studies", {"a.yaml": text})
        result = CliRunner().invoke(main, asked)
        assert result.exit_code == 0, result.output
        (study,) = json.loads(result.stdout)["studies"]
        runs.append((study["run"], study["computed_chunks"]))
    assert runs[0] == (runs[1][0], 1) and [computed for _, computed in runs] == [1, 0, 1]
    place = folder(s3.uri("nights"))
    assert place.inside("runs").folders() == [runs[2][0]]
    (night,) = place.inside("nights").folders()
    assert sorted(place.entries(f"nights/{night}")) == ["summary.html", "summary.json", "summary.md"]
