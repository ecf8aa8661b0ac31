"""Files in object storage for functions on a cluster, by a server that this test starts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from isochrony.cli import main
from isochrony.cluster.storage import copy_to, read_fully, storage_of
from isochrony.errors.native import OptionError, StorageChangedError, StorageError, StorageNotFoundError
from object_server import BUCKET, KEY, SECRET, Line, line_to, serve

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="starts a server")

#: More than one part of an upload, and of a read.
LARGE = 37 << 20


@dataclass
class Cloud:
    """A bucket as a folder, and the line to its server."""

    bucket: Path
    line: Line

    def put(self, name: str, content: bytes) -> str:
        path = self.bucket / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return f"s3://{BUCKET}/{name}"

    def count(self, method: str) -> Counter[str]:
        """Requests of objects."""
        words = [request.split() for request in self.line.requests]
        return Counter(path.partition("?")[0] for kind, path, _ in words if kind == method)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    bucket = tmp_path_factory.mktemp("cloud") / BUCKET
    bucket.mkdir()
    with pytest.MonkeyPatch.context() as patch, serve(bucket.parent) as port, line_to(port) as line:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{line.port}")
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_REGION", "us-east-1")
        yield Cloud(bucket, line)


@pytest.fixture(autouse=True)
def requests(cloud: Cloud) -> Iterator[None]:
    cloud.line.requests.clear()
    yield
    cloud.line.refused = cloud.line.cut = 0


@pytest.fixture(scope="module")
def client(cloud: Cloud) -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def digest(_: str, path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_ranges_are_those_of_the_file(cloud: Cloud, tmp_path: Path) -> None:
    content = random.Random(3).randbytes(LARGE)
    url = cloud.put("a/large.dat", content)
    storage = storage_of(url)
    key = storage.stat(url)
    assert (key.url, key.bytes) == (url, LARGE) and key.etag
    for start, stop in ((0, LARGE), (5, 6), (1 << 20, (4 << 20) + 7), (LARGE - 3, LARGE), (9, 9)):
        with contextlib.closing(storage.open(key, start, stop)) as stream:
            buffer = bytearray(stop - start + 5)
            assert read_fully(stream, memoryview(buffer)) == stop - start
            assert buffer[: stop - start] == content[start:stop]
    cloud.line.cut, cloud.line.cut_path = 2, "large.dat"
    copy_to(key, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content
    cloud.put("a/large.dat", content[::-1])
    with pytest.raises(StorageChangedError, match=r"large\.dat changed while it was read; run again"):
        copy_to(key, tmp_path / "copy")


@pytest.mark.parametrize("size", [0, 1000, LARGE])
def test_a_file_is_put_once_and_its_answer_is_its_version(cloud: Cloud, tmp_path: Path, size: int) -> None:
    content = random.Random(size).randbytes(size)
    (tmp_path / "made").write_bytes(content)
    url = f"s3://{BUCKET}/out/{size} bytes.dat"
    cloud.line.refused = 1
    key = storage_of(url).write(url, tmp_path / "made")
    assert (cloud.bucket / "out" / f"{size} bytes.dat").read_bytes() == content
    assert not cloud.count("HEAD"), "the version is that of the answer"
    assert key == storage_of(url).stat(url)
    copy_to(key, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content


def test_errors_say_what_to_do_and_tell_no_secret(cloud: Cloud, tmp_path: Path, monkeypatch: Any) -> None:
    url = f"s3://{BUCKET}/none.dat"
    storage = storage_of(url)
    with pytest.raises(StorageNotFoundError, match=r"s3://recordings/none\.dat: no such object; check the URL"):
        storage.stat(url)
    for refused in ("s3://me:hidden@recordings/a", "s3://recordings/a?sig=hidden"):
        with pytest.raises(OptionError, match="URLs hold no secrets") as raised:
            storage.stat(refused)
        assert "hidden" not in str(raised.value)
    with pytest.raises(OptionError, match="names a bucket, but no object"):
        storage.stat(f"s3://{BUCKET}")
    with pytest.raises(StorageError, match=r"changed, or cannot be read, during the upload \(.*keep it unchanged"):
        storage.write(f"s3://{BUCKET}/x", tmp_path / "none")
    # Each bucket has a client of its own.
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StorageError, match=r"denied \(403.*AWS_ACCESS_KEY_ID") as raised:
        storage.stat("s3://others/a.dat")
    assert raised.value.code == "access_denied" and SECRET not in str(raised.value)
    with pytest.raises(OptionError, match=r"no storage has the scheme ftp://; give a path, or one of .*s3://.*az://"):
        storage_of("ftp://me:hidden@h/a")
    for hidden in ("http://127.0.0.1:1/a?sig=hidden", "http://me:hidden@127.0.0.1:1/a"):
        with pytest.raises(StorageError) as raised:
            storage_of(hidden).stat(hidden)
        assert "127.0.0.1:1/a" in str(raised.value) and "hidden" not in str(raised.value)


def test_functions_read_and_write_objects(cloud: Cloud, client: Any, tmp_path: Path) -> None:
    chance = random.Random(5)
    contents = [chance.randbytes(300_000 + number) for number in range(12)]
    urls = [cloud.put(f"in/{number}.dat", content) for number, content in enumerate(contents)]
    folder = f"{tmp_path}/cache-{{worker}}"
    with iso.cluster.attach(client, cache="200MB", folder=folder):
        found = list(iso.cluster.map(digest, urls * 3, client=client))
        assert found == [hashlib.sha256(content).hexdigest() for content in contents] * 3
        assert cloud.count("GET") == Counter({f"/{BUCKET}/in/{number}.dat": 1 for number in range(12)})
        cloud.line.requests.clear()

        def turn(_: str, source: Path, target: Path) -> int:
            return target.write_bytes(source.read_bytes()[::-1])

        def output(url: str) -> str:
            return url.replace("/in/", "/turned/")

        results = iso.cluster.map(turn, urls, client=client, outputs=output)
        assert list(results) == [len(content) for content in contents]
        assert cloud.count("PUT") == Counter({f"/{BUCKET}/turned/{number}.dat": 1 for number in range(12)})
        assert not cloud.count("GET"), "all is in the caches"
        for number, content in enumerate(contents):
            assert (cloud.bucket / f"turned/{number}.dat").read_bytes() == content[::-1]
            ((key, _),) = results.written[number]
            assert key == storage_of(key.url).stat(key.url)
        # What was written is cached as what storage has now.
        turned = [output(url) for url in urls]
        found = list(iso.cluster.map(digest, turned, client=client))
        assert found == [hashlib.sha256(content[::-1]).hexdigest() for content in contents]
        assert not cloud.count("GET")


def test_a_program_runs_for_each_object(cloud: Cloud, client: Any, tmp_path: Path, capsys: Any) -> None:
    urls = [cloud.put(f"text/{number}.txt", b"line\n" * number) for number in range(3)]
    (tmp_path / "urls").write_text("\n".join(urls))
    words = ["map", "--on", client.scheduler.address, "--items", str(tmp_path / "urls"), "--cache", "100MB"]
    words += ["--folder", f"{tmp_path}/{{worker}}", "--output", f"s3://{BUCKET}/sorted/{{stem}}.txt", "--json"]
    assert main([*words, "--", "sort", "{0}", "-o", "{out}"]) == 0, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert [json.loads(line)["stdout"] for line in shown.replace("}\n{", "}\0{").split("\0")] == [""] * 3
    assert [(cloud.bucket / f"sorted/{number}.txt").read_bytes() for number in range(3)] == [
        b"line\n" * number for number in range(3)
    ]
