"""Stores in object storage: read as their copies on a disk are, by a server that this test starts."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from object_server import BUCKET, KEY, SECRET, Line, line_to, serve

pytestmark = pytest.mark.skipif(os.name != "posix", reason="starts a server")

RATE = 2000
SAMPLES = 1_500_000


def waves(count: int, seed: int) -> Any:
    random = np.random.default_rng(seed)
    return (np.sin(np.arange(count) / 50) * 1000 + random.normal(0, 50, count)).astype("i2")


def make(path: Path) -> None:
    """A raw signal with gaps, two sealed ones, and one of complex samples."""
    with iso.open(path, "x") as store:
        raw = store.create("stn_1/pressure", dtype="i2", rate=RATE, unit="kPa", scale=0.5, start="2010-03-01")
        left = waves(SAMPLES, 1)
        for part in np.array_split(left, 7):
            raw.append(part)
            raw.append_gap(samples=311)
        sealed = store.create("stn_2/pressure", dtype="f4", rate=RATE, start="2010-03-01")
        sealed.append(waves(SAMPLES, 2).astype("f4"))
        slow = store.create("stn_2/temperature", dtype="f8", rate=1, start="2010-03-01")
        slow.append(np.linspace(0, 1, 3000))
        store.create("radio", dtype="c8", rate=1000).append(waves(9000, 3) * np.complex64(1 + 2j))
        store.commit()
    with iso.open(path, "r+") as store:
        store["stn_2/pressure"].seal("zstd")


def put(target: Path, content: bytes) -> None:
    """Writes an object as an upload does: readers get the old one or the new one, never a part."""
    target.parent.mkdir(parents=True, exist_ok=True)
    bucket = next(folder for folder in target.parents if folder.name == BUCKET)
    part = bucket.parent.parent / "upload"
    part.write_bytes(content)
    part.replace(target)


def publish(store: Path, bucket: Path) -> str:
    """Copies a store into a bucket as an uploader does: what names the live state last. Gives its name there."""

    def order(path: Path) -> tuple[int, str]:
        name = path.name
        return (name.startswith("log.") + 2 * (name == "MANIFEST"), str(path))

    files = sorted((path for path in store.rglob("*") if path.is_file()), key=order)
    for path in files:
        target = bucket / store.name / path.relative_to(store)
        content = path.read_bytes()
        if not target.exists() or target.read_bytes() != content:
            put(target, content)
    return store.name


@dataclass
class Cloud:
    """A store on a disk, the same in a bucket, and the line to the server."""

    local: Path
    url: str
    bucket: Path
    line: Line


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp("cloud")
    local, bucket = folder / "water.iso", folder / "served" / BUCKET
    bucket.mkdir(parents=True)
    make(local)
    name = publish(local, bucket)
    with serve(bucket.parent) as port, line_to(port) as line:
        yield Cloud(local, f"s3://{BUCKET}/{name}", bucket, line)


@pytest.fixture
def cloud(served: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    line = served.line
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{line.port}",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    yield served
    line.delay, line.rate, line.refused, line.cut, line.hangs = 0.0, 0.0, 0, 0, False


def both(cloud: Cloud) -> tuple[iso.Store, iso.Store]:
    return iso.open(cloud.url), iso.open(cloud.local)


def test_signals_show_the_same_as_on_a_disk(cloud: Cloud) -> None:
    remote, local = both(cloud)
    assert remote.path == cloud.url
    assert list(remote) == list(local)
    for name in local:
        there, here = remote[name], local[name]
        assert (there.end_index, there.unit, there.rate, there.codec) == (
            here.end_index,
            here.unit,
            here.rate,
            here.codec,
        )
        assert [(gap.start, gap.length) for gap in there.gaps] == [(gap.start, gap.length) for gap in here.gaps]
        np.testing.assert_array_equal(there[:].values(), here[:].values())
        np.testing.assert_array_equal(there[1000:2000].values(), here[1000:2000].values())
        assert there.sizes()["samples"] == here.sizes()["samples"]
    assert dict(remote.attrs) == dict(local.attrs)


@pytest.mark.parametrize("name", ["stn_1/pressure", "stn_2/pressure"])
@pytest.mark.parametrize("workers", [1, 2])
def test_plans_compute_the_same(cloud: Cloud, name: str, workers: int) -> None:
    remote, local = both(cloud)
    results = []
    for store in (remote, local):
        plan = iso.scan(store[name]).rewindow(1000).stats("min", "max", "mean", "std")
        results.append(plan.collect(workers=workers))
    assert [list(column) for column in results[0].columns] == [list(column) for column in results[1].columns]
    for column in results[1].columns:
        np.testing.assert_array_equal(np.asarray(results[0][column]), np.asarray(results[1][column]))


def test_views_are_the_same(cloud: Cloud) -> None:
    remote, local = both(cloud)
    for name in ("stn_1/pressure", "stn_2/pressure"):
        there, here = (store[name].view(None, pixels=300) for store in (remote, local))
        for key in ("min", "max", "mean", "start"):
            np.testing.assert_array_equal(getattr(there, key), getattr(here, key))


def test_range_requests_are_chosen_and_named_and_other_strategies_are_said_not_to_apply(cloud: Cloud) -> None:
    remote, local = both(cloud)
    scan = iso.scan(remote["stn_1/pressure"]).rewindow(1000).stats("max")
    assert "range_requests" in str(scan.explain())
    report = scan.run().report
    assert "stn_1/pressure: range_requests" in str(report.reads)
    asked = iso.scan(remote["stn_1/pressure"], io="mmap").rewindow(1000).stats("max").run().report
    assert "range_requests instead of mmap" in str(asked.reads)
    assert "objects on a server" in str(asked.reads)
    here = iso.scan(local["stn_1/pressure"], io="range_requests").rewindow(1000).stats("max").run().report
    assert "read instead of range_requests" in str(here.reads)


def test_pickled_signals_and_plans_name_the_url_and_no_secret(cloud: Cloud) -> None:
    remote, local = both(cloud)
    sent = pickle.dumps((remote["stn_1/pressure"], remote))
    assert cloud.url.encode() in sent
    assert KEY.encode() not in sent and SECRET.encode() not in sent
    plan = iso.scan(remote["stn_1/pressure"]).rewindow(1000).stats("max")
    saved = plan.to_json()
    assert cloud.url in str(saved) and SECRET not in str(saved)
    again = iso.Plan.from_json(saved).collect()
    np.testing.assert_array_equal(again["max"], plan.collect()["max"])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(total, (remote["stn_1/pressure"],))
    assert there == float(np.nansum(local["stn_1/pressure"][:].values()))


def test_a_forked_process_reads_with_connections_of_its_own(cloud: Cloud) -> None:
    remote, local = both(cloud)
    signal_ = remote["stn_2/pressure"]
    expected = float(np.nansum(signal_[:].values()))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(total, (signal_,)).get(60) == expected
    assert float(np.nansum(signal_[:].values())) == expected
    local.close()


def total(signal_: iso.Signal) -> float:
    return float(np.nansum(signal_[:].values()))


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "isochrony", *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=120)


def test_commands_read_urls(cloud: Cloud, tmp_path: Path) -> None:
    there, here = (json.loads(command("info", where, "--json").stdout) for where in (cloud.url, str(cloud.local)))
    assert there["store"] == cloud.url
    names = [one["name"] for one in here["signals"]]
    assert [one["name"] for one in there["signals"]] == names
    one = command("info", cloud.url + "/stn_1/pressure")
    assert one.returncode == 0 and "kPa" in one.stdout, one.stderr
    checked = command("verify", cloud.url)
    assert checked.returncode == 0 and "sound" in checked.stdout, checked.stdout + checked.stderr
    files = [tmp_path / "there.npy", tmp_path / "here.npy"]
    for where, out in zip((cloud.url, str(cloud.local)), files, strict=True):
        done = command("export", where + "/stn_2/temperature", "--format", "npy", "--out", str(out))
        assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(*(np.load(out) for out in files))
    scanned = [
        command("scan", f"{where}/stn_1/pressure", "--window", "60s", "--stats", "min,max").stdout
        for where in (cloud.url, str(cloud.local))
    ]
    assert scanned[0] == scanned[1] != ""


def test_verify_finds_what_is_damaged(cloud: Cloud, tmp_path: Path) -> None:
    bad = cloud.bucket / "bad.iso"
    shutil.copytree(cloud.bucket / cloud.local.name, bad)
    shard = next((bad / "stn_1" / "pressure" / "data").rglob("0"))
    content = bytearray(shard.read_bytes())
    content[200_000] ^= 1
    put(shard, content)
    report = iso.verify(f"s3://{BUCKET}/bad.iso")
    assert report["verdict"] == "damaged"
    assert [one["code"] for one in report["damage"]] == ["flipped_bits"]


def test_writing_is_refused_in_one_line(cloud: Cloud) -> None:
    for mode in ("r+", "a", "x"):
        with pytest.raises(PermissionError, match="stores at URLs are read-only") as refused:
            iso.open(cloud.url, mode)
        assert refused.value.code == "remote_read_only"
        assert "\n" not in str(refused.value)
    with pytest.raises(PermissionError, match="read-only"):
        iso.verify(cloud.url, repair=True)
    store = iso.open(cloud.url)
    with pytest.raises(PermissionError):
        store.create("new", dtype="i2", rate=1)
    with pytest.raises(PermissionError):
        store["stn_1/pressure"].seal()


def test_a_backup_from_a_url_is_the_store(cloud: Cloud, tmp_path: Path) -> None:
    iso.backup(cloud.url, tmp_path / "copy.iso")
    copy, local = iso.open(tmp_path / "copy.iso"), iso.open(cloud.local)
    for name in local:
        np.testing.assert_array_equal(copy[name][:].values(), local[name][:].values())


def test_a_growing_store_is_read_as_of_its_last_published_state(cloud: Cloud, tmp_path: Path) -> None:
    local = tmp_path / "growing.iso"
    expected = waves(400_000, 5)
    with iso.open(local, "x") as writer:
        grows = writer.create("a", dtype="i2", rate=RATE, start="2010-03-01")
        grows.append(expected[:100_000])
        writer.commit()
        publish(local, cloud.bucket)
        reader = iso.open(f"s3://{BUCKET}/growing.iso")
        old = reader["a"]
        np.testing.assert_array_equal(old[:].counts, expected[:100_000])
        ends = [100_000]
        for end in (100_010, 150_000, 400_000):
            grows.append(expected[ends[-1] : end])
            writer.commit()
            if end == 150_000:
                writer.checkpoint()
            shown = reader["a"][:]
            assert shown.sample_count == ends[-1], "nothing was published"
            publish(local, cloud.bucket)
            # A selection stays as it was made.
            np.testing.assert_array_equal(shown.counts, expected[: ends[-1]])
            assert reader.refresh()
            ends.append(end)
            np.testing.assert_array_equal(reader["a"][:].counts, expected[:end])
            scanned = iso.scan(reader["a"], counts=True).rewindow(10).stats("max").collect()
            np.testing.assert_array_equal(scanned["max"], expected[:end].reshape(-1, 10).max(axis=1))
            assert not reader.refresh()


def test_what_a_server_refuses_for_a_moment_or_breaks_off_is_asked_for_again(cloud: Cloud) -> None:
    expected = iso.open(cloud.local)["stn_1/pressure"][:].values()
    line = cloud.line
    line.refused = 3
    store = iso.open(cloud.url)
    assert line.refused == 0
    for _ in range(2):
        line.cut, line.cut_path = 3, "/data/"
        np.testing.assert_array_equal(store["stn_1/pressure"][:].values(), expected)
        store = iso.open(cloud.url)
    assert line.cut == 0
    line.cut, line.refused = 2, 2
    plan = iso.scan(store["stn_1/pressure"]).rewindow(1000).stats("max")
    here = iso.scan(iso.open(cloud.local)["stn_1/pressure"]).rewindow(1000).stats("max")
    np.testing.assert_array_equal(plan.collect()["max"], here.collect()["max"])


def test_a_server_that_goes_on_refusing_is_said_to(cloud: Cloud) -> None:
    store = iso.open(cloud.url)
    cloud.line.refused = 10_000
    with pytest.raises(OSError, match=r"503 SlowDown") as failed:
        store["stn_1/pressure"][:].values()
    assert failed.value.code == "server_error"
    check_secrets(failed.value)


def check_secrets(error: BaseException) -> None:
    text = f"{error} {error!r} {error.args}"
    assert SECRET not in text and KEY not in text and "\n" not in str(error)


def test_an_object_that_was_replaced_is_no_mixture(cloud: Cloud) -> None:
    other = cloud.bucket / "other.iso"
    shutil.copytree(cloud.bucket / cloud.local.name, other)
    store = iso.open(f"s3://{BUCKET}/other.iso")
    signal_ = store["stn_1/pressure"]
    signal_[:10].values()
    shard = next((other / "stn_1" / "pressure" / "data").rglob("0"))
    content = bytearray(shard.read_bytes())
    # Another file altogether: it does not say any more that it is this shard.
    content[:8192] = bytes(8192)
    put(shard, content)
    os.utime(shard, (time.time() + 5, time.time() + 5))
    with pytest.raises(iso.StoreError) as failed:
        signal_[800_000:1_000_000].values()
    assert failed.value.code in ("changed_remotely", "damaged_file", "wrong_shard"), failed.value


def test_the_endpoint_of_s3_alone_counts_before_that_of_all_services(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://nobody.invalid")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    assert list(iso.open(cloud.url)) == list(iso.open(cloud.local))


def test_an_endpoint_without_encryption_is_refused_before_a_request(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://localhost:{cloud.line.port}@192.0.2.1")
    before = len(cloud.line.requests)
    wanted = r"http://192.0.2.1 \(AWS_ENDPOINT_URL\) is not encrypted.*AWS_ALLOW_HTTP=true"
    with pytest.raises(iso.StoreError, match=wanted) as refused:
        iso.open(cloud.url)
    assert refused.value.code == "bad_cloud_settings"
    check_secrets(refused.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{cloud.line.port}")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "perhaps")
    with pytest.raises(iso.StoreError, match=r"AWS_ALLOW_HTTP is .perhaps., not true or false"):
        iso.open(cloud.url)
    assert len(cloud.line.requests) == before
    monkeypatch.setenv("AWS_ALLOW_HTTP", "Yes")
    assert list(iso.open(cloud.url)) == list(iso.open(cloud.local))


@pytest.mark.parametrize("mode", ["r", "x"])
@pytest.mark.parametrize("url", ["ftp://x/y.iso", "gcs://x/y.iso", "file:///tmp/y.iso", "S3://x/y.iso"])
def test_urls_of_other_schemes_are_refused_and_make_no_folder(
    url: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (url, Path(url)):
        with pytest.raises(ValueError, match=r"s3://, .*gs://, az://.*https://") as refused:
            iso.open(path, mode)
        assert refused.value.code == "bad_url"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "where", "kind", "code", "says"),
    [
        ({}, "s3://no-such-bucket/a.iso", FileNotFoundError, "no_such_bucket", "bucket does not exist"),
        ({}, f"s3://{BUCKET}/no.iso", FileNotFoundError, "not_a_store", "nothing is there"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, f"s3://{BUCKET}/water.iso", PermissionError, "access_denied", "403"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, f"s3://{BUCKET}/w.iso", OSError, "unreachable", "refused"),
        ({"AWS_ENDPOINT_URL": "http://nobody.invalid"}, f"s3://{BUCKET}/w.iso", Exception, None, "s3://"),
        ({}, "s3:///a.iso", ValueError, "bad_url", "no bucket"),
    ],
)
def test_errors_name_the_url_and_the_remedy_and_no_secret(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], where: str, kind: Any, code: Any, says: str
) -> None:
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(kind, match=says) as failed:
        iso.open(where)
    if code:
        assert failed.value.code == code, failed.value
    check_secrets(failed.value)


def test_reprs_and_reports_show_no_secret(cloud: Cloud) -> None:
    store = iso.open(cloud.url)
    plan = iso.scan(store["stn_1/pressure"]).rewindow(1000).stats("max")
    report = plan.run().report
    shown = [repr(store), repr(store["stn_1/pressure"]), str(plan), str(plan.explain()), str(report), repr(report)]
    shown.append(report.to_json() if hasattr(report, "to_json") else "")
    for text in shown:
        assert SECRET not in str(text) and KEY not in str(text)


def test_urls_with_secrets_are_refused_and_not_shown(cloud: Cloud) -> None:
    for url in ("https://me:hidden@host/a.iso", "https://host/a.iso?sig=hidden", "s3://me:hidden@bucket/a.iso"):
        with pytest.raises(ValueError, match="hold no secrets") as refused:
            iso.open(url)
        assert "hidden" not in str(refused.value) and refused.value.code == "bad_url"


def test_ctrl_c_ends_waiting_for_a_server_within_a_tenth_of_a_second(cloud: Cloud) -> None:
    program = f"""
        import os, signal, threading, time
        import isochrony as iso
        signal.signal(signal.SIGINT, signal.default_int_handler)
        store = iso.open({cloud.url!r})
        one = store["stn_1/pressure"]
        print("open", flush=True)
        input()
        for call in (
            lambda: one[5000:900_000].values(),
            lambda: one.view(None, pixels=1000),
            lambda: iso.open({cloud.url!r}),
        ):
            took = []
            for _ in range(3):
                pressed = []
                def press():
                    time.sleep(0.3)
                    pressed.append(time.perf_counter())
                    os.kill(os.getpid(), signal.SIGINT)
                thread = threading.Thread(target=press)
                thread.start()
                try:
                    call()
                    print("no interrupt", flush=True)
                except KeyboardInterrupt:
                    took.append(time.perf_counter() - pressed[0])
                thread.join()
            # Others may keep this machine busy at one time, not at all three.
            print(min(took), flush=True)
    """
    code = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == "open\n"
        cloud.line.hangs = True
        child.stdin.write("\n")
        child.stdin.flush()
        try:
            took = [float(child.stdout.readline()) for _ in range(3)]
        finally:
            cloud.line.hangs = False
            child.send_signal(signal.SIGKILL)
    assert max(took) < 0.1, took


@contextmanager
def web_server(tmp_path: Path, delay: str, *status: str) -> Iterator[str]:
    """A web server of the folder ``www``, 200 MB/s in all; gives its URL."""
    (tmp_path / "www").mkdir(exist_ok=True)
    program = str(Path(__file__).parents[1] / "range_server.py")
    command = [sys.executable, program, str(tmp_path / "www"), delay, "200e6", *status]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.terminate()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A web server that takes 30 ms for a request."""
    with web_server(tmp_path, "0.030") as url:
        yield url


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        ("405 Method Not Allowed", OSError, "cannot_list"),
        ("403 Forbidden", PermissionError, "access_denied"),
    ],
)
def test_a_web_server_that_refuses_a_list_is_not_said_to_have_none(
    tmp_path: Path, status: str, kind: Any, code: str
) -> None:
    with web_server(tmp_path, "0", status) as url:
        make(tmp_path / "www" / "a.iso")
        with pytest.raises(kind) as failed:
            iso.open(url + "/a.iso")["radio"].sizes()
        assert failed.value.code == code, failed.value


def test_a_web_server_that_lists_nothing_is_read(web: str, tmp_path: Path) -> None:
    make(tmp_path / "www" / "a.iso")
    there, here = iso.open(web + "/a.iso"), iso.open(tmp_path / "www" / "a.iso")
    for name in here:
        np.testing.assert_array_equal(there[name][:].values(), here[name][:].values())
    with pytest.raises(OSError, match="does not list folders") as failed:
        there["radio"].sizes()
    assert failed.value.code == "cannot_list"


@pytest.mark.alone
def test_the_latency_of_requests_is_hidden_from_a_cold_scan(web: str, tmp_path: Path) -> None:
    block = waves(16 << 20, 9)
    with iso.open(tmp_path / "www" / "big.iso", "x") as store:
        long = store.create("long", dtype="i2", rate=1_000_000)
        for _ in range(27):
            long.append(block)
    size, rates = 27 * block.nbytes, []
    for _ in range(3):
        # No sample of it was read before.
        plan = iso.scan(iso.open(web + "/big.iso")["long"], counts=True).rewindow(1 << 12).stats("max")
        begun = time.perf_counter()
        found = plan.collect()["max"]
        rates.append(size / (time.perf_counter() - begun))
    np.testing.assert_array_equal(found, np.tile(block.reshape(-1, 1 << 12).max(axis=1), 27))
    print(f"cold scans at {[round(rate / 1e6) for rate in rates]} MB/s of 200")
    # The best of three: a machine that is busy with something else is slower than its line.
    assert max(rates) > 0.9 * 200e6
