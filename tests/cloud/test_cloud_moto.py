"""Copies of stores on a second S3 server, moto's: pushed, read, verified and pulled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from moto_server import BUCKET, Answer, MotoServer, check_message, error_document, moto, started_moto
from store_copies import check_same, make, waves

__all__ = ["moto", "started_moto"]
pytestmark = [pytest.mark.skipif(os.name != "posix", reason="starts a server"), pytest.mark.timeout(120)]

#: Samples of two bytes that make one shard of two parts of an upload.
LARGE = 6_000_000


def make_raw(path: Path, samples: Any) -> None:
    with iso.open(path, "x") as store:
        store.create("a", dtype="i2", rate=2000, start="2010-03-01").append(samples)
        store.commit()


def append(path: Path, samples: Any, name: str = "a") -> None:
    with iso.open(path, "r+") as store:
        store[name].append(samples)
        store.commit()


def test_a_store_is_pushed_read_verified_and_pulled(moto: MotoServer, tmp_path: Path) -> None:
    store, copy, url = tmp_path / "water.iso", tmp_path / "copy.iso", f"s3://{BUCKET}/whole.iso"
    make(store)
    assert iso.backup(store, url)["kept_bytes"] == 0
    check_same(url, store)
    assert iso.verify(url)["verdict"] == "sound"
    iso.backup(url, copy)
    check_same(copy, store)
    moto.requests.clear()
    assert iso.backup(store, url)["copied_bytes"] == 0
    assert moto.count("PUT", "/data/c/") == 0, "what is there already is not put again"


def test_a_second_push_sends_what_changed(moto: MotoServer, tmp_path: Path) -> None:
    store, copy, url = tmp_path / "water.iso", tmp_path / "copy.iso", f"s3://{BUCKET}/changes.iso"
    make(store)
    iso.backup(store, url)
    iso.backup(url, copy)
    with iso.open(store, "r+") as writer:
        writer["stn_1/pressure"].append(waves(50_000, 4))
        writer.rename("radio", "antenna")
        writer.commit()
    moto.requests.clear()
    iso.backup(store, url)
    assert moto.count("PUT", "stn_1/pressure/data/c/") == 1
    assert moto.count("PUT", "stn_2/pressure/data/c/") == 0
    assert not moto.keys("changes.iso/radio/")
    check_same(url, store)
    assert iso.backup(url, copy)["copied_bytes"] == 100_000
    check_same(copy, store)


def test_the_later_of_two_pushes_at_a_time_wins(moto: MotoServer, tmp_path: Path) -> None:
    store, url = tmp_path / "water.iso", f"s3://{BUCKET}/two.iso"
    make(store)
    iso.backup(store, url)
    append(store, waves(50_000, 4), "stn_1/pressure")
    with iso.open(store, "r+") as writer:
        writer.create("new", dtype="i2", rate=1).append(waves(1000, 5))
        writer.commit()
    published: list[bytes] = []

    def push_another(environ: Any, ask: Callable[[], Answer]) -> Answer:
        # It began later than the push that this request is of.
        done = subprocess.run(
            [sys.executable, "-m", "isochrony", "push", str(store), url], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        published.append(moto.get("two.iso/.isochrony/MANIFEST"))
        return ask()

    moto.fail("PUT", "two.iso/new/data/c/", push_another, 1)
    with pytest.raises(iso.StoreError) as failed:
        iso.backup(store, url)
    check_message(failed.value, url, "another push to it began", "push again")
    assert failed.value.code == "other_push"
    assert [moto.get("two.iso/.isochrony/MANIFEST")] == published, "the first push left the root record alone"
    check_same(url, store)


def test_a_reader_keeps_the_version_that_it_opened(moto: MotoServer, tmp_path: Path) -> None:
    store, url, samples = tmp_path / "water.iso", f"s3://{BUCKET}/pinned.iso", waves(3_000_000, 1)
    make_raw(store, samples[:2_000_000])
    iso.backup(store, url)
    reader = iso.open(url)
    shown = reader["a"][:]
    np.testing.assert_array_equal(reader["a"][:1000].counts, samples[:1000])
    append(store, samples[2_000_000:])
    iso.backup(store, url)
    tags: list[str] = []

    def take_tag(environ: Any, ask: Callable[[], Answer]) -> Answer:
        answer = ask()
        tags.append(f"{environ.get('HTTP_IF_MATCH')} {answer[0][:3]}")
        return answer

    moto.fail("GET", "/data/c/0$", take_tag)
    np.testing.assert_array_equal(shown.counts, samples[:2_000_000])
    assert tags[0].startswith('"') and tags[0].endswith("412"), tags
    assert all(tag.startswith('"') for tag in tags), tags
    assert reader.refresh()
    np.testing.assert_array_equal(reader["a"][:].counts, samples)


def test_an_object_that_was_replaced_by_another_is_an_error(moto: MotoServer, tmp_path: Path) -> None:
    store, url = tmp_path / "water.iso", f"s3://{BUCKET}/replaced.iso"
    make_raw(store, waves(2_000_000, 1))
    iso.backup(store, url)
    reader = iso.open(url)
    reader["a"][:1000].values()
    (shard,) = moto.keys("replaced.iso/a/data/c/")
    moto.put(shard, bytes(len(moto.get(shard))))
    with pytest.raises((iso.StoreError, OSError)) as failed:
        reader["a"][1_000_000:].values()
    assert failed.value.code in ("changed_remotely", "wrong_shard", "damaged_file"), failed.value
    check_message(failed.value, shard)


def test_a_large_shard_is_put_in_parts(moto: MotoServer, tmp_path: Path) -> None:
    store, url, samples = tmp_path / "water.iso", f"s3://{BUCKET}/large.iso", waves(LARGE, 1)
    make_raw(store, samples)
    iso.backup(store, url)
    (shard,) = moto.keys("large.iso/a/data/c/")
    assert moto.count("PUT", f"{shard}[?].*partNumber=") == 2
    head = moto.client.head_object(Bucket=BUCKET, Key=shard)
    assert head["ETag"].endswith('-2"') and head["ContentLength"] >= 2 * LARGE
    assert moto.uploads("large.iso/") == []
    np.testing.assert_array_equal(iso.open(url)["a"][:].counts, samples)


def test_a_store_of_more_objects_than_a_page_lists_is_read(moto: MotoServer, tmp_path: Path) -> None:
    store, url, count = tmp_path / "water.iso", f"s3://{BUCKET}/pages.iso", 210
    with iso.open(store, "x") as writer:
        for number in range(count):
            one = writer.create(f"stn_{number:03}/p", dtype="i2", rate=10)
            one.append(np.arange(number, number + 5, dtype="i2"))
        writer.commit()
    iso.backup(store, url)
    assert len(moto.keys("pages.iso/")) > 1000
    moto.requests.clear()
    reader = iso.open(url)
    assert list(reader) == [f"stn_{number:03}/p" for number in range(count)]
    for number in (0, 1, count // 2, count - 1):
        np.testing.assert_array_equal(reader[f"stn_{number:03}/p"][:].counts, np.arange(number, number + 5))
    assert moto.count("GET", "list-type=2") == 2
    assert moto.count("GET", "continuation-token=") == 1


def test_a_killed_push_leaves_an_upload_that_only_the_bucket_lists(moto: MotoServer, tmp_path: Path) -> None:
    store, url, samples = tmp_path / "water.iso", f"s3://{BUCKET}/killed.iso", waves(LARGE, 1)
    make_raw(store, samples)
    is_begun, is_killed = threading.Event(), threading.Event()

    def wait(environ: Any, ask: Callable[[], Answer]) -> Answer:
        answer = ask()
        is_begun.set()
        is_killed.wait(60)
        return answer

    moto.fail("PUT", "partNumber=2", wait, 1)
    program = [sys.executable, "-m", "isochrony", "push", str(store), url]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as push:
        try:
            assert is_begun.wait(60)
            push.send_signal(signal.SIGKILL)
        finally:
            is_killed.set()
    moto.heal()
    shard = "killed.iso/a/data/c/0"
    assert moto.uploads("killed.iso/") == [shard]
    assert shard not in moto.keys("killed.iso/")
    iso.backup(store, url)
    np.testing.assert_array_equal(iso.open(url)["a"][:].counts, samples)
    assert iso.verify(url)["verdict"] == "sound"
    # As docs/cloud/push.md says: a rule of the bucket removes it, not a push.
    assert moto.uploads("killed.iso/") == [shard]


def test_a_push_that_fails_aborts_its_uploads(moto: MotoServer, tmp_path: Path) -> None:
    store, url = tmp_path / "water.iso", f"s3://{BUCKET}/aborted.iso"
    make_raw(store, waves(LARGE, 1))
    moto.fail("PUT", "partNumber=2", error_document("403 Forbidden", "AccessDenied"))
    with pytest.raises(PermissionError) as failed:
        iso.backup(store, url)
    assert failed.value.code == "access_denied"
    check_message(failed.value, url, "403 AccessDenied", "AWS_ACCESS_KEY_ID")
    assert moto.count("POST", "uploads") == 1
    # The error does not wait for it.
    until = time.monotonic() + 10
    while moto.uploads("aborted.iso/") and time.monotonic() < until:
        time.sleep(0.05)
    assert moto.uploads("aborted.iso/") == []


def test_credentials_for_a_prefix_alone_read_and_push(moto: MotoServer, tmp_path: Path) -> None:
    store, copy, url = tmp_path / "water.iso", tmp_path / "copy.iso", f"s3://{BUCKET}/mine/water.iso"
    make(store)
    denied = error_document("403 Forbidden", "AccessDenied")
    # As a policy with the resource recordings/mine/* and the condition s3:prefix = mine/* has it.
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        moto.fail(method, rf"^/{BUCKET}/(?!mine/)|^/{BUCKET}[?](?!.*prefix=mine/)(?!delete)", denied)
    iso.backup(store, url)
    check_same(url, store)
    iso.backup(url, copy)
    check_same(copy, store)
    assert moto.count("HEAD", f"/{BUCKET}/[.]isochrony/MANIFEST") > 0, "a push looks for stores around"
    with pytest.raises(PermissionError) as failed:
        iso.open(f"s3://{BUCKET}/theirs.iso")
    check_message(failed.value, "theirs.iso", "403")


@pytest.fixture
def unlisted(moto: MotoServer, tmp_path: Path) -> str:
    """A store whose server refuses to list, and so does not say either which objects are missing."""
    store, url = tmp_path / "water.iso", f"s3://{BUCKET}/{tmp_path.name}.iso"
    make_raw(store, waves(1000, 1))
    iso.backup(store, url)

    def hide_missing(environ: Any, ask: Callable[[], Answer]) -> Answer:
        answer = ask()
        return denied(environ, ask) if answer[0].startswith("404") else answer

    denied = error_document("403 Forbidden", "AccessDenied")
    moto.fail("GET", "list-type=2", denied)
    moto.fail("GET", f"^/{BUCKET}/", hide_missing)
    moto.fail("HEAD", f"^/{BUCKET}/", hide_missing)
    return url


def test_credentials_that_may_not_list_open_a_store_and_read_no_samples(unlisted: str) -> None:
    store = iso.open(unlisted)
    assert list(store) == ["a"]
    with pytest.raises(OSError) as failed:
        store["a"][:].values()
    check_message(failed.value, unlisted, "403 AccessDenied")


def test_credentials_that_may_not_list_are_told_which_right_they_lack(unlisted: str) -> None:
    with pytest.raises(OSError) as failed:
        iso.open(unlisted)["a"][:].values()
    assert failed.value.code == "access_denied", failed.value
    check_message(failed.value, "the right to list the bucket")
