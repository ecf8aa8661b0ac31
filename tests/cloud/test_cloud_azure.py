"""Stores at az:// addresses, on Azurite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from azure_server import ACCOUNT, CONTAINER, KEY, AzureServer, serve_azure
from store_copies import check_same, command, make, waves

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="starts a server"), pytest.mark.timeout(120)]

#: Samples of two bytes that make one shard of two parts of an upload.
LARGE = 6_000_000


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    with serve_azure(tmp_path_factory.mktemp("azure")) as server:
        yield server


@pytest.fixture
def azure(started: AzureServer, monkeypatch: pytest.MonkeyPatch) -> AzureServer:
    settings = {
        "AZURE_STORAGE_ENDPOINT": started.endpoint,
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return started


def check_message(error: Any, *parts: str) -> None:
    """An error is one line that says these parts, and no secret."""
    text = str(error)
    assert all(part in text for part in parts) and "\n" not in text, text
    shown = f"{text} {error!r} {error.args}"
    assert KEY not in shown and "sig=" not in shown, shown


def test_a_store_is_pushed_read_verified_and_pulled(azure: AzureServer, tmp_path: Path) -> None:
    store, copy, url = tmp_path / "water.iso", tmp_path / "copy.iso", f"az://{CONTAINER}/a/whole.iso"
    make(store, LARGE)
    iso.backup(store, url)
    check_same(url, store)
    assert iso.verify(url)["verdict"] == "sound"
    iso.backup(url, copy)
    check_same(copy, store)
    with iso.open(store, "r+") as writer:
        writer["stn_1/pressure"].append(waves(50_000, 4))
        writer["stn_2/pressure"].unseal()
        writer.rename("radio", "antenna")
        writer.commit()
    iso.backup(store, url)
    check_same(url, store)
    assert iso.backup(store, url)["copied_bytes"] == 0
    plan = iso.scan(iso.open(url)["stn_1/pressure"]).rewindow(1000).stats("max")
    here = iso.scan(iso.open(store)["stn_1/pressure"]).rewindow(1000).stats("max")
    np.testing.assert_array_equal(plan.collect()["max"], here.collect()["max"])


def test_commands_take_the_address(azure: AzureServer, tmp_path: Path) -> None:
    store, url = tmp_path / "water.iso", f"az://{CONTAINER}/commands.iso"
    make(store, 10_000)
    for arguments in (("push", str(store), url), ("info", url), ("verify", url), ("pull", url, str(tmp_path / "c"))):
        done = command(*arguments)
        assert done.returncode == 0, done.stderr
        assert KEY not in done.stdout + done.stderr
    check_same(tmp_path / "c", store)


@pytest.mark.parametrize(
    "base", [f"az://{CONTAINER}", f"abfs://{CONTAINER}", f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net"]
)
def test_other_forms_of_the_address_name_the_same_store(azure: AzureServer, tmp_path: Path, base: str) -> None:
    store = tmp_path / "water.iso"
    make(store, 10_000)
    folder = base.partition("://")[0]
    iso.backup(store, f"az://{CONTAINER}/{folder}.iso")
    check_same(f"{base}/{folder}.iso", store)


def test_a_reader_keeps_the_version_that_it_opened(azure: AzureServer, tmp_path: Path) -> None:
    store, url, samples = tmp_path / "water.iso", f"az://{CONTAINER}/pinned.iso", waves(3_000_000, 1)
    with iso.open(store, "x") as writer:
        grows = writer.create("a", dtype="i2", rate=2000)
        grows.append(samples[:2_000_000])
        writer.commit()
        iso.backup(store, url)
        reader = iso.open(url)
        shown = reader["a"][:]
        np.testing.assert_array_equal(reader["a"][:1000].counts, samples[:1000])
        grows.append(samples[2_000_000:])
        writer.commit()
    iso.backup(store, url)
    np.testing.assert_array_equal(shown.counts, samples[:2_000_000])
    assert reader.refresh()
    np.testing.assert_array_equal(reader["a"][:].counts, samples)
    shard = "pinned.iso/a/data/c/0"
    azure.put(f"{CONTAINER}/{shard}", bytes(6 << 20))
    with pytest.raises(iso.IsochronyError) as failed:
        iso.scan(reader["a"]).rewindow(1000).stats("max").collect()
    check_message(failed.value, shard)


def test_a_shared_access_signature_reads_and_is_never_shown(
    azure: AzureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, url = tmp_path / "water.iso", f"az://{CONTAINER}/signed.iso"
    make(store, 10_000)
    iso.backup(store, url)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", azure.access_token("rl"))
    check_same(url, store)
    with iso.open(store, "r+") as writer:
        writer["stn_1/pressure"].append(waves(1000, 4))
        writer.commit()
    with pytest.raises(PermissionError) as denied:
        iso.backup(store, url)
    assert denied.value.code == "access_denied"
    check_message(denied.value, url, "403", "AZURE_STORAGE_ACCOUNT_NAME")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:1/nobody")
    with pytest.raises(OSError) as unreachable:
        iso.open(url)
    assert unreachable.value.code == "unreachable"
    check_message(unreachable.value, url, "refused")


@pytest.mark.parametrize(
    ("change", "where", "kind", "code", "says"),
    [
        ({}, "az://none-of-these/a.iso", FileNotFoundError, "no_such_bucket", "bucket does not exist"),
        ({}, f"az://{CONTAINER}/no.iso", FileNotFoundError, "not_a_store", "nothing is there"),
        ({"AZURE_STORAGE_ACCOUNT_KEY": "d3Jvbmc="}, f"az://{CONTAINER}/w.iso", PermissionError, "access_denied", "403"),
        (
            {"AZURE_STORAGE_ACCOUNT_KEY": "no base64!"},
            f"az://{CONTAINER}/w.iso",
            OSError,
            "bad_cloud_settings",
            "AZURE",
        ),
        (
            {"AZURE_STORAGE_ENDPOINT": "http://192.0.2.1/x"},
            f"az://{CONTAINER}/w.iso",
            OSError,
            None,
            "AZURE_ALLOW_HTTP",
        ),
    ],
)
def test_errors_name_the_address_and_the_remedy_and_no_secret(
    azure: AzureServer,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, str],
    where: str,
    kind: Any,
    code: Any,
    says: str,
) -> None:
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    with pytest.raises((kind, iso.StoreError)) as failed:
        iso.open(where)
    if code:
        assert failed.value.code == code, failed.value
    check_message(failed.value, where, says)
    assert not any(value in str(failed.value) for name, value in change.items() if name.endswith("KEY"))
