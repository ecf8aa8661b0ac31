"""Plans on real Dask workers: the bits of one thread, whatever happens to workers and stores meanwhile."""

import contextlib
import functools
import json
import os
import random
import shutil
import signal as signals
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.cluster import client as cluster_client
from isochrony.cluster import connect, drain, scaling, worker
from isochrony.cluster import slot as slots
from isochrony.run_options import RunOptions
from isochrony.running import run_reported

distributed = pytest.importorskip("distributed")

RATE = 1000
SAMPLES = 600_000


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
    """Three worker processes."""
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(local: Any) -> Iterator[Any]:
    with distributed.Client(local) as client:
        yield client


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with samples, gaps and a clock step."""
    path = tmp_path_factory.mktemp("stores") / "recording.iso"
    store = iso.open(path, "x")
    signal = store.create("s", dtype="i2", rate=RATE)
    values = np.random.default_rng(3).integers(-2000, 2000, SAMPLES, dtype="i2")
    at = np.datetime64("2026-03-01T00:00:00", "ns")
    for begin, end, later in ((0, 250_000, 0), (250_000, 400_000, 7_000), (400_000, SAMPLES, -3_000)):
        start = at + np.timedelta64(begin * 1_000_000_000 // RATE, "ns") + np.timedelta64(later, "ms")
        signal.append(values[begin:end], at=start)
    store.commit()
    store.close()
    return path


@pytest.fixture(scope="module")
def signal(path: Path) -> iso.Signal:
    return iso.open(path)["s"]


def same(one: Any, other: Any) -> None:
    if isinstance(one, int):
        assert one == other
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one.to_arrow().equals(other.to_arrow())


STEPS: list[Callable[[iso.Plan], iso.Plan]] = [
    lambda plan: plan.map(lambda s: s * 2 - 1),
    lambda plan: plan.filter(lambda s: s.max() > 0),
    lambda plan: plan.fir([0.25, 0.5, 0.25]),
    lambda plan: plan.rewindow(100),
    lambda plan: plan.rewindow(64, 32),
    lambda plan: plan.power(),
    lambda plan: plan.lowpass(50),
    lambda plan: plan.map(lambda s: s.mean()),
    lambda plan: plan.stats("mean", "max", "std"),
    lambda plan: plan.rows(largest=lambda s: s.max()),
    lambda plan: plan.decimate(4),
    lambda plan: plan.merge(plan.map(lambda s: s + 1)),
    lambda plan: plan.stalta(0.05, 0.5).triggers(on=2, off=1),
    lambda plan: plan.count(),
]


def random_plan(signal: iso.Signal, chance: random.Random) -> iso.Plan:
    first = chance.randrange(SAMPLES)
    plan = (
        iso.scan(signal)
        if chance.random() < 0.5
        else iso.scan(signal).between(first, first + chance.randrange(SAMPLES))
    )
    for _ in range(chance.randrange(1, 5)):
        try:
            plan = chance.choice(STEPS)(plan)
        except (iso.PlanError, TypeError, AttributeError):
            continue
    return plan


@pytest.mark.filterwarnings("ignore::isochrony.EmptyResultWarning")
def test_random_plans_have_the_bits_of_one_thread(client: Any, signal: iso.Signal) -> None:
    chance = random.Random(20261128)
    on_workers = 0
    for _ in range(40):
        plans = [random_plan(signal, chance) for _ in range(chance.choice([1, 1, 2]))]
        expected = iso.collect(plans, workers=1)
        found = iso.collect(plans, on=client)
        report = iso.run(plans, on=client).report
        for one, other in zip(expected, found, strict=True):
            same(one, other)
        on_workers += sum(worker.tasks for worker in report.workers) > 1
    assert on_workers > 15


def test_the_report_says_who_did_what(client: Any, signal: iso.Signal) -> None:
    plan = iso.scan(signal).rewindow(100).power().map(lambda s: s.max())
    report = plan.run(on=client).report
    addresses = set(client.scheduler_info(n_workers=-1)["workers"])
    assert {worker.host for worker in report.workers} <= addresses
    assert sum(worker.tasks for worker in report.workers) == len(report.tasks) > 1
    assert sum(worker.samples for worker in report.workers) == SAMPLES
    assert all(worker.sent_bytes > 0 and worker.received_bytes > 0 for worker in report.workers if worker.tasks)
    assert [one.name for one in report.operators][:2] == ["scan", "rewindow"]
    assert report.operators[1].samples >= SAMPLES
    assert not any(worker.lost for worker in report.workers)


def doubled(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return rows.max(axis=1) * 2


def test_functions_travel_and_sinks_stay(client: Any, signal: iso.Signal, tmp_path: Path) -> None:
    by_name = iso.scan(signal).rewindow(100).map(iso.py(doubled, dtype="i2", width=1))
    same(by_name.collect(workers=1), by_name.collect(on=client))
    three = 3
    by_value = iso.scan(signal).rewindow(100).map(iso.py(lambda rows: rows.min(axis=1) * three, dtype="i2", width=1))
    same(by_value.collect(workers=1), by_value.collect(on=client))
    seen: list[tuple[int, int]] = []
    lock = threading.Lock()  # cannot be pickled

    def note(rows: np.ndarray[Any, Any], start: int) -> None:
        with lock:
            seen.append((os.getpid(), start))

    with iso.open(tmp_path / "results.iso", "x") as store:
        plan = iso.scan(signal).rewindow(100).map(lambda s: s.max())
        plan.each(note).run(on=client)
        plan.sink(store, "largest").run(on=client)
        plan.sink(store, "here").run(workers=1)
        assert [str(run) for run in store["largest"].runs()] == [str(run) for run in store["here"].runs()]
        np.testing.assert_array_equal(store["largest"][:].values(), store["here"][:].values())
    assert {pid for pid, _ in seen} == {os.getpid()}
    starts = [start for _, start in seen]
    assert len(starts) > 1 and starts == sorted(starts)


def fails(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if (rows == 1999).any():
        raise ValueError("nineteen ninety-nine")
    return rows.max(axis=1)


def test_an_error_comes_back_with_its_place_and_its_exception(client: Any, signal: iso.Signal) -> None:
    plan = iso.scan(signal).rewindow(100).map(iso.py(fails, dtype="i2", width=1))
    with pytest.raises(iso.RunError) as here:
        plan.collect(workers=2)
    with pytest.raises(iso.RunError) as there:
        plan.collect(on=client)
    assert str(there.value).split(":")[0] == str(here.value).split(":")[0]
    assert "samples" in str(there.value)
    assert isinstance(there.value.__cause__, ValueError)
    assert any("raised on" in note for note in there.value.__cause__.__notes__)


def slow(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    time.sleep(0.02)
    return rows.max(axis=1)


def slowest(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    time.sleep(0.3)
    return rows.max(axis=1)


def slow_plan(signal: iso.Signal) -> iso.Plan:
    return iso.scan(signal).rewindow(100).map(iso.py(slow, dtype="i2", width=1))


def test_a_worker_that_is_lost_between_two_calls_of_its_slot_counts_as_lost() -> None:
    class LostActor:
        """As Dask's, once its worker is gone."""

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("Worker holding Actor was lost.  Status: error")

    slot = slots.Slot.__new__(slots.Slot)
    slot._actor = LostActor()
    with pytest.raises(OSError, match="was lost"):
        slot.prepare(b"key", b"payload")


@pytest.mark.parametrize("lost", [1, 2])
def test_lost_workers_are_replaced_by_others(signal: iso.Signal, lost: int) -> None:
    """One of them, or all but one; another joins late."""
    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(n_workers=lost + 1, **options) as cluster, distributed.Client(cluster) as client:
        plan = slow_plan(signal)
        expected = plan.collect(workers=1)
        pids = [worker.process.pid for worker in cluster.workers.values()]

        def kill() -> None:
            time.sleep(0.7)
            for pid in pids[:lost]:
                os.kill(pid, signals.SIGKILL)
            cluster.scale(lost + 2)

        killer = threading.Thread(target=kill)
        killer.start()
        found = plan.collect(on=client)
        killer.join()
        np.testing.assert_array_equal(found, expected)


def test_what_is_appended_meanwhile_does_not_matter_and_what_is_replaced_does(client: Any, tmp_path: Path) -> None:
    store = iso.open(tmp_path / "growing.iso", "x")
    signal = store.create("s", dtype="i2", rate=RATE)
    values = np.random.default_rng(5).integers(-2000, 2000, 400_000, dtype="i2")
    signal.append(values)
    store.commit()
    plan = slow_plan(iso.open(tmp_path / "growing.iso")["s"])
    expected = plan.collect(workers=1)

    def grow() -> None:
        for _ in range(10):
            time.sleep(0.05)
            signal.append(values[:10_000])
            store.commit()

    grower = threading.Thread(target=grow)
    grower.start()
    np.testing.assert_array_equal(plan.collect(on=client), expected)
    grower.join()

    # Some thirty tasks.
    signal.append(np.resize(values, 4_000_000))
    store.commit()

    def replace() -> None:
        time.sleep(0.7)
        signal.write(1000, np.zeros(100, "i2"))
        store.commit()

    replacer = threading.Thread(target=replace)
    replacer.start()
    slower = iso.scan(iso.open(tmp_path / "growing.iso")["s"]).rewindow(100).map(iso.py(slowest, dtype="i2", width=1))
    with pytest.raises(
        iso.RunError, match=r"is not as it was at commit .* were replaced; take it from the store again"
    ):
        slower.collect(on=client)
    replacer.join()
    store.close()


def test_wrong_uses_are_refused(client: Any, signal: iso.Signal, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = iso.scan(signal).map(lambda s: s + 1)
    with pytest.raises(iso.OptionError, match=r"give a distributed\.Client"):
        plan.collect(on=3)
    with pytest.raises(iso.OptionError, match="no Dask scheduler answers"):
        monkeypatch.setattr(connect, "CONNECT_S", 0.5)
        plan.collect(on="tcp://127.0.0.1:9")
    with pytest.raises(iso.PlanError, match="control= is refused"):
        plan.collect(on=client, control=iso.Control())


def test_a_scheduler_that_is_gone_is_an_error(signal: iso.Signal) -> None:
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50)
    client = distributed.Client(cluster)
    cluster.close()
    with pytest.raises((iso.RunError, iso.OptionError), match=r"scheduler|client that is"):
        iso.scan(signal).map(lambda s: s + 1).collect(on=client)
    client.close()


def test_a_cluster_without_workers_is_an_error(signal: iso.Signal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_client, "WORKER_TIMEOUT_S", 1.0)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(iso.RunError, match=r"no worker of the cluster .* start workers"),
    ):
        iso.scan(signal).map(lambda s: s + 1).collect(on=client)


def test_another_version_is_refused(client: Any, signal: iso.Signal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "__version__", "0.0.9")
    with pytest.raises(iso.RunError, match=r"the client has Isochrony 0\.0\.9 and .* has"):
        iso.scan(signal).map(lambda s: s + 1).collect(on=client)


def test_nothing_imports_dask_before_it_is_used() -> None:
    code = "import isochrony, sys; isochrony.scan; sys.exit('distributed' in sys.modules or 'dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_line_takes_an_address(client: Any, signal: iso.Signal, tmp_path: Path) -> None:
    plan = iso.scan(signal).rewindow(100).map(lambda s: s.max())
    (tmp_path / "plan.json").write_text(plan.to_json())
    command = [
        sys.executable,
        "-m",
        "isochrony",
        "run",
        str(tmp_path / "plan.json"),
        "--out",
        str(tmp_path / "out.npy"),
    ]
    command += ["--on", client.scheduler.address, "--report", str(tmp_path / "report.json")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), plan.collect())
    workers = json.loads((tmp_path / "report.json").read_text())["workers"]
    assert {worker["host"] for worker in workers} <= set(client.scheduler_info(n_workers=-1)["workers"])
    command[command.index("--on") + 1] = "nowhere"
    refused = subprocess.run([*command, "--force"], capture_output=True, text=True, check=False)
    assert (
        refused.returncode == 2
        and "--on 'nowhere' is no address" in refused.stderr
        and "Traceback" not in refused.stderr
    )


@pytest.mark.alone
def test_ctrl_c_ends_a_run_at_once(signal: iso.Signal, path: Path, client: Any) -> None:
    """Within a tenth of a second, and workers go on to serve the next run."""
    code = f"""
import sys, threading, time, os, signal
sys.path.insert(0, {str(Path(__file__).parent)!r})
import isochrony as iso
from distributed import Client
from test_cluster_plans import slow_plan
if __name__ == "__main__":
    with Client({client.scheduler.address!r}) as client:
        plan = slow_plan(iso.open({str(path)!r})["s"])
        asked = []
        def ask():
            time.sleep(1.0)
            asked.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=ask).start()
        try:
            for _ in range(20):
                plan.collect(on=client)
        except KeyboardInterrupt:
            print("took", time.perf_counter() - asked[0])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout.startswith("took"), ran.stderr
    assert float(ran.stdout.split()[1]) < 1.5
    plan = iso.scan(signal).map(lambda s: s + 1)
    np.testing.assert_array_equal(plan.collect(on=client), plan.collect())


def test_stores_may_lie_elsewhere_on_workers(signal: iso.Signal, path: Path, tmp_path: Path) -> None:
    """Workers that run in another place: the store's folder is moved away once the plan has its snapshot."""
    shutil.copytree(path, tmp_path / "there" / path.name)
    plan = iso.scan(signal).rewindow(100).map(lambda s: s.max())
    expected = plan.collect(workers=1)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        found = plan.collect(on=client, paths={str(path.parent): str(tmp_path / "there")})
        np.testing.assert_array_equal(found, expected)
        maps = client.run(lambda: Path("/proc/self/maps").read_text())
        assert all(str(tmp_path / "there") in text and str(path) not in text for text in maps.values())
        with pytest.raises(iso.RunError, match=r"worker tcp://.* cannot take part: .*nowhere"):
            plan.map(lambda s: s + 1).collect(on=client, paths={str(path.parent): "/nowhere"})
    with pytest.raises(iso.OptionError, match="paths="):
        plan.collect(paths=["/a", "/b"])
    with pytest.raises(iso.OptionError, match="give on=, too"):
        plan.collect(paths={"/a": "/b"})


def test_many_stations_draws_the_same_figure_on_a_cluster(client: Any, tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    try:
        import many_stations
    finally:
        sys.path.pop(0)
    many_stations.main(tmp_path / "here.png")
    many_stations.main(tmp_path / "there.png", client.scheduler.address)
    assert (tmp_path / "here.png").read_bytes() == (tmp_path / "there.png").read_bytes()


def prepared() -> list[int]:
    """In a worker: the plans that it has prepared."""
    return [id(tasks) for tasks in worker._PREPARED.values()]


def test_threads_of_a_worker_share_a_plan_which_is_prepared_once(signal: iso.Signal) -> None:
    plan = iso.scan(signal).rewindow(100).map(lambda s: s.max())
    expected = plan.collect(workers=1)
    options = {"n_workers": 1, "threads_per_worker": 3, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        found = [plan.collect(on=client)]
        first = client.run(prepared)
        found.append(plan.collect(on=client))
        assert client.run(prepared) == first
        assert [len(plans) for plans in first.values()] == [1]
        report = slow_plan(signal).run(on=client).report
        assert len(report.workers) == 3 and len({worker.host for worker in report.workers}) == 1
        assert sum(worker.tasks > 0 for worker in report.workers) > 1
    for one in found:
        np.testing.assert_array_equal(one, expected)


def test_workers_may_be_threads_of_this_process(signal: iso.Signal) -> None:
    plan = iso.scan(signal).rewindow(100).map(lambda s: s.max())
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(processes=False, **options) as cluster, distributed.Client(cluster) as client:
        np.testing.assert_array_equal(plan.collect(on=client), plan.collect(workers=1))


def test_what_depends_on_cuts_has_the_bits_that_one_worker_gives(client: Any, signal: iso.Signal) -> None:
    filtered = iso.scan(signal).lowpass(50)
    here = filtered.collect(tolerance=1e-9, workers=1)
    np.testing.assert_array_equal(filtered.collect(tolerance=1e-9, on=client), here)
    assert len(filtered.run(tolerance=1e-9, on=client).report.tasks) > 1
    np.testing.assert_allclose(here, filtered.collect(), atol=1e-3)
    rows = iso.scan(signal).rewindow(100).stats("mean", "std")
    sums = rows.group_by().agg(total=("mean", "sum"), spread=("std", "mean"))
    same(sums.collect(workers=1), sums.collect(on=client))


def test_blocks_and_labelled_results_come_from_workers_too(client: Any, signal: iso.Signal) -> None:
    plan = iso.scan(signal).rewindow(100).map(lambda s: s.max())
    assert all(block.breaks is not None for block in plan.blocks())
    blocks = np.concatenate([block.values for block in plan.blocks(on=client)])
    np.testing.assert_array_equal(blocks.ravel(), plan.collect().ravel())
    same(plan.collect(as_="table", on=client), plan.collect(as_="table", workers=1))


def test_the_report_names_processors_that_differ(
    client: Any, signal: iso.Signal, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = iso.scan(signal).map(lambda s: s + 1)
    assert not any("processors differ" in place for place in plan.run(on=client).report.places)
    monkeypatch.setattr(cluster_client, "_instruction_set", lambda: ("scalar", 4.0))
    (told,) = (place for place in plan.run(on=client).report.places if "processors differ" in place)
    assert told.startswith("processors differ (here scalar; tcp://")
    assert told.endswith("within 4 * log2(n) roundings of the largest, all else to the last bit")


def test_plans_are_as_they_were_at_the_next_run(client: Any, signal: iso.Signal) -> None:
    """What a `limit` closed in one run is open in the next."""
    plan = iso.scan(signal).map(lambda s: s * 2)
    counted = iso.scan(signal).rewindow(100).filter(lambda s: s.max() > 0).count()
    plans = [plan.limit(20_000), counted]
    expected = iso.collect(plans, workers=1)
    for _ in range(3):
        for one, other in zip(iso.collect(plans, on=client), expected, strict=True):
            same(one, other)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(iso.collect(plans, on=client))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for results in found:
        for one, other in zip(results, expected, strict=True):
            same(one, other)
    assert len(found) == 2


def test_plans_share_a_function_that_travels_by_value(client: Any, signal: iso.Signal) -> None:
    factor = 3
    shared = iso.scan(signal).rewindow(100).map(iso.py(lambda rows: rows.max(axis=1) * factor, dtype="i2", width=1))
    plans = [shared.count(), shared.map(lambda s: s + 1), shared]
    for one, other in zip(iso.collect(plans, on=client), iso.collect(plans, workers=1), strict=True):
        same(one, other)


def test_a_run_ends_where_all_slots_fail_and_plans_have_several_results(
    client: Any, signal: iso.Signal, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = iso.scan(signal).map(lambda s: s * 2)
    plans = [plan, iso.scan(signal).rewindow(100).map(lambda s: s.max()), plan.rewindow(64).map(lambda s: s.min())]
    monkeypatch.setattr(slots.Slot, "_answer", refusing(slots.Slot._answer))
    for _ in range(5):
        with pytest.raises(iso.RunError, match="cannot take part: no"):
            iso.collect(plans, on=client)


def refusing(answer: Callable[..., Any]) -> Callable[..., Any]:
    """As if workers answered a batch with an error."""

    def refused(slot: Any, call: Any) -> Any:
        result = answer(slot, call)
        if isinstance(result, bytes):
            raise slots.WorkerError(iso.RunError("no"))
        return result

    return refused


def test_uncommitted_samples_are_refused(client: Any, tmp_path: Path) -> None:
    with iso.open(tmp_path / "new.iso", "x") as store:
        signal = store.create("s", dtype="i2", rate=RATE)
        signal.append(np.arange(1000, dtype="i2"))
        with pytest.raises(
            iso.PlanError, match="not committed, which workers of a cluster cannot read; commit them first"
        ):
            iso.scan(signal).map(lambda s: s + 1).collect(on=client)


def test_threads_of_a_worker_release_memory_to_each_other(signal: iso.Signal) -> None:
    plan = iso.scan(signal).rewindow(4096).power().map(lambda s: s.max())
    options = {"n_workers": 1, "threads_per_worker": 8, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        same(plan.collect(on=client, memory="2MB"), plan.collect(workers=1))


def test_a_worker_that_comes_back_at_its_address_takes_part_again(signal: iso.Signal) -> None:
    plan = slow_plan(signal)
    expected = plan.collect(workers=1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {"n_workers": 0, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-dashboard"]
        command += ["--nthreads", "1", "--host", "127.0.0.1", "--worker-port", str(port)]
        worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            client.wait_for_workers(1, timeout=30)
            (pid,) = client.run(os.getpid).values()
            killer = threading.Timer(0.5, os.kill, (pid, signals.SIGKILL))
            killer.start()
            found = plan.collect(on=client)
            assert list(client.run(os.getpid)) == [f"tcp://127.0.0.1:{port}"]
            assert list(client.run(os.getpid).values()) != [pid]
        finally:
            worker.terminate()
            worker.wait(timeout=20)
    np.testing.assert_array_equal(found, expected)


def test_a_worker_opens_a_store_of_many_signals_once(client: Any, tmp_path: Path) -> None:
    with iso.open(tmp_path / "many.iso", "x") as store:
        for number in range(60):
            store.create(f"s/{number}", dtype="i2", rate=RATE).append(np.arange(number, number + 20_000, dtype="i2"))
        store.commit()
    with iso.open(tmp_path / "many.iso") as store:
        plans = [iso.scan(store[f"s/{number}"]).rewindow(100).power().map(lambda s: s.max()) for number in range(60)]
        for one, other in zip(iso.collect(plans, on=client), iso.collect(plans, workers=1), strict=True):
            same(one, other)
    for paths in client.run(open_paths).values():
        held = Counter(path for path in paths if path.startswith(str(tmp_path)))
        # Were it opened for each signal, its files would be open sixty times.
        assert all(count <= 2 for count in held.values()), held


def open_paths() -> list[str]:
    """In a worker: the files that it has open."""
    return [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]


FEED_RATE = 200_000
TAPS = [0.125, 0.25, -0.5, 1.0, 0.375]


def feed_samples(seconds: float) -> np.ndarray[Any, Any]:
    return np.random.default_rng(11).integers(-2000, 2000, int(seconds * FEED_RATE), dtype="i2")


def sending(samples: np.ndarray[Any, Any], address: str) -> threading.Thread:
    """Sends samples at their rate, once workers have the plan."""

    def send() -> None:
        time.sleep(1.5)
        # A run that has ended takes no more of them.
        with contextlib.suppress(iso.RunError):
            iso.scan(samples, rate=FEED_RATE, segment=1000).send(address, speed=1).run()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def loudest(plan: iso.Plan) -> iso.Plan:
    """Filtered samples, of which each window's largest."""
    return plan.fir(TAPS).rewindow(1000).map(lambda s: s.max())


def expected_loudest(samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `loudest` gives. Taps are multiples of 1/8, so that all sums are exact."""
    filtered = np.convolve(samples.astype("f8"), TAPS)[: len(samples)]
    windows = filtered[: len(filtered) // 1000 * 1000].reshape(-1, 1000)
    return np.asarray(windows.max(axis=1, keepdims=True))


@pytest.fixture
def two_workers() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
def test_workers_compute_blocks_of_a_feed(two_workers: Any, scheme: str) -> None:
    samples = feed_samples(3)
    listener = iso.listen(f"{scheme}://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
    sender = sending(samples, listener.address)
    plan = loudest(iso.scan(listener))
    result = plan.run(on=two_workers)
    sender.join()
    assert listener.counts["lost_samples"] == 0 and listener.counts["samples"] == len(samples)
    workers = result.report.workers
    addresses = set(two_workers.scheduler_info(n_workers=-1)["workers"])
    assert {worker.host for worker in workers} == addresses
    assert all(worker.tasks > 0 and worker.sent_bytes > 0 and worker.received_bytes > 0 for worker in workers)
    assert not any(worker.lost for worker in workers)
    # Most samples went to workers: this process computes only what comes before they have the plan.
    assert sum(worker.sent_bytes for worker in workers) > samples.nbytes / 2

    sender = sending(samples, listener.address)
    found = plan.collect(on=two_workers)
    sender.join()
    assert listener.counts["lost_samples"] == 0
    np.testing.assert_array_equal(found, expected_loudest(samples))
    np.testing.assert_array_equal(found, loudest(iso.scan(samples, rate=FEED_RATE)).collect(workers=1))


def test_what_works_in_order_and_what_writes_stays_with_a_feed(two_workers: Any, tmp_path: Path) -> None:
    """A recursive filter before the blocks, a function and a sink behind them."""
    samples = feed_samples(2)
    seen: list[tuple[int, int]] = []

    def note(rows: np.ndarray[Any, Any], start: int) -> None:
        seen.append((os.getpid(), start))

    def plan(scan: iso.Plan) -> iso.Plan:
        return scan.lowpass(20_000).rewindow(4096).power().map(lambda s: s.max())

    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
    sender = sending(samples, listener.address)
    with iso.open(tmp_path / "results.iso", "x") as store:
        report = plan(iso.scan(listener)).each(note).sink(store, "largest").run(on=two_workers).report
        sender.join()
        assert sum(worker.tasks for worker in report.workers) > 0
        expected = plan(iso.scan(samples, rate=FEED_RATE)).collect(workers=1)
        np.testing.assert_array_equal(store["largest"][:].values().reshape(expected.shape), expected)
    assert {pid for pid, _ in seen} == {os.getpid()}
    starts = [start for _, start in seen]
    assert len(starts) > 1 and starts == sorted(starts)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_feed_loses_nothing_with_its_workers(two_workers: Any, lost: int) -> None:
    """With all of them this process goes on by itself."""
    samples = feed_samples(4)
    pids = list(two_workers.run(os.getpid).values())
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
    sender = sending(samples, listener.address)
    for pid in pids[:lost]:
        threading.Timer(3, os.kill, (pid, signals.SIGKILL)).start()
    plan = loudest(iso.scan(listener))
    found = plan.collect(on=two_workers)
    sender.join()
    assert listener.counts["lost_samples"] == 0
    np.testing.assert_array_equal(found, expected_loudest(samples))


def test_a_feed_needs_no_worker() -> None:
    samples = feed_samples(1)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
        sender = sending(samples, listener.address)
        np.testing.assert_array_equal(loudest(iso.scan(listener)).collect(on=client), expected_loudest(samples))
        sender.join()


def fails_once(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    raise ValueError("no such row")


def test_an_error_ends_the_run_of_a_feed(two_workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a function here, and in a worker."""
    samples = feed_samples(2)
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
    sending(samples, listener.address)
    with pytest.raises(iso.RunError, match="no such row") as here:
        loudest(iso.scan(listener)).map(iso.py(fails_once, dtype="f8", width=1)).collect(on=two_workers)
    assert isinstance(here.value.__cause__, ValueError)
    monkeypatch.setattr(slots.Slot, "_answer", refusing(slots.Slot._answer))
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=3)
    sending(samples, listener.address)
    with pytest.raises(iso.RunError, match=r"worker tcp://.* cannot take part: no"):
        loudest(iso.scan(listener)).collect(on=two_workers)


@pytest.mark.alone
def test_ctrl_c_ends_the_run_of_a_feed_at_once(client: Any) -> None:
    code = f"""
import sys, threading, time, os, signal
sys.path.insert(0, {str(Path(__file__).parent)!r})
import isochrony as iso
from distributed import Client
from test_cluster_plans import FEED_RATE, feed_samples, loudest, sending
if __name__ == "__main__":
    with Client({client.scheduler.address!r}) as client:
        listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=FEED_RATE, silence=10)
        sending(feed_samples(10), listener.address)
        asked = []
        def ask():
            time.sleep(4.0)
            asked.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=ask).start()
        try:
            loudest(iso.scan(listener)).collect(on=client)
        except KeyboardInterrupt:
            print("took", time.perf_counter() - asked[0], flush=True)
        os._exit(0)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout.startswith("took"), ran.stderr
    assert float(ran.stdout.split()[1]) < 0.5


def noted(rows: np.ndarray[Any, Any], calls: str, pause: float) -> np.ndarray[Any, Any]:
    """As `slow`; each call appends a number of its rows to a file."""
    time.sleep(pause)
    with Path(calls).open("a") as file:  # a short line is appended as a whole
        file.write(f"{zlib.crc32(rows.tobytes())}\n")
    return rows.max(axis=1)


def noted_plan(path: Path, calls: Path, pause: float = 0.1) -> iso.Plan:
    signal = iso.open(path)["s"]
    function = functools.partial(noted, calls=str(calls), pause=pause)
    return iso.scan(signal).rewindow(100).map(iso.py(function, dtype="i4", width=1))


@pytest.fixture(scope="module")
def long_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with samples for some hundred tasks, all different."""
    path = tmp_path_factory.mktemp("long") / "long.iso"
    with iso.open(path, "x") as store:
        signal = store.create("s", dtype="i4", rate=RATE)
        signal.append(np.arange(12_000_000, dtype="i4"))
        store.commit()
    return path


def run_in_small_tasks(plan: iso.Plan, **given: Any) -> Any:
    """Its report; tasks are small, so that few of them are in flight."""
    options = RunOptions.of(**given)
    options.settings["task"] = 400_000
    return run_reported((plan,), options).report


def workers_of(client: Any) -> list[str]:
    return list(client.scheduler_info(n_workers=-1)["workers"])


def test_a_run_grows_its_cluster_and_shrinks_it_and_nothing_is_done_twice(
    long_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "TARGET_S", 1.0)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        plan = noted_plan(long_path, tmp_path / "there")
        most = [0]
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.05):
                most[0] = max(most[0], len(workers_of(client)))

        watcher = threading.Thread(target=watch)
        watcher.start()
        report = run_in_small_tasks(plan, on=client, scale=(1, 3))
        ended.set()
        watcher.join()
        assert most[0] == 3
        assert len({worker.host for worker in report.workers}) == 3
        assert not any(worker.lost for worker in report.workers)
        assert sum(worker.tasks for worker in report.workers) == len(report.tasks)
        calls = Counter((tmp_path / "there").read_text().split())
        assert max(calls.values()) == 1
        until = time.monotonic() + 20
        while len(workers_of(client)) > 1 and time.monotonic() < until:
            time.sleep(0.1)
        assert len(workers_of(client)) == 1
        found = plan.collect(on=client, scale=(1, 2))
        np.testing.assert_array_equal(found.ravel(), np.arange(99, 12_000_000, 100, dtype="i4"))


def test_a_run_that_needs_fewer_workers_retires_the_others(
    long_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "TARGET_S", 1000.0)
    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        plan = noted_plan(long_path, tmp_path / "there")
        counts: list[int] = []
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.05):
                counts.append(len(workers_of(client)))

        watcher = threading.Thread(target=watch)
        watcher.start()
        report = run_in_small_tasks(plan, on=client, scale=(1, 3))
        ended.set()
        watcher.join()
        assert counts[-1] == 1, counts
        assert not any(worker.lost for worker in report.workers)
        assert sum(worker.tasks for worker in report.workers) == len(report.tasks)
        assert max(Counter((tmp_path / "there").read_text().split()).values()) == 1


def test_a_worker_can_be_drained_while_runs_use_it(long_path: Path, tmp_path: Path) -> None:
    options = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        plan = noted_plan(long_path, tmp_path / "there", 0.2)
        leaving = workers_of(client)[0]
        during = []

        def leave() -> None:
            time.sleep(1.5)
            drain(client, [leaving])
            during.append(not ended.is_set())

        ended = threading.Event()
        drainer = threading.Thread(target=leave)
        drainer.start()
        report = run_in_small_tasks(plan, on=client)
        ended.set()
        drainer.join()
        assert during == [True], "the run ended before the worker was drained"
        assert leaving not in workers_of(client)
        assert not any(worker.lost for worker in report.workers)
        assert {worker.host for worker in report.workers} > {leaving}
        assert sum(worker.tasks for worker in report.workers) == len(report.tasks)
        assert max(Counter((tmp_path / "there").read_text().split()).values()) == 1


def test_scale_needs_a_cluster_that_scales(client: Any, signal: iso.Signal) -> None:
    plan = iso.scan(signal).map(lambda s: s + 1)
    for wrong in (3, (0, 0), (4, 2), (1, 2, 3), (-1, 2), (1, 5000)):
        with pytest.raises(iso.OptionError, match="least and the most workers"):
            plan.collect(on=client, scale=wrong)
    with pytest.raises(iso.OptionError, match="needs on= a cluster that can scale"):
        plan.collect(scale=(1, 2))
    with (
        distributed.Client(client.scheduler.address) as by_address,
        pytest.raises(iso.OptionError, match="connected by an address cannot start workers"),
    ):
        plan.collect(on=by_address, scale=(1, 2))


def test_a_path_prefix_of_no_store_is_refused(client: Any, signal: iso.Signal, path: Path) -> None:
    plan = iso.scan(signal).map(lambda s: s + 1)
    with pytest.raises(iso.OptionError, match=r"'/nowhere' is the beginning of no store of the plan .*recording\.iso"):
        plan.collect(on=client, paths={"/nowhere": "/mnt", str(path.parent): str(path.parent)})


def test_a_slot_that_is_lost_alone_comes_back(long_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = noted_plan(long_path, tmp_path / "there")
    answer = slots.Slot._answer
    lost: list[int] = []

    def losing(slot: Any, call: Any) -> Any:
        result = answer(slot, call)
        if isinstance(result, bytes) and slot.number == 1 and not lost:
            lost.append(slot.number)
            raise OSError("the connection is broken")
        return result

    monkeypatch.setattr(slots.Slot, "_answer", losing)
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        report = run_in_small_tasks(plan, on=client)
    assert [worker.lost for worker in report.workers].count(True) == 1
    assert len(report.workers) == 3


def function_processes() -> int:
    """In a worker: processes of functions below it."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return sum(len(one.read_text().split()) for one in children)


def test_processes_of_functions_end_with_their_plan(signal: iso.Signal) -> None:
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        (before,) = client.run(function_processes).values()
        counts = []
        for factor in range(8):
            function = functools.partial(scaled, factor=factor)
            iso.scan(signal).rewindow(100).map(iso.py(function, dtype="i8", width=1)).collect(on=client)
            counts += client.run(function_processes).values()
        until = time.monotonic() + 10
        while time.monotonic() < until and counts[-1] > before + worker._KEPT_PLANS:
            time.sleep(0.1)
            counts += client.run(function_processes).values()
        assert counts[0] > before
        assert counts[-1] <= before + worker._KEPT_PLANS, counts


def scaled(rows: np.ndarray[Any, Any], factor: int) -> np.ndarray[Any, Any]:
    return rows.max(axis=1).astype("i8") * factor


def test_an_error_of_a_worker_names_no_operator(
    client: Any, signal: iso.Signal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots.Slot, "_answer", refusing(slots.Slot._answer))
    with pytest.raises(iso.RunError, match=r"^task, samples \d+ to \d+.*: worker tcp.* cannot take part: no"):
        iso.scan(signal).map(lambda s: s * 2).collect(on=client)
