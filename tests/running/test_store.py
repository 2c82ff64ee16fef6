"""The run directory: bytes of parts, what counts as committed, conflicts, locks, object stores."""

import errno
import json
import os
import shutil
import socket
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeper.digests import content_hash
from sweeper.errors import EnvironmentFault, NoDataset, OutputConflict, UsageFault
from sweeper.running.chunk import Job, committed, evaluated
from sweeper.running.execution import run
from sweeper.running.forecast import forecast
from sweeper.running.storage import store
from sweeper.running.storage.folders import Folder, LocalFolder, StoredFile
from sweeper.running.storage.listing import lost, parts, read_receipts, status
from sweeper.running.storage.lock import FILE, STALE_S, Lock, current_holder
from sweeper.running.storage.places import folder
from sweeper.running.storage.store import Receipt
from tests.support.fake_plan import ClosedFolder, FakePlan, dataset
from tests.support.fake_ray import FakeClock, receipt

PLAN = FakePlan()


def finished(out: Path) -> Path:
    return Path(run(PLAN, out, quiet=True).directory)


def test_parts_carry_the_schema_and_compress_parameters_by_dictionary(tmp_path: Path) -> None:
    file = finished(tmp_path) / "data" / "part-00000002.parquet"
    assert pq.read_schema(file).remove(0).equals(PLAN.schema, check_metadata=True)
    assert set(pq.read_table(file).column("run").to_pylist()) == {f"fake-{PLAN.hash[:12]}"}
    assert pq.read_table(file).column("point_id").to_pylist() == list(range(2000, 3000))
    group = pq.read_metadata(file).row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    by_dictionary = {name for name, column in columns.items() if column.has_dictionary_page}
    assert by_dictionary == {"run", "chip", "bandwidth"}


def test_a_part_is_a_function_of_its_rows() -> None:
    once, again = (store.encode(PLAN.evaluate(1), "fake-0", PLAN.schema, PLAN.encoding) for _ in range(2))
    assert once.equals(again)


def test_rows_of_another_schema_are_refused() -> None:
    with pytest.raises(ValueError, match="another schema"):
        store.encode(PLAN.evaluate(1).drop_columns(["time"]), "fake-0", PLAN.schema, PLAN.encoding)


def test_no_rows_are_a_part_too() -> None:
    data = store.encode(PLAN.evaluate(1).slice(0, 0), "fake-0", PLAN.schema, PLAN.encoding)
    assert pq.read_table(pa.BufferReader(data)).num_rows == 0


def test_manifest_and_success_marker(tmp_path: Path) -> None:
    directory = finished(tmp_path)
    manifest = json.loads((directory / "manifest.json").read_bytes())
    assert manifest["points"] == PLAN.point_count == sum(part["points"] for part in manifest["parts"])
    feasible = sum(pq.read_table(file)["feasible"].to_pylist().count(True) for file in directory.glob("data/*.parquet"))
    assert manifest["feasible"] == feasible
    assert not {"seconds", "host", "pid", "peak_B", "at"} & manifest["parts"][0].keys()
    assert json.loads((directory / "_SUCCESS").read_bytes())["parts"] == PLAN.chunks
    assert json.loads((directory / "resolved.json").read_bytes())["study"] == PLAN.resolved
    assert status(str(directory))["complete"] is True


def test_the_manifest_and_the_state_of_a_run_count_what_they_say(tmp_path: Path) -> None:
    """Chunks whose points, rows, feasible rows and bytes all differ."""
    plan, place, receipts = FakePlan(chunks=2), LocalFolder(tmp_path), {}
    store.claim(place, plan)
    for chunk in (1, 0):
        file, size, digest = store.write_part(place, chunk, pa.py_buffer(bytes(1000 + chunk)))
        receipts[chunk] = Receipt(
            chunk, file, 100 + chunk, 10 + chunk, 1 + chunk, {}, size, digest,
            seconds=2.5, host="", pid=0, peak_B=7 - chunk, at=time.time(),
        )  # fmt: skip
    manifest = json.loads(store.manifest_bytes(plan, receipts))
    counts = {name: manifest[name] for name in ("points", "rows", "feasible", "bytes")}
    assert counts == {"points": plan.point_count, "rows": 21, "feasible": 3, "bytes": 2001}
    assert [part["chunk"] for part in manifest["parts"]] == [0, 1]
    unknown = {**receipts, 1: replace(receipts[1], feasible=None)}
    assert json.loads(store.manifest_bytes(plan, unknown))["feasible"] is None
    log = store.ReceiptLog(place)
    for each in receipts.values():
        log.add(each)
    log.flush()
    state = status(place)
    told = ("committed_chunks", "committed_points", "rows", "bytes", "worker_seconds", "worker_peak_B", "complete")
    assert [state[name] for name in told] == [2, 201, 21, 2001, 5.0, 7, False]


def test_a_receipt_is_small() -> None:
    longest = Receipt(10**8, "data/" + store.part_name(10**8), 10**12, 10**9, 10**9, {"feasible": 10**12},
                      10**12, "f" * 64, 1e5, "h" * 64, 4194304, 10**12, time.time())  # fmt: skip
    assert len(json.dumps(asdict(longest))) < 1000


def test_receipts_are_put_in_batches_and_the_latest_counts(tmp_path: Path) -> None:
    directory = finished(tmp_path)
    files = list((directory / "receipts").iterdir())
    assert len(files) == 1
    receipt = read_receipts(LocalFolder(directory))[3]
    torn = json.dumps(asdict(receipt))[:50]
    later = files[0].with_name("9" * 13 + "-1-000000.jsonl")
    later.write_text(json.dumps(asdict(replace(receipt, rows=7))) + "\n" + torn)
    assert read_receipts(LocalFolder(directory))[3].rows == 7


def flushed_at(directory: Path, hours: float) -> list[float]:
    """When receipt files appear in a run that has a receipt every tenth of a second, in seconds after its start."""
    clock = FakeClock()
    log = store.ReceiptLog(LocalFolder(directory), clock)
    start, seen, times = clock.now, 0, []
    while clock.now - start < 3600.0 * hours:
        clock.now += 0.1
        log.add(receipt(0))
        count = len(list((directory / "receipts").glob("*")))
        if count > seen:
            times.append(clock.now - start)
        seen = count
    return times


def test_receipts_are_put_every_second_at_first_and_then_every_hundredth_of_the_run(tmp_path: Path) -> None:
    times = flushed_at(tmp_path, 0.05)
    gaps = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert gaps[:90] == pytest.approx([1.0] * 90, abs=0.11)
    assert all(max(1.0, 0.01 * at) - 0.01 <= gap <= max(1.0, 0.01 * at) + 0.11 for at, gap in zip(times, gaps))
    assert gaps[-1] > 1.5


def test_receipts_wait_half_a_minute_at_most(tmp_path: Path) -> None:
    clock = FakeClock()
    log = store.ReceiptLog(LocalFolder(tmp_path), clock)
    clock.now += 100.0 * 3600.0
    log.add(receipt(0))
    clock.now += 29.9
    log.add(receipt(1))
    assert read_receipts(LocalFolder(tmp_path)).keys() == {0}
    clock.now += 0.2
    log.tick()
    assert read_receipts(LocalFolder(tmp_path)).keys() == {0, 1}


def test_a_log_without_receipts_puts_no_file(tmp_path: Path) -> None:
    clock = FakeClock()
    log = store.ReceiptLog(LocalFolder(tmp_path), clock)
    clock.now += 60.0
    log.tick()
    log.flush()
    assert list(tmp_path.iterdir()) == []


def test_memory_is_counted_in_bytes(tmp_path: Path) -> None:
    """As the system itself tells it, in kB. A process may start with the peak of the one that started it."""
    job = Job(PLAN, PLAN.schema, LocalFolder(tmp_path))
    found = committed(job, evaluated(job, 0))
    assert isinstance(found, Receipt)
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    told = int(line.split()[1]) * 1024
    assert 0.9 * told <= found.peak_B <= 30 * told


def alter(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


DAMAGES = {
    "truncated": lambda file: os.truncate(file, file.stat().st_size // 2),
    "altered": alter,
    "deleted": os.remove,
    "emptied": lambda file: os.truncate(file, 0),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_part_is_computed_again(tmp_path: Path, damage: object) -> None:
    directory = finished(tmp_path)
    before = dataset(directory)
    damage(directory / "data" / "part-00000003.parquet")  # type: ignore[operator]
    result = run(PLAN, tmp_path, quiet=True)
    assert result.computed_chunks == 1
    assert dataset(directory) == before
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 0


def test_a_touched_part_is_read_but_kept(tmp_path: Path) -> None:
    (finished(tmp_path) / "data" / "part-00000003.parquet").touch()
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 0


def test_a_part_of_another_size_is_computed_again_though_its_time_says_nothing(tmp_path: Path) -> None:
    file = finished(tmp_path) / "data" / "part-00000003.parquet"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    os.truncate(file, file.stat().st_size - 1)
    os.utime(file, ns=times)
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 1


def test_only_a_thorough_check_finds_damage_that_leaves_no_trace(tmp_path: Path) -> None:
    """The disk's own, say; or, as here, what was touched after the damage is the list of parts."""
    directory = finished(tmp_path)
    alter(directory / "data" / "part-00000003.parquet")
    (receipts,) = (directory / "receipts").iterdir()
    lines = [json.loads(line) for line in receipts.read_text().splitlines()]
    receipts.write_text("".join(json.dumps(line | {"at": time.time() + 60.0}) + "\n" for line in lines))
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 0
    assert run(PLAN, tmp_path, quiet=True, verify=True).computed_chunks == 1


@pytest.mark.parametrize("file", ["_SUCCESS", "manifest.json"])
def test_lost_or_wrong_end_files_are_restored_without_computing(tmp_path: Path, file: str) -> None:
    directory = finished(tmp_path)
    before = dataset(directory)
    (directory / file).write_text("{}")
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 0
    (directory / file).unlink()
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 0
    assert dataset(directory) == before


def test_a_complete_run_is_answered_where_nothing_can_be_written(tmp_path: Path) -> None:
    first = run(PLAN, tmp_path, quiet=True)
    again = run(PLAN, ClosedFolder(tmp_path), quiet=True)
    assert replace(again, seconds=0.0) == replace(first, seconds=0.0, computed_chunks=0)


@pytest.mark.parametrize("reason", [errno.EROFS, errno.EACCES])
def test_an_unfinished_run_where_nothing_can_be_written_is_told_so(tmp_path: Path, reason: int) -> None:
    (finished(tmp_path) / "data" / "part-00000003.parquet").unlink()
    with pytest.raises(EnvironmentFault, match=r"cannot write to .*run\.lock'; make that place writable") as caught:
        run(PLAN, ClosedFolder(tmp_path, reason), quiet=True)
    assert "space" not in str(caught.value)


def test_what_is_complete_needs_no_receipts(tmp_path: Path) -> None:
    """The manifest, for which the marker vouches, has the same checksums."""
    directory = finished(tmp_path)
    before = dataset(directory)
    shutil.rmtree(directory / "receipts")
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 0
    (directory / "data" / "part-00000003.parquet").unlink()
    assert (forecast(PLAN, tmp_path).chunks, forecast(PLAN, tmp_path).tried) == (1, 1)
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 1
    assert dataset(directory) == before


def test_mending_that_is_stopped_loses_nothing_though_the_receipts_are_gone(tmp_path: Path) -> None:
    """Once the marker is away, only receipts tell what is committed."""
    directory = finished(tmp_path)
    shutil.rmtree(directory / "receipts")
    (directory / "data" / "part-00000003.parquet").unlink()
    broken = run(FakePlan(fail=(3,)), tmp_path, quiet=True)
    assert [failure.chunk for failure in broken.failed] == [3] and not (directory / "_SUCCESS").exists()
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 1


def test_a_part_that_a_listing_does_not_show_yet_is_not_lost(tmp_path: Path) -> None:
    """As where another machine has just written it into a network file system."""

    class Late(LocalFolder):
        def entries(self, path: str) -> dict[str, StoredFile]:
            return {name: file for name, file in super().entries(path).items() if name != "part-00000003.parquet"}

    directory = finished(tmp_path)
    known = parts(directory)
    assert lost(Late(directory), known) == []
    (directory / "data" / "part-00000003.parquet").unlink()
    assert lost(Late(directory), known) == ["data/part-00000003.parquet is missing"]


def test_a_thorough_check_of_a_complete_run_reads_all_parts(tmp_path: Path) -> None:
    """Here the marker is younger than the damage, as in a copied directory that was touched."""
    directory = finished(tmp_path)
    alter(directory / "data" / "part-00000003.parquet")
    os.utime(directory / "_SUCCESS", (time.time() + 60.0,) * 2)
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 0
    assert run(PLAN, tmp_path, quiet=True, verify=True).computed_chunks == 1


def test_a_complete_run_that_somebody_removes_is_in_use(tmp_path: Path) -> None:
    with Lock(LocalFolder(finished(tmp_path))), pytest.raises(OutputConflict, match="is in use"):
        run(PLAN, tmp_path, quiet=True)


def test_drafts_of_killed_workers_are_swept_before_computing(tmp_path: Path) -> None:
    directory = finished(tmp_path)
    before = dataset(directory)
    (directory / "data" / ".part-00000001.parquet.host-1-0.tmp").write_text("half")
    (directory / "data" / "part-00000001.parquet").unlink()
    run(PLAN, tmp_path, quiet=True)
    assert dataset(directory) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda head: {**head, "study": {}, "hash": content_hash({})}, "another study"),
        (lambda head: {**head, "chunks": 7}, "another study .chunks 7 instead of 6"),
        (lambda head: {**head, "hash": "0" * 64}, "changed since the run began: put it back, or remove"),
        (lambda head: {**head, "study": {**head["study"], "seed": 9}}, "changed since the run began"),
        (lambda head: [], "cannot be read"),
        (lambda head: {"name": head["name"]}, "cannot be read"),
    ],
)
def test_a_directory_of_another_study_is_refused(tmp_path: Path, change: object, message: str) -> None:
    file = finished(tmp_path) / "resolved.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))  # type: ignore[operator]
    with pytest.raises(OutputConflict, match=message) as caught:
        run(PLAN, tmp_path, quiet=True)
    assert caught.value.exit_code == 4


def test_a_strange_part_is_refused_because_readers_would_take_it(tmp_path: Path) -> None:
    (finished(tmp_path) / "data" / "part-00000099.parquet").write_text("")
    with pytest.raises(OutputConflict, match=r"part-00000099\.parquet"):
        run(PLAN, tmp_path, quiet=True)


def test_one_run_per_directory(tmp_path: Path) -> None:
    place = LocalFolder(tmp_path)
    held = f"process {os.getpid()} on {socket.gethostname()}"
    with Lock(place), pytest.raises(OutputConflict, match=held), Lock(place):
        pass
    with Lock(place):
        pass
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    ("difference", "silent_s", "gone"),
    [
        ({}, 0.0, False),
        ({"pid": 2**22 + 1}, 0.0, True),
        ({"born": "1"}, 0.0, True),
        ({"boot": "before"}, 0.0, True),
        ({"host": "elsewhere"}, 0.0, False),
        ({"space": "a container"}, 0.0, False),
        ({"host": "elsewhere"}, 2 * STALE_S, True),
        ({"space": "a container"}, 2 * STALE_S, True),
    ],
    ids=["me", "no process", "reused pid", "reboot", "host", "container", "silent host", "silent container"],
)
def test_a_lock_is_taken_over_when_its_holder_is_gone(
    tmp_path: Path, difference: dict[str, Any], silent_s: float, gone: bool
) -> None:
    # The holder is made here, not when tests are collected: it goes stale while the other tests run.
    now = time.time()
    holder = replace(current_holder(now - silent_s), **difference)
    assert holder.gone(now) is gone
    (tmp_path / FILE).write_text(json.dumps(asdict(holder)))
    if gone:
        with Lock(LocalFolder(tmp_path)):
            pass
    else:
        with pytest.raises(OutputConflict, match=FILE), Lock(LocalFolder(tmp_path)):
            pass


def test_a_lock_is_renewed_every_minute_and_not_at_every_step(tmp_path: Path) -> None:
    clock = FakeClock()
    file = tmp_path / FILE
    with Lock(LocalFolder(tmp_path), clock) as lock:
        renewed = []
        for second in range(200):
            file.write_text("the last renewal")
            clock.now += 1.0
            lock.renew()
            if file.read_text() != "the last renewal":
                renewed.append(second + 1)
    assert renewed == [61, 122, 183]


def test_an_empty_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    with Lock(LocalFolder(tmp_path)):
        pass


def test_a_directory_is_a_folder(tmp_path: Path) -> None:
    behaves(LocalFolder(tmp_path / "bucket"))


def behaves(place: Folder) -> None:
    """As every folder does that is empty."""
    assert place.get("a/b") is None
    assert place.entries("a") == {}
    place.remove("a/b")
    place.put("a/b", b"one")
    place.put("a/b", pa.py_buffer(b"four"))
    assert place.get("a/b") == b"four"
    assert place.entries("a")["b"].size == 4
    assert abs(place.entries("a")["b"].modified - time.time()) < 60
    assert place.sha256("a/b").startswith("04efaf080f5a3e74")
    assert not place.put_new("a/b", b"new")
    assert place.put_new("a/c", b"new")
    assert sorted(place.inside("a").entries("")) == ["b", "c"]
    place.remove("a/b")
    assert list(place.entries("a")) == ["c"]
    place.put("a/deep/er/file", b"five")
    place.put("ab", b"six")
    place.inside("a").clear()
    assert (place.folders(), place.entries("a"), place.get("a/deep/er/file")) == ([], {}, None)
    assert place.get("ab") == b"six"
    place.inside("a").clear()


def test_uris_and_paths(tmp_path: Path) -> None:
    assert folder(f"file://{tmp_path}") == folder(tmp_path) == LocalFolder(tmp_path)
    stored = folder("s3://bucket/results?region=eu-west-1&scheme=http").inside("run")
    assert str(stored) == "s3://bucket/results/run?region=eu-west-1&scheme=http"
    with pytest.raises(EnvironmentFault, match="gopher"):
        folder("gopher://hole")


@pytest.mark.parametrize(
    "address", ["", "file:results", "file:/results", "file://results/x", "file:///results?region=eu"]
)
def test_what_names_no_folder_is_refused(address: str) -> None:
    with pytest.raises(UsageFault, match="names no folder" if not address else "is no address of a folder"):
        folder(address)


def test_what_was_changed_in_a_run_is_read_by_nobody(tmp_path: Path) -> None:
    directory = finished(tmp_path)
    file, before = directory / "resolved.json", dataset(directory)
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "study": {**told["study"], "seed": 9}}))
    with pytest.raises(NoDataset, match="changed since the run began"):
        parts(directory)
    with pytest.raises(OutputConflict, match="changed since the run began"):
        status(directory)
    file.unlink()
    assert run(PLAN, tmp_path, quiet=True).computed_chunks == 0 and dataset(directory) == before, (
        "what is committed stays"
    )


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = LocalFolder(tmp_path)
    place.put("file", b"old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        place.put("file", b"new")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert place.get("file") == b"old"


def test_points_by_reason_are_summed_over_chunks() -> None:
    told = [({"feasible": 2, "no_memory": 1}, 1), ({"feasible": 3}, 2), ({}, 0)]
    several = [replace(receipt(n), tried=tried, feasible=feasible) for n, (tried, feasible) in enumerate(told)]
    assert store.tried_in(several) == {"feasible": 5, "no_memory": 1}
    assert store.feasible_in(several) == 3
    assert store.feasible_in([*several, receipt(3)]) is None
