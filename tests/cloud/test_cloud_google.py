"""Stores at gs:// addresses, on a server of these tests that speaks the XML API that is used."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from google_server import GoogleServer, serve_google
from moto_server import BUCKET, error_document
from store_copies import check_same, command, make, waves

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="starts a server"), pytest.mark.timeout(120)]

#: Samples of two bytes that make one shard of two parts of an upload.
LARGE = 6_000_000


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    with serve_google(tmp_path_factory.mktemp("google")) as server:
        yield server


@pytest.fixture
def google(started: GoogleServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[GoogleServer]:
    account = tmp_path / "account.json"
    account.write_text(json.dumps(started.account()))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(account))
    monkeypatch.setenv("SSL_CERT_FILE", started.certificate)
    started.refused.clear()
    started.objects.requests.clear()
    yield started
    started.objects.heal()


def check_message(server: GoogleServer, error: Any, *parts: str) -> None:
    """An error is one line that says these parts, and no secret."""
    text = str(error)
    assert all(part in text for part in parts) and "\n" not in text, text
    shown = f"{text} {error!r} {error.args}"
    key = "".join(server.account()["private_key"].splitlines()[1:-1])
    assert not any(word in shown for word in ("Bearer", "PRIVATE KEY", key[:40], key[100:140], "eyJ")), shown


def test_a_store_is_pushed_read_verified_and_pulled(google: GoogleServer, tmp_path: Path) -> None:
    store, copy, url = tmp_path / "water.iso", tmp_path / "copy.iso", f"gs://{BUCKET}/a/whole.iso"
    make(store, LARGE)
    iso.backup(store, url)
    assert google.objects.count("PUT", "partNumber=2") > 0
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
    assert google.refused == [], "each request carries a token that the account's key signed"


def test_commands_take_the_address(google: GoogleServer, tmp_path: Path) -> None:
    store, url = tmp_path / "water.iso", f"gs://{BUCKET}/commands.iso"
    make(store, 10_000)
    for arguments in (("push", str(store), url), ("info", url), ("verify", url), ("pull", url, str(tmp_path / "c"))):
        done = command(*arguments)
        assert done.returncode == 0, done.stderr
        assert "PRIVATE KEY" not in done.stdout + done.stderr
    check_same(tmp_path / "c", store)


def test_application_credentials_and_a_base_url_are_taken_from_the_environment(
    google: GoogleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, url = tmp_path / "water.iso", f"gs://{BUCKET}/application.iso"
    make(store, 10_000)
    monkeypatch.delenv("GOOGLE_SERVICE_ACCOUNT")
    account = google.account()
    monkeypatch.setenv("GOOGLE_BASE_URL", account.pop("gcs_base_url"))
    (tmp_path / "application.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "application.json"))
    iso.backup(store, url)
    check_same(url, store)
    assert google.refused == []


def test_an_object_that_was_replaced_is_an_error(google: GoogleServer, tmp_path: Path) -> None:
    store, url, samples = tmp_path / "water.iso", f"gs://{BUCKET}/replaced.iso", waves(2_000_000, 1)
    with iso.open(store, "x") as writer:
        writer.create("a", dtype="i2", rate=2000).append(samples)
        writer.commit()
    iso.backup(store, url)
    signal_ = iso.open(url)["a"]
    np.testing.assert_array_equal(signal_[:1000].counts, samples[:1000])
    shard = "replaced.iso/a/data/c/0"
    google.objects.put(shard, bytes(len(google.objects.get(shard))))
    with pytest.raises((iso.StoreError, OSError)) as failed:
        signal_[1_000_000:].values()
    assert failed.value.code in ("changed_remotely", "wrong_shard", "damaged_file"), failed.value
    check_message(google, failed.value, shard)


def test_a_refusal_of_one_object_names_it_and_the_remedy(google: GoogleServer, tmp_path: Path) -> None:
    store, url = tmp_path / "water.iso", f"gs://{BUCKET}/denied.iso"
    make(store, 10_000)
    iso.backup(store, url)
    google.objects.fail("GET", "stn_1/pressure/data/c/0", error_document("403 Forbidden", "AccessDenied"))
    with pytest.raises(PermissionError) as failed:
        iso.open(url)["stn_1/pressure"][:].values()
    assert failed.value.code == "access_denied"
    says = ("stn_1/pressure/data/c/0", "403 AccessDenied", "GOOGLE_APPLICATION_CREDENTIALS")
    check_message(google, failed.value, *says)


def test_errors_name_the_address_and_the_remedy_and_no_secret(
    google: GoogleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for where, code, says in (
        ("gs://none-of-these/a.iso", "no_such_bucket", "bucket does not exist"),
        (f"gs://{BUCKET}/no.iso", "not_a_store", "nothing is there"),
    ):
        with pytest.raises(FileNotFoundError) as missing:
            iso.open(where)
        assert missing.value.code == code, missing.value
        check_message(google, missing.value, where, says)

    account = tmp_path / "other.json"
    other = google.account()
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(account))
    account.write_text(json.dumps({**other, "client_email": "somebody@else.example"}))
    with pytest.raises(PermissionError) as denied:
        iso.open(f"gs://{BUCKET}/w.iso")
    assert denied.value.code == "access_denied" and google.refused[-1] == "a wrong claim"
    check_message(google, denied.value, f"gs://{BUCKET}/w.iso", "401", "GOOGLE_APPLICATION_CREDENTIALS")

    account.write_text(json.dumps({**other, "private_key": other["private_key"][:100]}))
    with pytest.raises((iso.StoreError, OSError)) as wrong:
        iso.open(f"gs://{BUCKET}/w.iso")
    assert wrong.value.code == "bad_cloud_settings", wrong.value
    check_message(google, wrong.value, "GOOGLE_APPLICATION_CREDENTIALS")


def test_a_server_that_is_not_trusted_gets_no_token(google: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(OSError) as failed:
        iso.open(f"gs://{BUCKET}/w.iso")
    assert failed.value.code == "unreachable", failed.value
    check_message(google, failed.value, f"gs://{BUCKET}/w.iso", "certificate")
    assert google.objects.requests == []


@pytest.mark.parametrize(("host", "code"), [("127.0.0.1:1", "unreachable"), ("192.0.2.1", "bad_cloud_settings")])
def test_an_endpoint_without_encryption_is_used_on_this_machine_alone(
    google: GoogleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, code: str
) -> None:
    monkeypatch.setenv("GOOGLE_BASE_URL", f"http://{host}")
    with pytest.raises((iso.StoreError, OSError)) as failed:
        iso.open(f"gs://{BUCKET}/w.iso")
    assert failed.value.code == code
    assert "scheme is not allowed" not in str(failed.value)
