"""Copies of stores in object storage: pushed to, and pulled from, a server that this test starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from object_server import BUCKET, KEY, SECRET, Line, line_to, serve
from store_copies import check_same, command, make, waves

pytestmark = pytest.mark.skipif(os.name != "posix", reason="starts a server")

SETTINGS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}


@dataclass
class Server:
    """A server of objects, and the line to it."""

    folder: Path
    line: Line

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.line.port}"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("push") / "served"
    (folder / BUCKET).mkdir(parents=True)
    with serve(folder) as port, line_to(port) as line:
        yield Server(folder / BUCKET, line)


@pytest.fixture
def server(started: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name, value in {**SETTINGS, "AWS_ENDPOINT_URL": started.endpoint}.items():
        monkeypatch.setenv(name, value)
    yield started
    line = started.line
    line.delay, line.rate, line.refused, line.cut, line.hangs = 0.0, 0.0, 0, 0, False


def test_a_push_and_a_pull_give_the_store(server: Server, tmp_path: Path) -> None:
    store, copy, url = tmp_path / "water.iso", tmp_path / "copy.iso", f"s3://{BUCKET}/whole.iso"
    make(store)
    pushed = command("push", str(store), url)
    assert pushed.returncode == 0, pushed.stderr
    assert pushed.stdout.startswith("3 signals: ") and "0 B already there" in pushed.stdout, pushed.stdout
    check_same(url, store)
    assert iso.verify(url)["verdict"] == "sound"
    again = command("push", str(store), url, "--json")
    assert json.loads(again.stdout)["copied_bytes"] == 0, again.stdout
    pulled = command("pull", url, str(copy))
    assert pulled.returncode == 0, pulled.stderr
    check_same(copy, store)
    assert iso.verify(copy)["verdict"] == "sound"

    with iso.open(store, "r+") as writer:
        writer["stn_1/pressure"].append(waves(50_000, 4))
        writer["stn_2/pressure"].unseal()
        writer.rename("radio", "antenna")
        writer.commit()
    report = iso.backup(store, url)
    assert report["failed"] == [] and 100_000 <= report["copied_bytes"] <= 3_000_000, report
    check_same(url, store)
    # An array that is unsealed is sent again; a disk unpacks it.
    assert iso.backup(url, copy)["copied_bytes"] == 100_000
    check_same(copy, store)


def test_other_readers_of_zarr_read_the_copy_in_place(server: Server, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    xarray = pytest.importorskip("xarray")
    obstore = pytest.importorskip("obstore")
    from zarr.storage import ObjectStore

    store, url = tmp_path / "water.iso", f"s3://{BUCKET}/zarr.iso"
    make(store)
    iso.backup(store, url)
    client = obstore.store.S3Store(
        BUCKET,
        prefix="zarr.iso",
        endpoint=server.endpoint,
        access_key_id=KEY,
        secret_access_key=SECRET,
        region="us-east-1",
        client_options={"allow_http": True},
    )
    remote, local = zarr.open_group(ObjectStore(client, read_only=True), mode="r"), zarr.open_group(store, mode="r")
    assert sorted(remote.attrs) == sorted(local.attrs)
    for name in ("stn_1/pressure/data", "stn_2/pressure/data", "stn_1/pressure/gaps", "radio/data"):
        assert remote[name].shape == local[name].shape
        np.testing.assert_array_equal(remote[name][:], local[name][:])
    there, here = (
        xarray.open_zarr(one, group="stn_1/pressure", consolidated=False)
        for one in (ObjectStore(client, read_only=True), store)
    )
    xarray.testing.assert_identical(there.load(), here.load())


def test_some_signals_are_copied_and_others_left_alone(server: Server, tmp_path: Path) -> None:
    store, url = tmp_path / "water.iso", f"s3://{BUCKET}/some.iso"
    make(store)
    done = command("push", str(store), url, "--signals", "stn_1/*", "--signals", "rad*")
    assert done.returncode == 0, done.stderr
    assert list(iso.open(url)) == ["radio", "stn_1/pressure"]
    iso.backup(store, url, signals="stn_2/*")
    assert list(iso.open(url)) == list(iso.open(store))
    few = tmp_path / "few.iso"
    assert command("pull", url, str(few), "--signals", "**/pressure").returncode == 0
    assert list(iso.open(few)) == ["stn_1/pressure", "stn_2/pressure"]
    refused = command("push", str(store), url, "--signals", "none*")
    assert refused.returncode != 0
    assert "none of the 3 signals" in refused.stderr and "Traceback" not in refused.stderr, refused.stderr
    with pytest.raises(ValueError, match="signals is empty"):
        iso.backup(store, url, signals=[])


def test_wrong_uses_are_said_in_one_line(server: Server, tmp_path: Path) -> None:
    store, other = tmp_path / "water.iso", tmp_path / "other.iso"
    make(store, 1000)
    make(other, 1000)
    url = f"s3://{BUCKET}/wrong.iso"
    iso.backup(store, url)
    for arguments, says in (
        (("push", str(store), str(tmp_path / "b.iso")), "isochrony backup STORE DEST"),
        (("pull", str(store), str(tmp_path / "b.iso")), "isochrony backup STORE DEST"),
        (("pull", url, url), "to copy to object storage, run: isochrony push"),
        (("backup", str(store), url), "isochrony push STORE URL"),
        (("push", str(tmp_path / "none"), url), "is not an Isochrony store"),
        (("push", str(store), f"{server.endpoint}/{BUCKET}/web.iso"), "web servers take no pushes"),
        (("push", str(other), url), "it is a backup of another store"),
        (("push", str(store), "s3://no-such-bucket/a.iso"), "bucket does not exist"),
        (("pull", f"s3://{BUCKET}/nothing.iso", str(tmp_path / "c.iso")), "nothing is there"),
    ):
        done = command(*arguments)
        assert done.returncode != 0, arguments
        assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert SECRET not in done.stderr
    denied = command("push", str(store), url, AWS_SECRET_ACCESS_KEY="wrong")
    assert "403" in denied.stderr and len(denied.stderr.strip().splitlines()) == 1, denied.stderr


def test_a_push_that_is_killed_or_refused_goes_on(server: Server, tmp_path: Path) -> None:
    store, url, scratch = tmp_path / "water.iso", f"s3://{BUCKET}/killed.iso", tmp_path / "scratch"
    make(store, 3_000_000)
    scratch.mkdir()
    server.line.rate = 8e6
    program = [sys.executable, "-m", "isochrony", "push", str(store), url]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as push:
        time.sleep(1.5)
        push.send_signal(signal.SIGKILL)
    assert len(list(scratch.iterdir())) == 1
    with pytest.raises(iso.StoreError) as unfinished:
        iso.open(url)
    assert unfinished.value.code in ("unfinished_backup", "not_a_store")
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as push:
        time.sleep(1.5)
        push.send_signal(signal.SIGINT)
        _, told = push.communicate(timeout=10)
    assert push.returncode == 130 and "Traceback" not in told, told
    server.line.rate = 0.0
    server.line.refused = 3
    iso.backup(store, url)
    check_same(url, store)
    assert iso.verify(url)["verdict"] == "sound"
    done = command("push", str(store), url, TMPDIR=str(scratch))
    assert done.returncode == 0, done.stderr
    assert list(scratch.iterdir()) == [], "what a killed push staged is removed"


def test_a_reader_sees_states_as_they_are_pushed(server: Server, tmp_path: Path) -> None:
    store, url = tmp_path / "grows.iso", f"s3://{BUCKET}/grows.iso"
    expected = waves(400_000, 5)
    with iso.open(store, "x") as writer:
        grows = writer.create("a", dtype="i2", rate=2000, start="2010-03-01")
        grows.append(expected[:100_000])
        writer.commit()
        # Beside a writer that has the store open.
        iso.backup(store, url)
        reader = iso.open(url)
        ends = [100_000]
        for end in (100_010, 150_000, 400_000):
            grows.append(expected[ends[-1] : end])
            writer.commit()
            shown = reader["a"][:]
            iso.backup(store, url)
            np.testing.assert_array_equal(shown.counts, expected[: ends[-1]])
            assert reader.refresh()
            np.testing.assert_array_equal(reader["a"][:].counts, expected[:end])
            ends.append(end)
