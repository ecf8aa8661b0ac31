"""Storage of files: versions, ranges, writes, and what goes wrong with them."""

from __future__ import annotations

import re
import secrets
import threading
from pathlib import Path

import pytest

from isochrony.cluster.storage import absolute_url, copy_to, read_fully, storage_of
from isochrony.errors.native import OptionError, StorageError, StorageNotFoundError
from storage_server import StorageServer

CONTENT = secrets.token_bytes(1_000_003)


def read(url: str, start: int, stop: int) -> bytes:
    storage = storage_of(url)
    stream = storage.open(storage.stat(url), start, stop)
    buffer = bytearray(stop - start + 10)
    length = read_fully(stream, memoryview(buffer))
    stream.close()
    return bytes(buffer[:length])


@pytest.mark.parametrize("place", ["path", "file", "http"])
def test_ranges_of_all_storages(place: str, tmp_path: Path) -> None:
    with StorageServer() as server:
        path = tmp_path / "a b.dat"
        path.write_bytes(CONTENT)
        urls = {"path": str(path), "file": path.as_uri(), "http": server.put("a.dat", CONTENT)}
        url = urls[place]
        for start, stop in ((0, len(CONTENT)), (0, 1), (999_999, len(CONTENT)), (5, 5), (70_000, 200_001)):
            assert read(url, start, stop) == CONTENT[start:stop]
        copy_to(storage_of(url).stat(url), tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == CONTENT


@pytest.mark.parametrize("place", ["path", "http"])
def test_writes_are_whole(place: str, tmp_path: Path) -> None:
    with StorageServer() as server:
        source = tmp_path / "source"
        source.write_bytes(CONTENT)
        url = str(tmp_path / "new" / "out.dat") if place == "path" else server.url("out.dat")
        key = storage_of(url).write(url, source)
        assert key == storage_of(url).stat(url)
        assert read(url, 0, len(CONTENT)) == CONTENT
        if place == "path":
            assert [one.name for one in (tmp_path / "new").iterdir()] == ["out.dat"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").touch()
    source = tmp_path / "source"
    source.write_bytes(b"x")
    with pytest.raises(StorageError, match="folder"):
        storage_of("").write(str(tmp_path / "folder"), source)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["folder", "source"]


def test_a_server_that_fails_for_a_moment_is_asked_again() -> None:
    with StorageServer() as server:
        url = server.put("a.dat", CONTENT)
        storage = storage_of(url)
        key = storage.stat(url)
        cuts = iter([True, True])
        server.fault = lambda _, offset: offset == 0 and next(cuts, False)
        # Headers came, the body did not: who reads begins again.
        for _ in range(2):
            with pytest.raises(StorageError):
                stream = storage.open(key, 0, len(CONTENT))
                if read_fully(stream, memoryview(bytearray(len(CONTENT)))) < len(CONTENT):
                    raise StorageError("short")
        stream = storage.open(key, 0, len(CONTENT))
        buffer = bytearray(len(CONTENT))
        assert read_fully(stream, memoryview(buffer)) == len(CONTENT)
        assert buffer == CONTENT


def test_connections_are_used_again_and_not_mixed_up() -> None:
    """A stream that is closed early leaves nothing for the next one."""
    with StorageServer() as server:
        urls = [server.put(f"{n}", CONTENT[n:]) for n in range(8)]

        def work(n: int) -> None:
            storage = storage_of(urls[n])
            key = storage.stat(urls[n])
            early = storage.open(key, 0, key.bytes)
            early.readinto(bytearray(10))
            early.close()
            results[n] = read(urls[n], 100, 2_000) == CONTENT[n + 100 : n + 2_000]

        results = [False] * 8
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(results)


def test_errors_say_what_and_how_to_mend_it(tmp_path: Path) -> None:
    with pytest.raises(StorageNotFoundError, match="see that the path exists"):
        storage_of("").stat(str(tmp_path / "none"))
    with pytest.raises(StorageError, match="is not a regular file; give the path of a file"):
        storage_of("").stat(str(tmp_path))
    with pytest.raises(OptionError, match=re.escape("'ftp://x/y': no storage has the scheme ftp://; give a path, or")):
        storage_of("ftp://x/y")
    with pytest.raises(OptionError, match="names the host 'other'; write file:///PATH"):
        storage_of("file://").stat("file://other/x")
    with StorageServer() as server, pytest.raises(StorageNotFoundError, match=r"no such file \(404\); check the URL"):
        storage_of("http://").stat(server.url("none"))
    port = 1
    with pytest.raises(StorageError, match=r"HEAD http://127\.0\.0\.1:1/x failed .*see that the server runs"):
        storage_of("http://").stat(f"http://127.0.0.1:{port}/x")
    assert Path(storage_of("").stat(__file__).url).is_absolute()


def test_a_file_whose_version_is_not_known_is_refused() -> None:
    with StorageServer() as server:
        server.tags = False
        with pytest.raises(StorageError, match=r"a\.dat: the server gives neither ETag nor Last-Modified"):
            storage_of("http://").stat(server.put("a.dat", CONTENT))


def test_paths_are_made_absolute_and_urls_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_url("out/a.dat") == str(tmp_path / "out" / "a.dat")
    for url in ("http://host/out/a.dat", "file:///out/a.dat", "/out/a.dat"):
        assert absolute_url(url) == url
