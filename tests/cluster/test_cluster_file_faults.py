"""Faults of runs over files: the same results, caches within their quota, and nothing left behind."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import secrets
import signal as signals
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from cached_host import CachedHost
from isochrony.cluster.connect import workers_of
from isochrony.cluster.host_cache import HostCache
from isochrony.cluster.input_files import CacheSettings, InputFile
from isochrony.cluster.storage import storage_of
from storage_server import StorageServer

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")

RANDOM = random.Random(11)
TOKEN = secrets.token_bytes(32)
BLOCK = 4 << 20
CONTENT = secrets.token_bytes(4 * BLOCK + 77)


@pytest.fixture
def storage() -> Iterator[StorageServer]:
    with StorageServer() as server:
        yield server


@contextlib.contextmanager
def cluster_of(workers: int, **more: Any) -> Iterator[tuple[Any, Any]]:
    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50, **more}
    with distributed.LocalCluster(n_workers=workers, **options) as cluster, distributed.Client(cluster) as client:
        yield cluster, client


def cache_at(folder: Path) -> Any:
    return contextlib.closing(HostCache(CacheSettings(TOKEN, None, 256 << 20, timeout=2.0), folder, "127.0.0.1"))


def workload(storage: StorageServer, files: int, locality: int, size: int = 200_000) -> list[str]:
    urls = [storage.put(f"f{number}.dat", RANDOM.randbytes(size + number)) for number in range(files)]
    items = urls * locality
    RANDOM.shuffle(items)
    return items


def by_loop(storage: StorageServer, items: list[str]) -> list[str]:
    return [hashlib.sha256(storage.files["/" + item.rpartition("/")[2]]).hexdigest() for item in items]


def digest(_: object, path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def left_behind(folder: Path) -> list[Path]:
    """Files of scratch that no process has."""
    return [path for path in folder.rglob("scratch/*/*") if path.name != "lock"]


def test_a_source_that_is_killed_in_the_middle_of_a_transfer(storage: StorageServer, tmp_path: Path) -> None:
    wanted = InputFile(storage_of("http://").stat(storage.put("a.dat", CONTENT)))
    with CachedHost(tmp_path / "a", TOKEN) as source, cache_at(tmp_path / "b") as cache:
        source.ask(wanted)
        assert source.answer() == "storage"
        count = cache._fetcher.count

        def killing(origin: str, length: int) -> None:
            count(origin, length)
            if origin == "peer":
                os.kill(source.pid, signals.SIGKILL)
                source.wait()

        cache._fetcher.count = killing
        with contextlib.closing(cache.obtain(wanted.at((source.address,), None))) as file:
            assert file.path.read_bytes() == CONTENT
        # What was in the socket's buffers may still have come.
        assert BLOCK <= cache.bytes["peer"] < len(CONTENT)
        assert cache.bytes["peer"] + cache.bytes["storage"] == len(CONTENT)
    assert not left_behind(tmp_path / "b")


def test_a_receiver_that_is_killed_in_the_middle_of_a_transfer(storage: StorageServer, tmp_path: Path) -> None:
    wanted = InputFile(storage_of("http://").stat(storage.put("a.dat", CONTENT)))
    with cache_at(tmp_path / "a") as source:
        source.obtain(wanted).close()
        with CachedHost(tmp_path / "b", TOKEN) as receiver:
            receiver.ask(wanted.at((source.server.address,), None), dies=True)
            assert receiver.wait() == -signals.SIGKILL
        with cache_at(tmp_path / "b") as again:
            with contextlib.closing(again.obtain(wanted.at((source.server.address,), None))) as file:
                assert file.path.read_bytes() == CONTENT and file.origin == "peer"
            assert again.bytes["peer"] == len(CONTENT) - BLOCK, "what it had stored is not fetched again"
            assert again.info()["objects"] == 1
            assert again.info()["reserved_bytes"] == 0
            assert len(list((tmp_path / "b" / "objects").rglob("*"))) == 2
            assert len(list((tmp_path / "b" / "scratch").iterdir())) == 1, "the killed one's is gone"
        # The sender has its slots again.
        with (
            cache_at(tmp_path / "c") as third,
            contextlib.closing(third.obtain(wanted.at((source.server.address,), None))) as file,
        ):
            assert file.origin == "peer"
    assert storage.sent_bytes == len(CONTENT)


def test_one_that_was_to_fetch_and_is_killed(storage: StorageServer, tmp_path: Path) -> None:
    storage.rate = 8e6
    wanted = InputFile(storage_of("http://").stat(storage.put("a.dat", CONTENT)))
    with CachedHost(tmp_path / "a", TOKEN) as first, cache_at(tmp_path / "b") as cache:

        def killed_amid(*_: object) -> bool:
            if storage.sent_bytes > BLOCK:
                os.kill(first.pid, signals.SIGKILL)
                storage.fault = lambda *_: False
            return False

        storage.fault = killed_amid
        with contextlib.closing(cache.obtain(wanted.at((), first.address))) as file:
            assert file.path.read_bytes() == CONTENT and file.origin == "storage"


def test_one_that_fetches_slowly_is_waited_for_and_one_that_is_stopped_is_not(
    storage: StorageServer, tmp_path: Path
) -> None:
    storage.rate = 5e6
    wanted = InputFile(storage_of("http://").stat(storage.put("a.dat", CONTENT)))
    with CachedHost(tmp_path / "a", TOKEN) as first, cache_at(tmp_path / "b") as cache:
        # It takes longer than the timeout of 2 s.
        with contextlib.closing(cache.obtain(wanted.at((), first.address))) as file:
            assert file.path.read_bytes() == CONTENT and file.origin == "peer"
        other = InputFile(storage_of("http://").stat(storage.put("b.dat", CONTENT[: 2 * BLOCK])))
        before = storage.sent_bytes

        def stopped_amid(*_: object) -> bool:
            """It has fetched a part; now others read at a higher rate."""
            if storage.sent_bytes > before + BLOCK // 2:
                os.kill(first.pid, signals.SIGSTOP)
                storage.fault = lambda *_: False
                storage.rate = 20e6
            return False

        storage.fault = stopped_amid
        start = time.monotonic()
        with contextlib.closing(cache.obtain(other.at((), first.address))) as file:
            assert file.path.read_bytes() == CONTENT[: 2 * BLOCK] and file.origin == "storage"
        assert time.monotonic() - start < 8
        os.kill(first.pid, signals.SIGCONT)


def test_one_that_is_stopped_costs_its_timeout(storage: StorageServer, tmp_path: Path) -> None:
    """A dead link to a process that lives."""
    wanted = InputFile(storage_of("http://").stat(storage.put("a.dat", CONTENT)))
    with CachedHost(tmp_path / "a", TOKEN) as source, cache_at(tmp_path / "b") as cache:
        source.ask(wanted)
        source.answer()
        os.kill(source.pid, signals.SIGSTOP)
        start = time.monotonic()
        with contextlib.closing(cache.obtain(wanted.at((source.address,), None))) as file:
            assert file.path.read_bytes() == CONTENT and file.origin == "storage"
        assert 1.9 < time.monotonic() - start < 6
        os.kill(source.pid, signals.SIGCONT)


def test_workers_that_are_killed(storage: StorageServer, tmp_path: Path) -> None:
    """Two of three workers, one by itself in a task, one from outside; Dask starts others."""
    items = workload(storage, 12, 10, 400_000)
    storage.rate = 20e6
    once = tmp_path / "once"

    def fatal(item: str, path: Path) -> str:
        if path.name == "f3.dat" and not once.exists():
            once.touch()
            os.kill(os.getpid(), signals.SIGKILL)
        time.sleep(0.01)
        return digest(item, path)

    with cluster_of(3) as (_, client):
        folder = tmp_path / "caches"
        with iso.cluster.attach(client, cache="100MB", folder=f"{folder}/{{worker}}") as attachment:
            results = iso.cluster.map(fatal, items, client=client)
            found = [next(results) for _ in range(40)]
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signals.SIGKILL)
            found += list(results)
            assert found == by_loop(storage, items)
            assert once.exists()
            # Caches of those that were killed are found by those that Dask starts in their place.
            assert storage.sent_bytes <= 2 * sum(map(len, storage.files.values()))
            assert all(info["allocated_bytes"] <= info["quota_bytes"] for info in attachment.info().values())
    for cache in folder.iterdir():
        # Whoever opens it next removes what killed processes left.
        with cache_at(cache):
            assert not left_behind(cache)


def test_a_task_that_kills_its_workers_is_given_up(storage: StorageServer, tmp_path: Path) -> None:
    items = workload(storage, 2, 1)

    def fatal(*_: object) -> None:
        os.kill(os.getpid(), signals.SIGKILL)

    with (
        cluster_of(3) as (_, client),
        iso.cluster.attach(client, folder=f"{tmp_path}/{{worker}}", cache="100MB"),
        pytest.raises(iso.RunError, match=r"item \d .* was lost 3 times, each time with the worker"),
    ):
        list(iso.cluster.map(fatal, items[:1], client=client))


def test_workers_that_leave_hand_over_what_only_they_hold(storage: StorageServer, tmp_path: Path) -> None:
    """Scale-in while tasks run: no byte is read from storage a second time."""
    items = workload(storage, 12, 12)
    half = len(items) // 2

    def slow(item: str, path: Path) -> str:
        time.sleep(0.02)
        return digest(item, path)

    with cluster_of(3) as (_, client), iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}"):
        results = iso.cluster.map(slow, items, client=client, window=64)
        found = [next(results) for _ in range(half)]
        assert storage.sent_bytes <= 1.05 * sum(map(len, storage.files.values()))
        order = results._run._retire_order(list(workers_of(client)))
        queue = results._run._queue
        sole = {one.name: len(queue.sole_objects(one, list(results._run._hot.values()))) for one in queue.workers()}
        assert [sole[name] for name in order] == sorted(sole.values(), reverse=True)
        # Dask retires those that come last.
        leaving = order[1:]
        thread = threading.Thread(target=iso.cluster.drain, args=(client, leaving))
        thread.start()
        found += list(results)
        thread.join()
        assert found == by_loop(storage, items)
        assert storage.sent_bytes <= 1.05 * sum(map(len, storage.files.values()))
        assert len(workers_of(client)) == 1
        assert results.report.peer_bytes > 0


def test_a_cluster_that_grows_and_shrinks_by_itself(storage: StorageServer, tmp_path: Path) -> None:
    items = workload(storage, 6, 24)

    def slow(item: str, path: Path) -> str:
        time.sleep(0.05)
        return digest(item, path)

    with cluster_of(1) as (cluster, client):
        with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}"):
            results = iso.cluster.map(slow, items, client=client, scale=(1, 2))
            assert list(results) == by_loop(storage, items)
            assert len(results.report.hosts) == 2, "the second worker, which joined later, took part"
            assert storage.sent_bytes <= 1.05 * sum(map(len, storage.files.values()))
        assert cluster.scheduler_address


def test_a_scheduler_that_is_restarted_over_warm_caches(storage: StorageServer, tmp_path: Path) -> None:
    items = workload(storage, 8, 4)
    expected = by_loop(storage, items)
    for round_ in range(2):
        folder = str(tmp_path / "cache")
        with (
            cluster_of(1) as (_, client),
            iso.cluster.attach(client, cache="100MB", folder=folder),
        ):
            results = iso.cluster.map(digest, items, client=client)
            assert list(results) == expected
            assert results.report.storage_bytes == (0 if round_ else storage.sent_bytes)
    assert storage.sent_bytes == sum(map(len, storage.files.values()))


def test_storage_that_breaks_off(storage: StorageServer, tmp_path: Path) -> None:
    items = workload(storage, 6, 4)
    cuts = random.Random(3)
    storage.fault = lambda *_: cuts.random() < 0.1
    with (
        cluster_of(2) as (_, client),
        iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/cache"),
    ):
        results = iso.cluster.map(digest, items, client=client, keep_going=True)
        found = list(results)
        broken = [one for one in found if isinstance(one, Exception)]
        storage.fault = lambda *_: False
        assert len(broken) < len(items) // 3
        again = list(iso.cluster.map(digest, items, client=client))
        assert again == by_loop(storage, items)
        assert all(one in (two, *broken) for one, two in zip(found, again, strict=True))
    assert not left_behind(tmp_path)
