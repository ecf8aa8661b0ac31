"""Plans on real Dask workers: the bits of one thread, reports, errors and uses that are refused."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from cluster_plans import RATE, SAMPLES, local_cluster, path, refusing, same, signal, slow_plan
from isochrony.cluster import client as cluster_client
from isochrony.cluster import connect
from isochrony.cluster import slot as slots
from isochrony.cluster.connect import workers_of

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")

__all__ = ["path", "signal"]  # fixtures


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Three worker processes."""
    with local_cluster(3) as client:
        yield client


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
    addresses = set(workers_of(client))
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


def slowest(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    time.sleep(0.3)
    return rows.max(axis=1)


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
    assert {worker["host"] for worker in workers} <= set(workers_of(client))
    command[command.index("--on") + 1] = "nowhere"
    refused = subprocess.run([*command, "--force"], capture_output=True, text=True, check=False)
    assert (
        refused.returncode == 2
        and "--on 'nowhere' is not an address" in refused.stderr
        and "Traceback" not in refused.stderr
    )


@pytest.mark.alone
def test_ctrl_c_ends_a_run_at_once(signal: iso.Signal, path: Path, client: Any) -> None:
    """Within a tenth of a second, and workers go on to serve the next run."""
    code = f"""
import sys, threading, time, os, signal
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import isochrony as iso
from distributed import Client
from cluster_plans import slow_plan
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


def test_many_stations_draws_the_same_figure_on_a_cluster(client: Any, tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    try:
        import many_stations
    finally:
        sys.path.pop(0)
    many_stations.main(tmp_path / "here.png")
    many_stations.main(tmp_path / "there.png", client.scheduler.address)
    assert (tmp_path / "here.png").read_bytes() == (tmp_path / "there.png").read_bytes()


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


def test_uncommitted_samples_are_refused(client: Any, tmp_path: Path) -> None:
    with iso.open(tmp_path / "new.iso", "x") as store:
        signal = store.create("s", dtype="i2", rate=RATE)
        signal.append(np.arange(1000, dtype="i2"))
        with pytest.raises(
            iso.PlanError, match="not committed, which workers of a cluster cannot read; commit them first"
        ):
            iso.scan(signal).map(lambda s: s + 1).collect(on=client)


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


def test_scale_needs_a_cluster_that_scales(client: Any, signal: iso.Signal) -> None:
    plan = iso.scan(signal).map(lambda s: s + 1)
    for wrong in (3, (0, 0), (4, 2), (1, 2, 3), (-1, 2), (1, 5000)):
        with pytest.raises(iso.OptionError, match="fewest and the most workers"):
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


def test_an_error_of_a_worker_names_no_operator(
    client: Any, signal: iso.Signal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots.Slot, "_answer", refusing(slots.Slot._answer))
    with pytest.raises(iso.RunError, match=r"^task, samples \d+ to \d+.*: worker tcp.* cannot take part: no"):
        iso.scan(signal).map(lambda s: s * 2).collect(on=client)
