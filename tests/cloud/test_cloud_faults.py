"""Faults of a server of objects: each ends in the right samples, or in an error that says what is wrong and where."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from moto_server import (
    BUCKET,
    Answer,
    MotoServer,
    broken_off,
    check_message,
    error_document,
    moto,
    shortened,
    started_moto,
)
from store_copies import check_same, make, waves

__all__ = ["moto", "started_moto"]
# What hangs is a failure of these tests as well.
pytestmark = [pytest.mark.skipif(os.name != "posix", reason="starts a server"), pytest.mark.timeout(60)]

NAME = "water.iso"
URL = f"s3://{BUCKET}/{NAME}"
RAW = f"{NAME}/stn_1/pressure/data/c/0"
#: Samples of two bytes that make one shard of two parts of an upload.
LARGE = 6_000_000

SLOW_DOWN = error_document("503 Slow Down", "SlowDown", Retry_After="1")
FAILURE = error_document("500 Internal Server Error", "InternalError")
DENIAL = error_document("403 Forbidden", "AccessDenied")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("local") / NAME
    make(path)
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signal that is put in parts, and a small one."""
    path = tmp_path_factory.mktemp("large") / NAME
    with iso.open(path, "x") as writer:
        writer.create("a", dtype="i2", rate=2000).append(waves(LARGE, 1))
        writer.create("b", dtype="i2", rate=1).append(waves(10, 2))
        writer.commit()
    return path


@pytest.fixture
def copy(moto: MotoServer, local: Path) -> Path:
    """The store on this disk; the one at `URL` is a whole copy of it."""
    iso.backup(local, URL)
    moto.requests.clear()
    return local


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server lists ten objects a page."""
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")


@pytest.mark.parametrize(
    ("method", "target", "fault"),
    [
        ("GET", "", SLOW_DOWN),
        ("HEAD", "", SLOW_DOWN),
        ("GET", "continuation-token", FAILURE),
        ("GET", "/data/c/", FAILURE),
        ("GET", "/data/c/", broken_off),
        ("GET", "/data/c/", shortened),
        ("GET", "MANIFEST", broken_off),
        ("GET", "zarr.json", broken_off),
    ],
)
def test_what_fails_for_a_moment_is_asked_for_again(
    moto: MotoServer, copy: Path, pages: None, method: str, target: str, fault: Any
) -> None:
    moto.fail(method, target, fault, 2)
    check_same(URL, copy)
    assert moto.count(method, target) > 2
    moto.fail(method, target, fault, 2)
    assert iso.verify(URL)["verdict"] == "sound"


@pytest.mark.parametrize(
    ("method", "target", "fault"),
    [
        ("PUT", "", SLOW_DOWN),
        ("PUT", "/data/c/", FAILURE),
        ("GET", "list-type", FAILURE),
        ("POST", "uploads", SLOW_DOWN),
        ("PUT", "partNumber", SLOW_DOWN),
        ("POST", "uploadId", error_document("200 OK", "InternalError")),
        ("POST", "delete", SLOW_DOWN),
    ],
)
def test_what_fails_for_a_moment_is_put_again(
    moto: MotoServer, large: Path, tmp_path: Path, method: str, target: str, fault: Any
) -> None:
    store, url = tmp_path / NAME, f"s3://{BUCKET}/{tmp_path.name}.iso"
    shutil.copytree(large, store)
    moto.fail(method, target, fault, 2)
    iso.backup(store, url)
    with iso.open(store, "r+") as writer:
        writer.delete("b")
        writer.commit()
    iso.backup(store, url)
    assert moto.count(method, target) > 2
    assert moto.uploads(f"{tmp_path.name}.iso/") == []
    check_same(url, store)


@pytest.mark.parametrize(
    ("method", "target", "fault", "code", "says"),
    [
        ("GET", "/data/c/", SLOW_DOWN, "server_error", "503 SlowDown"),
        ("GET", "continuation-token", FAILURE, "server_error", "500 InternalError"),
        ("GET", "list-type", broken_off, "unreachable", "end of file"),
        ("GET", "list-type", shortened, "server_error", "start tag not closed"),
        ("GET", "/data/c/", broken_off, "unreachable", "end of file"),
        ("GET", "/data/c/", shortened, "truncated_answer", "end early"),
        ("GET", "MANIFEST", shortened, "damaged_file", "MANIFEST is damaged"),
        ("GET", RAW, DENIAL, "access_denied", "403 AccessDenied"),
    ],
)
def test_what_goes_on_failing_is_an_error_that_says_so(
    moto: MotoServer, copy: Path, pages: None, method: str, target: str, fault: Any, code: str, says: str
) -> None:
    moto.fail(method, target, fault)
    with pytest.raises((iso.StoreError, OSError)) as failed:
        iso.open(URL)["stn_1/pressure"][:].values()
    assert failed.value.code == code, failed.value
    check_message(failed.value, URL, says)
    moto.heal()
    check_same(URL, copy)


def test_a_listing_that_breaks_off_is_asked_for_again(moto: MotoServer, copy: Path) -> None:
    moto.fail("GET", "list-type", broken_off, 1)
    check_same(URL, copy)


def test_one_object_that_is_denied_leaves_the_others_readable(moto: MotoServer, copy: Path) -> None:
    moto.fail("GET", RAW, DENIAL)
    reader, here = iso.open(URL), iso.open(copy)
    with pytest.raises(PermissionError) as failed:
        reader["stn_1/pressure"][:].values()
    check_message(failed.value, RAW, "403 AccessDenied", "AWS_ACCESS_KEY_ID")
    with pytest.raises(iso.IsochronyError) as failed_plan:
        iso.scan(reader["stn_1/pressure"]).rewindow(1000).stats("max").collect()
    check_message(failed_plan.value, RAW, "403 AccessDenied")
    for name in ("stn_2/pressure", "radio"):
        np.testing.assert_array_equal(reader[name][:].values(), here[name][:].values())
    report = iso.verify(URL)
    assert report["verdict"] != "sound"
    assert {one["signal"] for one in report["damage"]} == {"stn_1/pressure"}
    assert report["damage"][0]["code"] == "access_denied"


def test_a_push_that_may_not_put_one_object_leaves_the_copy_as_it_was(moto: MotoServer, tmp_path: Path) -> None:
    store, before, url = tmp_path / NAME, tmp_path / "before.iso", f"s3://{BUCKET}/denied.iso"
    make(store)
    iso.backup(store, url)
    iso.backup(store, before)
    with iso.open(store, "r+") as writer:
        writer["stn_1/pressure"].append(waves(50_000, 4))
        writer.commit()
    moto.fail("PUT", "stn_1/pressure/data/c/0$", DENIAL)
    with pytest.raises(PermissionError) as failed:
        iso.backup(store, url)
    assert failed.value.code == "access_denied"
    check_message(failed.value, url, "403 AccessDenied", "put them where it writes")
    check_same(url, before)
    moto.heal()
    iso.backup(store, url)
    check_same(url, store)


@pytest.mark.parametrize("code", ["InternalError", "AccessDenied"])
def test_an_upload_whose_completion_fails_under_status_200_is_not_published(
    moto: MotoServer, tmp_path: Path, code: str
) -> None:
    name = f"completed-{code[0]}.iso"
    store, url, samples = tmp_path / NAME, f"s3://{BUCKET}/{name}", waves(LARGE, 1)
    with iso.open(store, "x") as writer:
        grows = writer.create("a", dtype="i2", rate=2000)
        grows.append(samples[:1000])
        writer.commit()
        iso.backup(store, url)
        grows.append(samples[1000:])
        writer.commit()
    moto.fail("POST", "uploadId", error_document("200 OK", code))
    with pytest.raises(OSError) as failed:
        iso.backup(store, url)
    assert failed.value.code == "server_error", failed.value
    check_message(failed.value, url, "try again later")
    np.testing.assert_array_equal(iso.open(url)["a"][:].counts, samples[:1000])
    moto.heal()
    iso.backup(store, url)
    np.testing.assert_array_equal(iso.open(url)["a"][:].counts, samples)


def test_an_error_document_under_status_200_is_named(moto: MotoServer, large: Path) -> None:
    moto.fail("POST", "uploadId", error_document("200 OK", "InternalError"))
    with pytest.raises(OSError) as failed:
        iso.backup(large, f"s3://{BUCKET}/named.iso")
    check_message(failed.value, "InternalError")


@pytest.mark.xfail(
    strict=True,
    raises=OSError,
    reason="object_store takes an answer to CompleteMultipartUpload for an error if its text holds InternalError or"
    " SlowDown anywhere, and the answer holds the object's name",
)
def test_a_large_object_may_be_named_like_an_error(moto: MotoServer, tmp_path: Path) -> None:
    store, url = tmp_path / NAME, f"s3://{BUCKET}/names.iso"
    with iso.open(store, "x") as writer:
        writer.create("pump/SlowDown", dtype="i2", rate=2000).append(waves(LARGE, 1))
        writer.commit()
    iso.backup(store, url)
    check_same(url, store)


def tag_changed(environ: Any, ask: Callable[[], Answer]) -> Answer:
    """The tag of another version, as from a server that compares none."""
    environ.pop("HTTP_IF_MATCH", None)
    status, headers, body = ask()
    others = [pair for pair in headers if pair[0].lower() != "etag"]
    return status, [*others, ("ETag", '"0123456789abcdef0123456789abcdef"')], body


def test_a_tag_that_changes_between_two_ranges_is_an_error(moto: MotoServer, copy: Path) -> None:
    signal_ = iso.open(URL)["stn_1/pressure"]
    here = iso.open(copy)["stn_1/pressure"]
    np.testing.assert_array_equal(signal_[:1000].values(), here[:1000].values())
    moto.fail("GET", RAW, tag_changed)
    with pytest.raises(OSError) as failed:
        signal_[400_000:].values()
    assert failed.value.code == "changed_remotely", failed.value
    check_message(failed.value, RAW, "was replaced on the server", "refresh()")


def test_a_server_that_compares_no_tags_gives_no_mixture(moto: MotoServer, tmp_path: Path) -> None:
    samples = [waves(LARGE, seed) for seed in (1, 2)]
    urls = [f"s3://{BUCKET}/mixed-{number}.iso" for number in range(2)]
    for number, url in enumerate(urls):
        store = tmp_path / f"{number}.iso"
        with iso.open(store, "x") as writer:
            writer.create("a", dtype="i2", rate=2000).append(samples[number])
            writer.commit()
        iso.backup(store, url)
    shard = "mixed-0.iso/a/data/c/0"
    other = moto.get("mixed-1.iso/a/data/c/0")
    assert len(other) == len(moto.get(shard))
    signal_ = iso.open(urls[0])["a"]
    np.testing.assert_array_equal(signal_[:1000].counts, samples[0][:1000])

    def untagged(environ: Any, ask: Callable[[], Answer]) -> Answer:
        environ.pop("HTTP_IF_MATCH", None)
        return ask()

    def replaced(environ: Any, ask: Callable[[], Answer]) -> Answer:
        moto.put(shard, other)
        return untagged(environ, ask)

    # The first range is of the object that was opened, the others are of the one that replaced it.
    moto.fail("GET", shard, untagged, 1)
    moto.fail("GET", shard, replaced, 1)
    moto.fail("GET", shard, untagged)
    with pytest.raises((iso.IsochronyError, OSError)) as failed_plan:
        iso.scan(signal_, counts=True).rewindow(1000).stats("max").collect()
    check_message(failed_plan.value, shard)
    with pytest.raises((iso.StoreError, OSError)) as failed:
        signal_[1000:].values()
    assert failed.value.code in ("changed_remotely", "wrong_shard"), failed.value
    check_message(failed.value, shard)
