"""Functions of files on workers with caches, `iso.cluster.map`, with real worker processes and a storage server."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import itertools
import os
import random
import signal as signals
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from isochrony.cluster.connect import workers_of
from storage_server import StorageServer

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")

RANDOM = random.Random(7)


def started(workers: int, **more: Any) -> Any:
    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50, **more}
    return distributed.LocalCluster(n_workers=workers, **options)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with started(3) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def storage() -> Iterator[StorageServer]:
    with StorageServer() as server:
        yield server


def workload(storage: StorageServer, files: int, locality: int, size: int = 200_000) -> list[str]:
    """URLs of files, each as often as the locality says, shuffled."""
    urls = [storage.put(f"f{number}.dat", RANDOM.randbytes(size + number)) for number in range(files)]
    items = urls * locality
    RANDOM.shuffle(items)
    return items


def _fail() -> None:
    raise ImportError("not here")


class Unreadable:
    """Can be pickled, and not be unpickled."""

    def __reduce__(self) -> Any:
        return _fail, ()


def digest(_: object, *paths: Path) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def by_loop(storage: StorageServer, items: list[str]) -> list[list[str]]:
    """What a plain loop gives."""
    return [[hashlib.sha256(storage.files["/" + item.rpartition("/")[2]]).hexdigest()] for item in items]


def compulsory(storage: StorageServer) -> int:
    return sum(len(content) for content in storage.files.values())


def within_quota(attachment: Any) -> bool:
    return all(info["allocated_bytes"] <= info["quota_bytes"] for info in attachment.info().values())


def no_orphans(folder: Path) -> bool:
    """Of scratch only the locks of processes are left, of objects only files that the caches know."""
    left = [path for path in folder.glob("*/scratch/*/*") if path.name != "lock"]
    return not left and not list(folder.glob("**/*.partial"))


@pytest.mark.parametrize("policy", ["good-cache-compute", "max-compute-util", "max-cache-hit", "first-cache-available"])
def test_results_are_those_of_a_loop_and_storage_is_read_once(
    client: Any, storage: StorageServer, tmp_path: Path, policy: str
) -> None:
    items = workload(storage, 12, 10)
    with iso.cluster.attach(client, cache="100MB", policy=policy, folder=f"{tmp_path}/{{worker}}") as attachment:
        results = iso.cluster.map(digest, items, client=client)
        assert list(results) == by_loop(storage, items)
        report = results.report
        assert storage.sent_bytes <= 1.05 * compulsory(storage)
        assert report.storage_bytes == storage.sent_bytes
        assert report.tasks == report.local + report.peer + report.storage == len(items)
        assert report.hit_rate >= 0.95 * (1 - 1 / 10)
        assert attachment.report.tasks == len(items)
        # Another run finds what the first one left.
        again = iso.cluster.map(digest, items, client=attachment)
        assert list(again) == by_loop(storage, items)
        assert again.report.storage == 0 and again.report.storage_bytes == 0
        assert within_quota(attachment)
    assert no_orphans(tmp_path)


def test_first_available_reads_storage_from_each_worker(client: Any, storage: StorageServer, tmp_path: Path) -> None:
    items = workload(storage, 6, 10)
    with iso.cluster.attach(client, cache="100MB", policy="first-available", folder=f"{tmp_path}/{{worker}}"):
        results = iso.cluster.map(digest, items, client=client)
        assert list(results) == by_loop(storage, items)
        assert results.report.peer_bytes == 0


@pytest.mark.alone
def test_workers_of_a_host_share_a_cache(client: Any, storage: StorageServer, tmp_path: Path) -> None:
    items = workload(storage, 8, 8)
    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/host") as attachment:
        results = iso.cluster.map(digest, items, client=client)
        assert list(results) == by_loop(storage, items)
        assert storage.sent_bytes == compulsory(storage)
        assert {info["objects"] for info in attachment.info().values()} == {8}
        assert results.report.peer_bytes == 0


def test_a_cache_smaller_than_the_files_evicts(client: Any, storage: StorageServer, tmp_path: Path) -> None:
    items = workload(storage, 48, 2, 1_500_000)
    for evict in ("lru", "random"):
        folder = f"{tmp_path}/{evict}/{{worker}}"
        with iso.cluster.attach(client, cache="16MiB", evict=evict, folder=folder) as attachment:
            assert list(iso.cluster.map(digest, items, client=client)) == by_loop(storage, items)
            infos = attachment.info().values()
            assert sum(info["evictions"] for info in infos) > 0
            assert within_quota(attachment)
        assert no_orphans(tmp_path / evict)


def test_several_inputs_and_items_without_any(client: Any, storage: StorageServer, tmp_path: Path) -> None:
    urls = list(dict.fromkeys(workload(storage, 6, 1)))
    local = tmp_path / "local.bin"
    local.write_bytes(b"local")
    inputs = [[], [urls[0]], urls, [str(local), urls[1]]]
    expected = [
        [hashlib.sha256(local.read_bytes()).hexdigest()] if one == str(local) else by_loop(storage, [one])[0]
        for one in inputs[3]
    ]
    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}"):
        found = list(iso.cluster.map(digest, range(4), client=client, inputs=inputs))
        assert found[0] == []
        assert found[2] == [one[0] for one in by_loop(storage, urls)]
        assert found[3] == [one[0] for one in expected]
        names = iso.cluster.map(
            lambda _, *paths: [path.name for path in paths], [1], client=client, inputs=lambda _: urls
        )
        assert list(names) == [[url.rpartition("/")[2] for url in urls]]


def test_exceptions_have_the_note_of_their_worker(client: Any, storage: StorageServer, tmp_path: Path) -> None:
    items = workload(storage, 5, 2)

    def picky(item: str, path: Path) -> str:
        if path.name == "f3.dat":
            raise ValueError(f"bad {path.name}")
        return path.name

    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}"):
        with pytest.raises(ValueError, match=r"bad f3\.dat") as caught:
            list(iso.cluster.map(picky, items, client=client))
        assert any(note.startswith("raised on") for note in caught.value.__notes__)
        results = iso.cluster.map(picky, items, client=client, keep_going=True)
        found = [str(one) if isinstance(one, ValueError) else one for one in results]
        names = [item.rpartition("/")[2] for item in items]
        assert found == ["bad f3.dat" if name == "f3.dat" else name for name in names]
        assert results.report.failed == 2
        gone = storage.url("gone.dat")
        results = iso.cluster.map(picky, [items[0], gone], client=client, keep_going=True)
        _, second = list(results)
        assert isinstance(second, FileNotFoundError) and "gone.dat" in str(second)


def test_outputs_are_stored_cached_and_found(
    client: Any, storage: StorageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = sorted(set(workload(storage, 6, 1)))

    def reverse(_: str, source: Path, target: Path) -> int:
        return target.write_bytes(source.read_bytes()[::-1])

    folder = tmp_path / "results"

    def where(item: str) -> list[str]:
        name = item.rpartition("/")[2]
        return [str(folder / name) if name in ("f0.dat", "f1.dat") else storage.url(f"out/{name}")]

    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}"):
        results = iso.cluster.map(reverse, items, client=client, outputs=where)
        contents = [storage.files["/" + item.rpartition("/")[2]] for item in items]
        assert list(results) == [len(content) for content in contents]
        assert sorted(path.name for path in folder.iterdir()) == ["f0.dat", "f1.dat"]
        sent = storage.sent_bytes
        written = [where(item)[0] for item in items]
        expected = [[hashlib.sha256(content[::-1]).hexdigest()] for content in contents]
        again = iso.cluster.map(digest, written, client=client)
        assert list(again) == expected
        assert again.report.storage == 0 and storage.sent_bytes == sent, "they are in the caches of their hosts"
        assert [key.url for one in range(6) for key, _ in results.written[one]] == written
        assert all(blake is not None for one in range(6) for _, blake in results.written[one])
        monkeypatch.chdir(tmp_path)
        relative = iso.cluster.map(reverse, items[:1], client=client, outputs=lambda _: ["relative/out.dat"])
        assert len(list(relative)) == 1
        assert (tmp_path / "relative" / "out.dat").is_file(), "relative to the caller's folder, not to a worker's"
        with pytest.raises(iso.RunError, match="wrote no file for its output"):
            list(iso.cluster.map(lambda *_: None, items[:1], client=client, outputs=where))


def test_a_function_that_exits_or_returns_what_cannot_be_read_fails_alone(client: Any, tmp_path: Path) -> None:
    def odd(item: int) -> Any:
        if item == 1:
            sys.exit("enough")
        return Unreadable() if item == 2 else item

    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}"):
        results = iso.cluster.map(odd, range(4), client=client, inputs=lambda _: [], keep_going=True)
        first, exited, unreadable, last = list(results)
        assert (first, last) == (0, 3)
        assert isinstance(exited, SystemExit | iso.RunError) and "enough" in str(exited)
        assert isinstance(unreadable, iso.RunError), unreadable
        assert "item 2 ('2') returned cannot be read here (ImportError: not here)" in str(unreadable)
        assert results.report.failed == 2


def test_attachments_that_follow_each_other_leave_nothing_in_use(
    client: Any, storage: StorageServer, tmp_path: Path
) -> None:
    items = workload(storage, 4, 2)
    for _ in range(3):
        with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}") as attachment:
            assert list(iso.cluster.map(digest, items, client=client)) == by_loop(storage, items)
            assert {info["pinned_objects"] for info in attachment.info().values()} == {0}


def test_forms_are_unpacked_once(client: Any, storage: StorageServer, tmp_path: Path) -> None:
    plain = [RANDOM.randbytes(100_000) * 3 for _ in range(5)]
    urls = [storage.put(f"p{number}.dat.gz", gzip.compress(one)) for number, one in enumerate(plain)]
    items = [(number, urls[number]) for number in range(5)] * 8
    RANDOM.shuffle(items)
    expected = [[hashlib.sha256(plain[number]).hexdigest()] for number, _ in items]
    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}"):
        results = iso.cluster.map(
            digest, items, client=client, inputs=lambda item: item[1], cache_form=iso.cluster.unpack
        )
        assert list(results) == expected
        assert storage.sent_bytes <= 1.05 * compulsory(storage)
        names = iso.cluster.map(lambda _, path: path.name, urls[:1], client=client, cache_form=iso.cluster.unpack)
        assert list(names) == ["p0.dat"]


def test_programs_run_unmodified_in_a_scratch_folder(client: Any, storage: StorageServer, tmp_path: Path) -> None:
    items = workload(storage, 4, 2)
    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}"):
        counts = iso.cluster.map(iso.cluster.Executable(["wc", "-c", "{}"]), items, client=client)
        sizes = [len(storage.files["/" + item.rpartition("/")[2]]) for item in items]
        assert [int(one.split()[0]) for one in counts] == sizes
        out = tmp_path / "out"
        copied = iso.cluster.map(
            iso.cluster.Executable(["sh", "-c", 'touch left; cp "$1" "$2"', "sh", "{0}", "{out}"]),
            items[:3],
            client=client,
            outputs=lambda item: [str(out / item.rpartition("/")[2])],
        )
        assert list(copied) == [""] * 3
        for item in items[:3]:
            name = item.rpartition("/")[2]
            assert (out / name).read_bytes() == storage.files[f"/{name}"]
        with pytest.raises(iso.RunError, match=r"'sh' ended with status 3 for .*f\d\.dat': no luck"):
            failing = iso.cluster.Executable(["sh", "-c", "echo no luck >&2; exit 3"])
            list(iso.cluster.map(failing, items[:1], client=client))
        with pytest.raises(iso.RunError, match="'no-such-program' is not installed on this host"):
            list(iso.cluster.map(iso.cluster.Executable(["no-such-program"]), items[:1], client=client))
    assert no_orphans(tmp_path)


def test_many_short_tasks_come_in_order(client: Any, tmp_path: Path) -> None:
    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}"):
        results = iso.cluster.map(lambda item: item * 2, iter(range(5_000)), client=client, inputs=lambda _: [])
        assert list(results) == [2 * one for one in range(5_000)]
        taken = iso.cluster.map(lambda item: item, iter(int, 1), client=client, inputs=lambda _: [], window=64)
        assert [next(taken) for _ in range(500)] == [0] * 500
        assert taken.report.tasks <= 500 + 64
        taken.close()


def test_wrong_uses_are_refused(client: Any, storage: StorageServer, tmp_path: Path) -> None:
    with pytest.raises(iso.OptionError, match="has no caches of this process; call"):
        iso.cluster.map(digest, [], client=client)
    for options, message in {
        "policy": "policy='best' is refused; give 'good-cache-compute' or",
        "evict": "evict='best' is refused",
        "cache": "cache='best' is refused",
        "sends": "sends='best'",
        "timeout": "timeout='best' is refused; give seconds",
    }.items():
        with pytest.raises(iso.OptionError, match=message):
            iso.cluster.attach(client, **{options: "best"})
    with pytest.raises(iso.OptionError, match="folder='' is refused"):
        iso.cluster.attach(client, folder="")
    (tmp_path / "file").touch()
    with pytest.raises(iso.RunError, match="a worker cannot open its cache"):
        iso.cluster.attach(client, folder=f"{tmp_path}/file/{{worker}}")
    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}") as attachment:
        with pytest.raises(iso.OptionError, match="the item 3 is not a URL or path; say by inputs="):
            list(iso.cluster.map(digest, [3], client=client))
        with pytest.raises(iso.OptionError, match="fewer lists than there are items"):
            list(iso.cluster.map(digest, [3], client=client, inputs=[]))
        with pytest.raises(iso.OptionError, match="which is not a URL or path; give texts"):
            list(iso.cluster.map(digest, [3], client=client, inputs=lambda _: [4]))
        with pytest.raises(iso.OptionError, match="window=0"):
            iso.cluster.map(digest, [], client=client, window=0)
        assert list(iso.cluster.map(digest, [], client=client)) == []
    with pytest.raises(iso.RunError, match="the attachment was closed"):
        iso.cluster.map(digest, [], client=attachment)


def test_transfers_are_encrypted_where_dask_is(storage: StorageServer, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="makes certificates")
    security = distributed.Security.temporary()
    items = workload(storage, 4, 6, 1_500_000)
    with (
        started(2, protocol="tls", security=security) as cluster,
        distributed.Client(cluster, security=security) as client,
        # So that both workers read all.
        iso.cluster.attach(
            client, cache="100MB", policy="first-cache-available", folder=f"{tmp_path}/{{worker}}"
        ) as attachment,
    ):
        results = iso.cluster.map(digest, items, client=client)
        assert list(results) == by_loop(storage, items)
        assert results.report.peer_bytes > 0
        assert storage.sent_bytes == compulsory(storage)
        # Without encryption nobody answers.
        port = next(iter(client.run(peer_port, attachment._name).values()))
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.settimeout(2)
            connection.sendall(bytes(64))
            with contextlib.suppress(ConnectionError):
                assert connection.recv(16)[:1] in (b"", b"\x15"), "an alert of TLS, and no nonce"


def peer_port(attachment: str) -> int:
    from isochrony.cluster.cache_plugin import host_cache

    return host_cache(attachment).server.address[1]


def test_ctrl_c_ends_a_run_at_once(client: Any, tmp_path: Path) -> None:
    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}"):
        threading.Timer(0.5, os.kill, (os.getpid(), signals.SIGINT)).start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            list(iso.cluster.map(lambda _: time.sleep(3), range(4), client=client, inputs=lambda _: []))
        assert time.monotonic() - begun < 2.9


def test_the_dashboard_shows_hits(client: Any, storage: StorageServer, tmp_path: Path) -> None:
    items = workload(storage, 4, 5)
    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}"):
        list(iso.cluster.map(digest, items, client=client))
        until = time.monotonic() + 10
        while time.monotonic() < until:
            metrics = [one["metrics"] for one in workers_of(client).values()]
            if sum(one.get("bytes_from_storage", 0) for one in metrics) == storage.sent_bytes:
                break
            time.sleep(0.2)
        else:
            pytest.fail(f"metrics show no bytes: {metrics}")
        assert all({"cache_hit_rate", "tasks_waiting"} <= one.keys() for one in metrics)


def test_files_are_fetched_while_functions_compute(client: Any, storage: StorageServer, tmp_path: Path) -> None:
    """Of two tasks in a row on one worker, the file of the second begins to come before the first one has ended."""
    items = workload(storage, 24, 1, 100_000)
    begun: dict[str, float] = {}

    def note(path: str, _: int) -> bool:
        begun.setdefault(path, time.time())
        return False

    storage.fault = note

    def slow(_: str, path: Path) -> tuple[int, float, float, str]:
        start = time.time()
        time.sleep(0.1)
        return os.getpid(), start, time.time(), path.name

    with iso.cluster.attach(client, cache="100MB", folder=f"{tmp_path}/{{worker}}") as attachment:
        done = sorted(iso.cluster.map(slow, items, client=client))
        pairs = [(one, two) for one, two in itertools.pairwise(done) if one[0] == two[0]]
        ahead = [begun[f"/{two[3]}"] < one[2] for one, two in pairs]
        assert len(ahead) >= 21 and sum(ahead) > len(ahead) / 2
        assert all(info["pinned_objects"] == 0 for info in attachment.info().values())
