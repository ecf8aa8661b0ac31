"""Caches of hosts: the order local, peer, storage; transfers between them; what goes wrong with those."""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faulty_link import FaultyLink
from isochrony.cluster.host_cache import HostCache
from isochrony.cluster.input_files import CacheSettings, InputFile, LocalFile
from isochrony.cluster.peers import PeerClient, PeerError
from isochrony.cluster.prefetch import IS_LOCAL, IS_REMOTE, FetchedFiles, Prefetch
from isochrony.cluster.storage import FileKey, storage_of
from isochrony.errors.native import StorageChangedError, StorageNotFoundError
from storage_server import StorageServer
from worker_processes import until

TOKEN = secrets.token_bytes(32)
CONTENT = secrets.token_bytes((9 << 20) + 12_345)


@pytest.fixture
def storage() -> Iterator[StorageServer]:
    with StorageServer() as server:
        yield server


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Callable[..., HostCache]]:
    with contextlib.ExitStack() as stack:

        def make(name: str, token: bytes = TOKEN, quota: int = 64 << 20, **more: Any) -> HostCache:
            settings = CacheSettings(token, None, quota, timeout=more.pop("timeout", 2.0), **more)
            cache = HostCache(settings, tmp_path / name, "127.0.0.1")
            stack.callback(cache.close)
            return cache

        yield make


def content_of(cache: HostCache, wanted: InputFile) -> tuple[bytes, str]:
    with contextlib.closing(cache.obtain(wanted)) as file:
        return file.path.read_bytes(), file.origin


def wanted_of(storage: StorageServer, name: str = "a.dat", content: bytes = CONTENT) -> InputFile:
    return InputFile(storage_of("http://").stat(storage.put(name, content)))


def orphans(folder: Path) -> list[Path]:
    """Files of scratch that nobody removed, but for the locks of processes that live."""
    return [path for path in (folder / "scratch").rglob("*") if path.is_file() and path.name != "lock"]


def test_a_file_is_fetched_from_storage_then_peers_then_found(storage: StorageServer, hosts: Any) -> None:
    a, b = hosts("a"), hosts("b")
    wanted = wanted_of(storage)
    assert content_of(a, wanted) == (CONTENT, "storage")
    assert content_of(a, wanted) == (CONTENT, "local")
    assert content_of(b, wanted.at((a.server.address,), None)) == (CONTENT, "peer")
    assert content_of(b, wanted) == (CONTENT, "local")
    assert storage.sent_bytes == len(CONTENT)
    # The server counts a block once it has sent it: the receiver may have it all a moment before.
    until(lambda: a.server.sent_bytes == len(CONTENT))
    assert a.server.sent_bytes == b.bytes["peer"] == len(CONTENT)
    assert dict(b.files) == {"peer": 1, "local": 1}
    assert b.bytes["storage"] == 0


def test_who_was_sent_first_fetches_for_the_others(storage: StorageServer, hosts: Any) -> None:
    """A task whose object another host is about to fetch waits for that host, which begins at once."""
    a, b = hosts("a"), hosts("b")
    wanted = wanted_of(storage)
    assert content_of(b, wanted.at((), a.server.address)) == (CONTENT, "peer")
    assert storage.sent_bytes == len(CONTENT)
    assert content_of(a, wanted) == (CONTENT, "local")


def test_threads_and_processes_of_a_host_fetch_once(storage: StorageServer, hosts: Any) -> None:
    """Two caches of one folder, as two processes have them, four threads each."""
    storage.rate = 40e6
    caches = [hosts("shared"), hosts("shared")]
    wanted = wanted_of(storage)
    found: list[bytes] = []

    def read(cache: HostCache) -> None:
        found.append(content_of(cache, wanted)[0])

    threads = [threading.Thread(target=read, args=(cache,)) for cache in caches for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CONTENT] * 8
    assert storage.sent_bytes == len(CONTENT)


@pytest.mark.parametrize("after", [0, 17, 60, 5 << 20, 8 << 20])
@pytest.mark.parametrize("fault", ["flip", "cut", "stall"])
def test_a_faulty_link_costs_a_transfer_and_no_bytes(
    storage: StorageServer, hosts: Any, fault: str, after: int
) -> None:
    a, b = hosts("a"), hosts("b", timeout=0.3)
    wanted = wanted_of(storage)
    content_of(a, wanted)
    with FaultyLink(a.server.address, fault, after) as link:
        start = time.monotonic()
        content, _ = content_of(b, wanted.at((link.address,), None))
        assert content == CONTENT
        assert time.monotonic() - start < 3
        # Blocks that arrived whole are not fetched again.
        whole = max(after - 100, 0) // (4 << 20) * (4 << 20)
        assert b.bytes["peer"] == whole
        assert storage.sent_bytes == 2 * len(CONTENT) - whole
        # The link rests, then it is tried again.
        assert b.peers.failures == 1
        assert b.peers.is_resting(link.address)
        tried = link.connections
        other = wanted_of(storage, "b.dat", b"other")
        assert content_of(b, other.at((link.address,), None)) == (b"other", "storage")
        assert link.connections == tried


def test_a_stale_index_entry_costs_one_attempt(storage: StorageServer, hosts: Any) -> None:
    a, b, c = hosts("a"), hosts("b"), hosts("c")
    wanted = wanted_of(storage)
    content_of(c, wanted)
    with FaultyLink(a.server.address, "none", 0) as link:
        assert content_of(b, wanted.at((link.address, c.server.address), None)) == (CONTENT, "peer")
        assert link.connections == 1
        assert not b.peers.is_resting(link.address), "it is well, and has other objects"
    assert a.info()["objects"] == 0, "being asked for it does not create it"
    assert storage.sent_bytes == len(CONTENT)


def test_a_wrong_token_is_refused(storage: StorageServer, hosts: Any) -> None:
    a, b = hosts("a"), hosts("b", token=secrets.token_bytes(32))
    wanted = wanted_of(storage)
    content_of(a, wanted)
    assert content_of(b, wanted.at((a.server.address,), None)) == (CONTENT, "storage")
    assert a.server.refused == 1 and a.server.sent_bytes == 0
    client = PeerClient(b"x" * 32, 1, 1, 1.0)
    with (
        pytest.raises(PeerError, match="refused the token of this cluster"),
        client.transfer(a.server.address, {}, False),
    ):
        pass


def test_requests_that_make_no_sense_are_refused(storage: StorageServer, hosts: Any, tmp_path: Path) -> None:
    """Paths that leave the cache, other types, ranges beyond the end, lengths without end: nothing is sent."""
    a = hosts("a")
    content_of(a, wanted_of(storage))
    secret = tmp_path / "secret"
    secret.write_bytes(b"not for you")
    client = PeerClient(TOKEN, 1, 1, 1.0)
    for url in ("../../secret", str(secret), f"file://{secret}", "../" * 8 + "etc/passwd", "\0"):
        key = {"url": url, "etag": None, "modified_ns": 0, "bytes": 11, "form": None}
        with pytest.raises(PeerError), client.transfer(a.server.address, key, False):
            pass
    for key in ({}, {"url": 3, "etag": None, "modified_ns": 0, "bytes": 1, "form": None}, {"url": "x"}):
        client = PeerClient(TOKEN, 1, 1, 1.0)
        with pytest.raises(PeerError), client.transfer(a.server.address, key, False):
            pass
    wanted = wanted_of(storage)
    with (
        pytest.raises(PeerError),
        PeerClient(TOKEN, 1, 1, 1.0).transfer(a.server.address, wanted.request(), False) as transfer,
    ):
        transfer.read(0, len(CONTENT) + 1, bytearray(4 << 20), 1 << 20, lambda *_: None)
    with socket.create_connection(a.server.address) as connection:
        connection.sendall(os.urandom(500))
        connection.settimeout(3)
        with contextlib.suppress(ConnectionError):
            while connection.recv(100):
                pass
    assert a.server.sent_bytes == 0


def test_transfers_of_a_source_are_limited(storage: StorageServer, hosts: Any) -> None:
    """A sender without a free slot says so, and storage is read instead."""
    a, b = hosts("a", sends=1), hosts("b")
    wanted = wanted_of(storage)
    content_of(a, wanted)
    client = PeerClient(TOKEN, 8, 2, 5.0)
    with client.transfer(a.server.address, wanted.request(), False):
        assert content_of(b, wanted.at((a.server.address,), None)) == (CONTENT, "storage")
    assert not b.peers.is_resting(a.server.address)
    other = wanted_of(storage, "b.dat", b"small")
    content_of(a, other)
    assert content_of(b, other.at((a.server.address,), None)) == (b"small", "peer")
    most, now = 0, 0
    lock = threading.Lock()

    def transfer() -> None:
        nonlocal most, now
        with client.transfer(c.server.address, other.request(), False):
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.05)
            with lock:
                now -= 1

    c = hosts("c")
    content_of(c, other)
    threads = [threading.Thread(target=transfer) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_what_does_not_fit_is_read_past_the_cache(storage: StorageServer, hosts: Any, tmp_path: Path) -> None:
    small = hosts("small", quota=6 << 20)
    assert content_of(small, wanted_of(storage)) == (CONTENT, "storage")
    assert small.info()["allocated_bytes"] <= 6 << 20
    assert not orphans(tmp_path / "small")
    files = [wanted_of(storage, f"{n}", CONTENT[n : n + (4 << 20)]) for n in range(6)]
    pinned = [small.obtain(one) for one in files]
    for number, file in enumerate(pinned):
        assert file.path.read_bytes() == CONTENT[number : number + (4 << 20)]
        file.close()
    assert small.info()["allocated_bytes"] <= 6 << 20
    assert not orphans(tmp_path / "small")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
def test_a_full_disk_is_read_past(storage: StorageServer, hosts: Any, tmp_path: Path) -> None:
    import subprocess

    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this machine mounts no tmpfs")
    try:
        cache = HostCache(CacheSettings(TOKEN, None, 1 << 30), disk / "c", "127.0.0.1")
        with contextlib.closing(cache):
            filler = disk / "filler"
            filler.write_bytes(bytes(12 << 20))
            first = wanted_of(storage, "first", CONTENT[: 8 << 20])
            second = wanted_of(storage, "second", CONTENT[1 : 8 << 20])
            kept = cache.obtain(first)
            # Nothing can be evicted, and scratch has no room either.
            with pytest.raises(OSError, match=r"No space|full") as caught:
                cache.obtain(second)
            assert not isinstance(caught.value, StorageNotFoundError)
            assert not orphans(disk / "c")
            kept.close()
            assert content_of(cache, second) == (CONTENT[1 : 8 << 20], "storage")
            assert not orphans(disk / "c")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_version_that_changed_is_refused(storage: StorageServer, hosts: Any, tmp_path: Path) -> None:
    a = hosts("a")
    wanted = wanted_of(storage)
    storage.put("a.dat", CONTENT[::-1])
    with pytest.raises(StorageChangedError, match=r"a\.dat changed while it was read \(was: ETag .*; is: ETag"):
        a.obtain(wanted)
    path = tmp_path / "local.dat"
    path.write_bytes(b"before")
    key = storage_of("").stat(str(path))
    os.utime(path, ns=(1, 1))
    with pytest.raises(StorageChangedError, match=r"local\.dat changed while it was read"):
        a.obtain(InputFile(key))
    with pytest.raises(StorageNotFoundError, match="has no such file"):
        a.obtain(InputFile(FileKey(storage.url("none"), '"x"', 0, 3)))


def test_scratch_of_a_process_that_was_killed_is_removed(hosts: Any, tmp_path: Path) -> None:
    hosts("a").close()
    left = tmp_path / "a" / "scratch" / "0123"
    (left / "0").mkdir(parents=True)
    (left / "lock").touch()
    (left / "0" / "part").write_bytes(b"x")
    living = hosts("a")
    with living.scratch.folder() as folder:
        (folder / "mine").touch()
        hosts("a")
        assert not left.exists()
        assert (folder / "mine").exists()


def test_a_lease_of_a_shard_creates_nothing(hosts: Any) -> None:
    cache = hosts("a")
    key = {"shard": ("09" * 16, 1, 0, 1), "bytes": 1 << 20, "ranges": [(0, 10)], "address": ("127.0.0.1", 9)}
    assert cache.shards.lease(key) is None
    assert cache.info()["objects"] == 0


def test_a_damaged_cache_starts_empty_for_a_worker(storage: StorageServer, hosts: Any, tmp_path: Path) -> None:
    cache = hosts("a")
    wanted = wanted_of(storage)
    assert content_of(cache, wanted) == (CONTENT, "storage")
    cache.close()
    (tmp_path / "a" / "journal").write_bytes(b"damage")
    again = hosts("a")
    assert again.info()["objects"] == 0
    assert content_of(again, wanted) == (CONTENT, "storage")


def test_forms_are_made_once_and_passed_on(storage: StorageServer, hosts: Any) -> None:
    import gzip

    made = []

    def unpack(source: Path, target: Path) -> None:
        made.append(source.name)
        target.write_bytes(gzip.decompress(source.read_bytes()))

    a, b = hosts("a"), hosts("b")
    packed = gzip.compress(CONTENT[: 3 << 20])
    key = wanted_of(storage, "a.gz", packed).key
    for cache in (a, b):
        cache.forms["gz"] = unpack
    wanted = InputFile(key, "gz")
    assert content_of(a, wanted) == (CONTENT[: 3 << 20], "storage")
    assert content_of(a, wanted) == (CONTENT[: 3 << 20], "local")
    assert content_of(b, wanted.at((a.server.address,), None)) == (CONTENT[: 3 << 20], "peer")
    assert made == ["a.gz"]
    assert storage.sent_bytes == len(packed)
    assert a.holds(wanted.name) and not a.holds(InputFile(key).name)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3)), max_size=30), st.integers(0, 6))
def test_reports_tell_what_a_cache_holds(steps: list[tuple[int, int]], skip: int) -> None:
    """Applied in order they give what the cache has; the model is the cache's own list of files on disk."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        cache = HostCache(CacheSettings(TOKEN, None, 1 << 20, piece=4096), root / "c", "127.0.0.1")
        with contextlib.closing(cache):
            held: dict[str, int] = {}
            number: int | None = None
            for step, (which, pages) in enumerate(steps):
                path = root / f"{which}-{pages}"
                if not path.exists():
                    path.write_bytes(bytes([which]) * (pages * 100_000))
                content_of(cache, InputFile(storage_of("").stat(str(path))))
                if step % (skip + 1):
                    continue
                number, is_all, changes = cache.report(number)
                if is_all:
                    held.clear()
                for added, removed in changes:
                    held.update(added)
                    for name in removed:
                        held.pop(name)
                assert sum(held.values()) == cache.info()["present_bytes"]
                assert len(held) == cache.info()["objects"]


def test_what_was_fetched_ahead_is_taken_or_let_go(storage: StorageServer, hosts: Any) -> None:
    a = hosts("a", quota=256 << 20)
    wanted, gone = wanted_of(storage), InputFile(FileKey(storage.url("gone"), '"x"', 0, 3))
    batch = IS_REMOTE + pickle.dumps(([(0, None, [wanted], None), (1, None, [gone], None)], False, 0))
    prefetch = Prefetch(a)
    begun = prefetch.begin(batch)
    assert begun is not None
    files, error = taken(begun), begun.take()
    assert begun.take() is None, "there are no more"
    prefetch.end(begun)
    (file,) = files
    assert file.path.read_bytes() == CONTENT
    assert isinstance(error, StorageNotFoundError)
    file.close()
    assert prefetch.begin(IS_LOCAL + batch[1:]) is None
    assert a.info()["pinned_objects"] == 0
    begun = prefetch.begin(batch)
    until = time.monotonic() + 5
    # The file that is not there is pinned, too, while storage is asked for it.
    while not a.info()["pinned_objects"] and time.monotonic() < until:
        time.sleep(0.01)
    assert a.info()["pinned_objects"] > 0
    prefetch.stop()
    while a.info()["pinned_objects"] and time.monotonic() < until:
        time.sleep(0.01)
    assert a.info()["pinned_objects"] == 0
    assert begun is not None and begun.take() is None, "it was let go"
    assert prefetch.begin(batch) is None


def taken(fetched: FetchedFiles) -> list[LocalFile]:
    until = time.monotonic() + 10
    while not fetched._is_begun and time.monotonic() < until:
        time.sleep(0.01)
    files = fetched.take()
    assert isinstance(files, list)
    return files


def test_a_task_does_not_wait_for_the_files_of_later_tasks(storage: StorageServer, hosts: Any) -> None:
    a = hosts("a", quota=256 << 20)
    first = InputFile(storage_of("http://").stat(storage.put("first.dat", b"first")))
    second = InputFile(storage_of("http://").stat(storage.put("second.dat", b"second")))
    batch = IS_REMOTE + pickle.dumps(([(0, None, [first], None), (1, None, [second], None)], False, 0))
    may_come = threading.Event()

    def held(path: str, _: int) -> bool:
        assert path != "/second.dat" or may_come.wait(30)
        return False

    storage.fault = held
    prefetch = Prefetch(a)
    begun = prefetch.begin(batch)
    assert begun is not None
    until = time.monotonic() + 10
    while a.info()["pinned_objects"] < 2 and time.monotonic() < until:
        time.sleep(0.01)
    (file,) = taken(begun)
    assert file.path.read_bytes() == b"first" and not may_come.is_set()
    may_come.set()
    (other,) = taken(begun)
    assert other.path.read_bytes() == b"second"
    for one in (file, other):
        one.close()
    prefetch.stop()


def test_a_batch_whose_turn_comes_before_its_files_are_asked_for_fetches_them_itself(
    storage: StorageServer, hosts: Any
) -> None:
    a = hosts("a", quota=256 << 20)
    wanted = wanted_of(storage)
    batch = IS_REMOTE + pickle.dumps(([(0, None, [wanted], None)], False, 0))
    may_come = threading.Event()
    storage.fault = lambda *_: not may_come.wait(30)
    prefetch = Prefetch(a)
    # The only thread is busy with the first one.
    first, second = prefetch.begin(batch), prefetch.begin(batch)
    assert first is not None and second is not None
    while not first._is_begun:
        time.sleep(0.01)
    assert second.take() is None
    may_come.set()
    (file,) = taken(first)
    assert file.path.read_bytes() == CONTENT
    file.close()
    prefetch.stop()
    until = time.monotonic() + 10
    while a.info()["pinned_objects"] and time.monotonic() < until:
        time.sleep(0.01)
    assert a.info()["pinned_objects"] == 0
