"""Parts of a plan on hosts of a cluster, `plan.on(HOST)`, with real worker processes, feeds over UDP and TCP, and links
that break.
"""

from __future__ import annotations

import os
import signal as signals
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.cluster import host
from isochrony.cluster.connect import workers_of
from isochrony.running.options import RunOptions
from isochrony.running.runs import collect_reported

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")

RATE = 200_000
SECOND = np.random.default_rng(5).normal(size=RATE).astype("f4")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def free_port(kind: int) -> int:
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def unbound(**options: Any) -> tuple[iso.Listener, str]:
    address = f"tcp://127.0.0.1:{free_port(socket.SOCK_STREAM)}"
    return iso.listen(address, dtype="f4", bind=False, **{"rate": RATE, "silence": 10} | options), address


@contextmanager
def sending(plan: Any, address: str, has_reader: bool = True, **options: Any) -> Iterator[None]:
    """Sends as soon as somebody listens, which is on another host; without `has_reader` that one may fail meanwhile."""

    def send() -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                plan.send(address, **options).run()
                return
            except iso.RunError as error:
                # Begun again it would send the same samples twice; who has failed takes no more of them.
                if "Connection refused" not in str(error):
                    if has_reader:
                        raise
                    return
                time.sleep(0.05)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    thread.join()


def recorded(samples: Any, **options: Any) -> Any:
    return iso.scan(samples, rate=RATE, start="2026-03-01T00:00:00", **options)


PLANS: list[tuple[str, Callable[[Any, Callable[[Any], Any]], Any]]] = [
    ("samples", lambda scan, on: on(scan)),
    ("filtered", lambda scan, on: on(scan.lowpass(5_000))),
    ("windows", lambda scan, on: on(scan.rewindow(500, hop=300))),
    ("rows", lambda scan, on: on(scan.rewindow(1000).stats("mean", "max"))),
    ("rows of the client", lambda scan, on: on(scan).rewindow(1000).stats("mean", "max")),
    ("ranges", lambda scan, on: on(scan.rewindow(100).filter(lambda s: s.max() > 3).ranges())),
    ("both sides", lambda scan, on: on(scan.lowpass(5_000)).rewindow(100).map(lambda s: s.std())),
]


def same(one: Any, other: Any) -> None:
    if isinstance(one, iso.Table):
        assert one.columns == other.columns
        for name in one.columns:
            np.testing.assert_array_equal(one[name], other[name])
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize(("name", "build"), PLANS, ids=[name for name, _ in PLANS])
def test_results_have_the_bits_of_one_process(client: Any, name: str, build: Any) -> None:
    samples = np.concatenate([SECOND[:60_000], SECOND[:30_000]])
    here = iso.listen("tcp://127.0.0.1:0", dtype="f4", rate=RATE, silence=10)
    with sending(recorded(samples), here.address):
        expected = build(iso.scan(here), lambda plan: plan).collect(workers=1)
    feed, address = unbound()
    plan = build(iso.scan(feed), lambda plan: plan.on("0"))
    with sending(recorded(samples), address):
        found = plan.collect(on=client)
    same(found, expected)
    assert len(found) > 0
    # Without a host, workers compute blocks of what is received here.
    here = iso.listen("tcp://127.0.0.1:0", dtype="f4", rate=RATE, silence=10)
    with sending(recorded(samples), here.address):
        same(build(iso.scan(here), lambda plan: plan).collect(on=client), expected)
    if isinstance(found, iso.Table):
        assert str(found["time"][0]).startswith("2026-03-01T00:00:00")


@pytest.mark.alone
def test_a_link_that_breaks_ten_times_loses_and_repeats_nothing(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A feed of 200,000 samples/s: its filter beside the sensor, and replicas of what follows on two other slots."""
    connections: list[socket.socket] = []
    connect = host.HostServer.connect

    def kept(server: host.HostServer) -> socket.socket:
        connections.append(connect(server))
        return connections[-1]

    monkeypatch.setattr(host.HostServer, "connect", kept)
    over = threading.Event()

    def cut() -> None:
        done = 0
        while done < 10 and not over.wait(0.25):
            if connections and connections[-1].fileno() >= 0:
                connections[-1].shutdown(socket.SHUT_RDWR)
                done += 1

    def behind(plan: Any) -> Any:
        return plan.rewindow(1024, hop=256).power().map(lambda s: s.max())

    samples = np.tile(SECOND, 5)
    feed, address = unbound()
    cutter = threading.Thread(target=cut)
    with sending(recorded(samples), address, speed=1.0):
        cutter.start()
        collected, run = reported(behind(iso.scan(feed).lowpass(20_000).on("0")), client)
        over.set()
    cutter.join()
    here = behind(iso.scan(samples, rate=RATE).lowpass(20_000))
    np.testing.assert_array_equal(collected, here.collect(workers=1))
    (told,) = (place for place in run.report.places if "connection(s)" in place)
    assert len(connections) >= 10 and f"{len(connections)} connection(s)" in told
    assert not any("lost" in place for place in run.report.places)
    assert len(run.report.workers) == 2 and all(slot.tasks > 0 for slot in run.report.workers)


def test_slots_do_the_tasks_of_other_parts_meanwhile(client: Any, tmp_path: Path) -> None:
    with iso.open(tmp_path / "s", "x") as store:
        signal = store.create("x", dtype="f4", rate=RATE)
        signal.append(np.tile(SECOND, 10), at="2026-01-01")
        store.commit()
        stored = iso.scan(signal).rewindow(4096).power().map(lambda s: s.max())
        feed, address = unbound()
        plans = (iso.scan(feed).rewindow(100).stats("max").on("0").filter(lambda r: r.max > 3), stored)
        with sending(recorded(SECOND), address):
            (rows, maxima), _, run = collect_reported(plans, RunOptions.of(on=client))
        assert sum(slot.tasks for slot in run.report.workers) > 1
        same(maxima, stored.collect(workers=1))
        there = recorded(SECOND).rewindow(100).stats("max").filter(lambda r: r.max > 3).collect(workers=1)
        np.testing.assert_array_equal(rows["max"], there["max"])
        assert len(rows) > 0
        # Both read stores: a host, and slots.
        paths = {str(tmp_path): str(tmp_path)}
        moved = iso.scan(signal).lowpass(5_000).on("0").rewindow(4096).power().map(lambda s: s.max())
        here = iso.scan(signal).lowpass(5_000).rewindow(4096).power().map(lambda s: s.max())
        same(moved.collect(on=client, paths=paths), here.collect(workers=1))


def reported(plan: Any, client: Any) -> tuple[Any, Any]:
    """Results, and the run's report."""
    (collected,), _, run = collect_reported((plan,), RunOptions.of(on=client))
    return collected, run


def test_a_link_that_is_gone_for_longer_than_its_buffer_lasts_is_a_gap(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = host.HostServer.connect
    cut_at: list[float] = []

    def broken(server: host.HostServer) -> socket.socket:
        if cut_at and time.monotonic() < cut_at[0] + 2.0:
            raise OSError("the network is down")
        connection = connect(server)
        if not cut_at:
            cut_at.append(time.monotonic() + 0.5)
            threading.Timer(0.5, lambda: connection.shutdown(socket.SHUT_RDWR)).start()
        return connection

    monkeypatch.setattr(host.HostServer, "connect", broken)
    samples = np.tile(SECOND, 5)
    address = f"udp://127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
    # A quarter of `memory=` is the host's buffer; then its feed drops what finds no room.
    feed = iso.listen(address, dtype="f4", rate=RATE, bind=False, silence=3, buffer=256 << 10)
    blocks: list[tuple[int, Any]] = []
    plan = iso.scan(feed).on("1").each(lambda samples, start: blocks.append((start, samples.copy())))
    timer = threading.Timer(1.5, lambda: recorded(samples).send(address, speed=1.0).run())
    timer.start()
    plan.run(on=client, memory="1MB")
    timer.join()
    starts = [start for start, _ in blocks]
    assert starts == sorted(starts)
    got = sum(len(block) for _, block in blocks)
    end = blocks[-1][0] + len(blocks[-1][1])
    assert RATE < got < len(samples) == end, "some are lost, and indices say which"
    for start, block in blocks:
        np.testing.assert_array_equal(block, samples[start : start + len(block)])


def pid_of(client: Any, name: str) -> int:
    for address, worker in workers_of(client).items():
        if str(worker["name"]) == name:
            return int(client.run(os.getpid, workers=[address])[address])
    raise AssertionError(name)


def test_a_feed_goes_on_as_a_new_run_where_its_host_was_lost(client: Any) -> None:
    address = f"udp://127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
    feed = iso.listen(address, dtype="f4", rate=20_000, bind=False, silence=4)
    samples = np.tile(SECOND, 1)
    pid = pid_of(client, "1")

    def feed_and_kill() -> None:
        threading.Timer(2.0, os.kill, (pid, signals.SIGKILL)).start()
        iso.scan(samples, rate=20_000, start="2026-03-01").send(address, speed=1.0).run()

    timer = threading.Timer(1.0, feed_and_kill)
    timer.start()
    found, run = reported(iso.scan(feed).rewindow(100).stats("min", "max").on("1"), client)
    timer.join()
    (told,) = (place for place in run.report.places if "was lost" in place)
    assert "on('1'): the worker was lost after" in told and "new runs" in told
    starts = found["start"]
    assert (np.diff(starts) > 0).all(), "indices of the new run follow those of the old one"
    # Civil times say which samples of the new run a window has.
    seconds = (np.asarray(found["time"]).astype("M8[ns]") - np.datetime64("2026-03-01", "ns")).astype("i8") / 1e9
    index = np.round(seconds * 20_000).astype(int)
    assert index[0] == 0 and index[-1] > 120_000 and (np.diff(index) > 100).any()
    np.testing.assert_array_equal(found["max"], [samples[at : at + 100].max() for at in index])


def test_a_stored_signal_is_read_on_its_host_and_ends_the_run_where_that_is_lost(client: Any, tmp_path: Path) -> None:
    with iso.open(tmp_path / "s", "x") as store:
        signal = store.create("x", dtype="f4", rate=RATE)
        signal.append(SECOND, at="2026-01-01")
        store.commit()
        plan = iso.scan(signal).lowpass(5_000).on("0").rewindow(100).stats("max")
        same(plan.collect(on=client), iso.scan(signal).lowpass(5_000).rewindow(100).stats("max").collect(workers=1))


def test_wrong_uses_are_refused(client: Any) -> None:
    feed, _ = unbound()
    scan = iso.scan(feed)
    with pytest.raises(iso.PlanError, match=r"on\(\"0\"\), but the run has no cluster; give on="):
        scan.on("0").collect()
    with pytest.raises(iso.PlanError, match=r"on\(\"1\"\) is before on\(\"0\"\)"):
        scan.on("1").on("0").collect(on=client)
    with pytest.raises(iso.PlanError, match="before on\\(\\) twice"):
        scan.lowpass(100).on("0").map(lambda a, b: a + b, scan.on("1")).collect(on=client)
    with pytest.raises(
        iso.RunError, match="has no worker of this name, but 0, 1; start it with: dask worker --name buoy"
    ):
        scan.on("buoy").collect(on=client)
    with pytest.raises(iso.OptionError, match="port 0 is any free one"):
        iso.listen("udp://127.0.0.1:0", dtype="f4", rate=RATE, bind=False)
    bound = iso.listen("udp://127.0.0.1:0", dtype="f4", rate=RATE)
    with pytest.raises(iso.PlanError, match=r"listen\(\.\.\., bind=False\)"):
        iso.scan(bound).on("0").collect(on=client)
    with pytest.raises(iso.OptionError, match=r"scale= is refused for a plan with on\(HOST\)"):
        scan.on("0").collect(on=client.cluster, scale=(1, 2))
    with pytest.raises(iso.PlanError, match=r"put on\(\.\.\.\) before count\(\)"):
        scan.count().on("0")


def test_an_error_on_the_host_is_the_cause_of_that_of_the_run(client: Any) -> None:
    feed, address = unbound()

    def fails(block: Any) -> Any:
        raise ValueError("too loud")

    plan = iso.scan(feed).rewindow(100).map(iso.py(fails, dtype="f4", width=1)).on("0")
    with pytest.raises(iso.RunError) as caught, sending(recorded(SECOND), address, has_reader=False):
        plan.collect(on=client)
    assert isinstance(caught.value.__cause__, ValueError) and "too loud" in str(caught.value.__cause__)
    assert any("raised on" in note for note in caught.value.__cause__.__notes__)


def test_an_address_that_is_taken_on_the_host_is_told(client: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        feed = iso.listen(f"tcp://127.0.0.1:{port}", dtype="f4", rate=RATE, bind=False)
        with pytest.raises(iso.RunError, match=f"tcp://127.0.0.1:{port}"):
            iso.scan(feed).on("0").collect(on=client)


def test_strangers_are_refused_and_connections_are_encrypted_as_those_of_dask() -> None:
    pytest.importorskip("cryptography", reason="makes certificates")
    security = distributed.Security.temporary()
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    found: list[bytes] = []
    with (
        distributed.LocalCluster(**options, protocol="tls", security=security) as cluster,
        distributed.Client(cluster, security=security) as client,
    ):
        connect = host.HostServer.connect
        with pytest.MonkeyPatch.context() as patch:

            def stranger(server: host.HostServer) -> socket.socket:
                if not found:
                    connection = connect(server)
                    connection.sendall(host._HELLO.pack(b"x" * 32, 1 << 20, 0))
                    found.append(connection.recv(1))
                    connection.close()
                connection = connect(server)
                assert connection.version().startswith("TLS")  # type: ignore[attr-defined]
                return connection

            patch.setattr(host.HostServer, "connect", stranger)
            feed, address = unbound()
            with sending(recorded(SECOND), address):
                np.testing.assert_array_equal(iso.scan(feed).on("0").collect(on=client), SECOND)
    assert found == [host._REFUSED]


def test_a_host_that_is_there_but_is_not_reached_ends_the_run(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(server: host.HostServer) -> socket.socket:
        raise OSError("no route")

    monkeypatch.setattr(host.HostServer, "connect", down)
    monkeypatch.setattr(host, "LOST_TIMEOUT_S", 1.0)
    feed, _ = unbound()
    with pytest.raises(iso.RunError, match=r"the address .* of the worker 0 was not reached for 1 s"):
        iso.scan(feed).on("0").collect(on=client)
