"""Blocks of the documentation that need a Dask scheduler or a bucket, run with both; the rest is checked by its names.

Only addresses and folders are replaced, which lead nowhere, and the rate of a feed, to one at which no datagram is lost
while another process waits for a core.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from block_names import CheckedCode, Instance
from document_blocks import PAGES, ROOT, Block, blocks_of, commands_of
from isochrony.cli import main
from isochrony.cluster.connect import _CLIENTS, workers_of
from object_server import BUCKET, KEY, SECRET, serve

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="starts servers")

RATE = 2000
SAMPLES = 300_000
#: Addresses of the pages: of a scheduler, of a worker, of a feed.
SCHEDULER, WORKER, FEED = "tcp://10.0.0.5:8786", "tcp://10.0.0.7:40331", "udp://127.0.0.1:9000"
#: The rate of that feed.
FEED_RATE = "rate=200_000"
CACHE = "/scratch/isochrony"


def blocks_with(*languages: str) -> dict[str, list[Block]]:
    """Blocks for which something is started, by page."""
    found = {page: [one for one in blocks_of(page) if one.run_with and one.language in languages] for page in PAGES}
    return {page: blocks for page, blocks in found.items() if blocks}


@dataclass
class Cluster:
    """A scheduler with workers "0", "1" and "buoy".

    Attributes:
        client: of the scheduler.
        address: of the scheduler.
    """

    client: Any
    address: str

    def worker(self, name: str) -> str:
        """The address of a worker, which may not have joined yet."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for address, worker in workers_of(self.client).items():
                if str(worker["name"]) == name:
                    return str(address)
            time.sleep(0.05)
        raise AssertionError(f"worker {name} does not join")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as local, distributed.Client(local) as client:
        address = local.scheduler_address
        with worker_process(address, "buoy"):
            try:
                yield Cluster(client, address)
            finally:
                kept = _CLIENTS.pop(address, None)
                if kept is not None:
                    kept.close()


@contextlib.contextmanager
def worker_process(scheduler: str, name: str) -> Iterator[None]:
    """A process that joins a scheduler as a worker of one thread."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--name", name, "--nthreads", "1"]
    command += ["--no-nanny", "--no-dashboard"]
    paths = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def bucket(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment in which a server is found that has an empty bucket of the pages' name."""
    folder = tmp_path_factory.mktemp("served")
    (folder / BUCKET).mkdir()
    with serve(folder) as port:
        names = {"ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": SECRET, "REGION": "us-east-1"}
        settings = {f"AWS_{name}": value for name, value in names.items()}
        settings["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        yield settings


def recording(path: Path) -> np.ndarray[Any, Any]:
    """A store with the signal that the pages read."""
    values = np.random.default_rng(7).normal(size=SAMPLES).astype("f4")
    with iso.open(path, "x") as store:
        store.create("stn_10/pressure", dtype="f4", rate=RATE, start="2026-03-01").append(values)
        store.commit()
    return values


@dataclass
class Page:
    """Runs blocks of a page one after another, in one namespace.

    Attributes:
        name: its path.
        replaced: what stands in for text of the page.
        names: what the blocks find defined, and define.
    """

    name: str
    replaced: dict[str, str]
    names: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Functions of a script travel to workers by value.
        self.names |= {"__name__": "__main__", "iso": iso}
        self.blocks = iter(blocks_with("python")[self.name])

    def run(self) -> str:
        """Run the next block; what it prints."""
        code = next(self.blocks).code
        for text, other in self.replaced.items():
            code = code.replace(text, other)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, self.name, "exec"), self.names)
        return printed.getvalue()

    def end(self) -> None:
        """No block is left."""
        assert list(self.blocks) == []


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_page_with_a_service_is_run() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    pages = set(blocks_with("python", "sh"))
    assert len(pages) >= 6
    assert {page for page in pages if f'"{page}"' not in text} == set()
    assert set(re.findall(r'"(docs/[\w/]+\.md)"', text)) == pages


def command_in(page: str, command: str) -> str:
    """Arguments of the one example of a command in the text of a page."""
    (line,) = re.findall(rf"`isochrony ({command} [^`]*)`", (ROOT / page).read_text(encoding="utf-8"))
    return str(line)


def denoise(inputs: Any, outputs: Any) -> None:
    outputs[0][:] = -np.asarray(inputs[0])


@pytest.fixture
def leaving(cluster: Cluster) -> Iterator[str]:
    """The address of one more worker, which a test may retire."""
    with worker_process(cluster.address, "leaving"):
        yield cluster.worker("leaving")


def test_plans_on_a_cluster(cluster: Cluster, leaving: str, tmp_path: Path) -> None:
    values = recording(tmp_path / "water.iso")
    page = Page("docs/cluster.md", {SCHEDULER: cluster.address, WORKER: leaving})
    signal = iso.open("water.iso")["stn_10/pressure"]
    page.names |= {"signal": signal}
    page.run()
    assert page.names["client"].scheduler.address == cluster.address
    np.testing.assert_array_equal(page.names["largest"], page.names["spectra"].collect(workers=1))
    page.run()
    until = time.monotonic() + 30
    while leaving in workers_of(cluster.client):
        assert time.monotonic() < until, "the worker is drained and retired"
        time.sleep(0.05)
    with iso.open("clean.iso", "x") as store:
        clean = store.create("clean", dtype="f4", rate=RATE)
        clean.reserve(SAMPLES)
        store.commit()
        page.names |= {"denoise": denoise, "clean": clean}
        page.run()
        np.testing.assert_array_equal(clean.values(), -values)
    assert [tasklet.state for tasklet in page.names["report"].tasklets] == ["done"]
    assert "functions were called by tcp://" in " ".join(page.names["report"].notes)
    page.names["client"].close()
    page.end()


def test_tuning_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    recording(tmp_path / "water.iso")
    page = Page("docs/tuning/clusters.md", {SCHEDULER: cluster.address})
    page.names |= {"signal": iso.open("water.iso")["stn_10/pressure"]}
    page.run()
    found = iso.Configuration.load("cluster.json")
    assert found == page.names["report"].tuning.configuration
    assert found.machine.startswith("a cluster of ")
    page.names["client"].close()
    page.end()


def test_the_plan_of_a_command_on_a_cluster(cluster: Cluster, tmp_path: Path, capfd: Any) -> None:
    values = recording(tmp_path / "water.iso")
    plan = iso.scan(iso.open("water.iso")["stn_10/pressure"]).rewindow(SAMPLES).stats("max")
    Path("plan.json").write_text(plan.to_json(), encoding="utf-8")
    line = command_in("docs/cluster.md", "run")
    assert main(shlex.split(line.replace(SCHEDULER, cluster.address))) == 0
    assert str(values.max())[:6] in capfd.readouterr().out


def test_files_on_a_cluster(cluster: Cluster, tmp_path: Path, capfd: Any) -> None:
    images = [np.random.default_rng(seed).integers(0, 255, (40, 50)) for seed in range(6)]
    for number, image in enumerate(images):
        np.save(f"{number}.npy", image)
    urls = [str(tmp_path / f"{number}.npy") for number in range(6)]
    folder = str(tmp_path / "cache-{worker}")
    page = Page("docs/diffusion.md", {SCHEDULER: cluster.address, CACHE: folder}, {"read": np.load, "urls": urls})
    printed = page.run().splitlines()
    assert printed[:6] == [str(image.max()) for image in images]
    assert page.names["results"].report.tasks == 6
    page.names["client"].close()
    page.end()
    Path("urls.txt").write_text("\n".join(urls) + "\n", encoding="utf-8")
    line = command_in("docs/diffusion.md", "map")
    words = shlex.split(line.replace(SCHEDULER, cluster.address))
    words[1:1] = ["--folder", folder, "--cache", "1GB"]
    assert main(words) == 0
    counted = [int(one.split()[0]) for one in capfd.readouterr().out.splitlines()]
    assert counted == [Path(url).stat().st_size for url in urls]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux who receives datagrams")
def test_a_part_of_a_plan_beside_its_sensor(cluster: Cluster) -> None:
    cluster.worker("buoy")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        address = f"udp://127.0.0.1:{free.getsockname()[1]}"
    rate = 20_000
    samples = np.random.default_rng(3).normal(size=3 * rate).astype("f4")
    samples[rate + 1000 : rate + 1400] *= 200
    sender = threading.Thread(
        target=send_to_whom_listens, args=(iso.scan(samples, rate=rate, start="2026-03-01"), address)
    )
    sender.start()
    with iso.open("events.iso", "x") as store:
        replaced = {SCHEDULER: cluster.address, FEED: address, FEED_RATE: f"rate={rate}"}
        page = Page("docs/cluster/sensors.md", replaced, {"store": store})
        page.run()
        sender.join()
        ratios = iso.scan(samples, rate=rate).highpass(2_000).stalta("1ms", "50ms")
        expected = ratios.rewindow("1s").map(lambda s: s.max()).collect()
        np.testing.assert_array_equal(store["loudest"].values(), expected.ravel())
        assert len(expected) == 3
    page.end()


def send_to_whom_listens(plan: iso.Plan, address: str) -> None:
    """Send a plan's samples by datagrams once somebody receives them: what is sent before is lost."""
    port = f":{int(address.rpartition(':')[2]):04X} "
    until = time.monotonic() + 30
    while port not in Path("/proc/net/udp").read_text() and time.monotonic() < until:
        time.sleep(0.02)
    plan.send(address, speed=1.0).run()


def test_signals_through_caches(cluster: Cluster, bucket: dict[str, str], tmp_path: Path) -> None:
    recording(tmp_path / "water.iso")
    iso.backup("water.iso", f"s3://{BUCKET}/water.iso")
    cluster.client.run(os.environ.update, bucket)
    page = Page("docs/cached_signals.md", {SCHEDULER: cluster.address, CACHE: str(tmp_path / "cache-{worker}")})
    printed = page.run().splitlines()
    assert sum(int(line.split()[3]) for line in printed) >= 4 * (SAMPLES // 4096 - 1) * 4096
    page.names["store"].close()
    plan = iso.scan(iso.open("water.iso")["stn_10/pressure"]).rewindow(4096).power().map(lambda s: s.max())
    np.testing.assert_array_equal(iso.open("spectra.iso")["largest"].values(), plan.collect(workers=1).ravel())
    iso.cluster.attach(page.names["client"], cache="1GB").close()
    page.names["client"].close()
    page.end()


def commands(page: str) -> list[list[str]]:
    """Arguments of the page's commands."""
    return [words for block in blocks_with("sh")[page] for words in commands_of(block)]


def test_stores_in_a_bucket(bucket: dict[str, str], tmp_path: Path, capfd: Any) -> None:
    values = recording(tmp_path / "water.iso")
    iso.backup("water.iso", f"s3://{BUCKET}/water.iso")
    page = Page("docs/cloud.md", {})
    page.run()
    assert page.names["store"]["stn_10/pressure"].sample_count == len(values)
    page.end()
    for words in commands("docs/cloud.md"):
        # Of other services the tests' servers are not these; the bucket has the same store.
        words = [re.sub(r"^(gs://recordings|https://data.example.org)", f"s3://{BUCKET}", word) for word in words]
        assert main(words) == 0, words
    assert "stn_10/pressure" in capfd.readouterr().out
    import pyarrow.parquet as pq

    assert pq.read_table("pressure.parquet").num_rows == len(values)


def test_copies_in_a_bucket(bucket: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with iso.open(tmp_path / "water.iso", "x") as store:
        for name in ("stn_10/pressure", "stn_20/pressure"):
            store.create(name, dtype="i2", rate=RATE).append(np.arange(1000, dtype="i2"))
        store.commit()
    url = f"s3://{BUCKET}/water.iso"
    done = []
    for words in commands("docs/cloud/push.md"):
        if words[0] == "pull":
            (tmp_path / "other").mkdir()
            monkeypatch.chdir(tmp_path / "other")
        assert main(words) == 0, words
        done.append(words[0])
        assert set(iso.open(url)) == {"stn_10/pressure", "stn_20/pressure"}
    assert done == ["push", "push", "pull"]
    pulled = iso.open("water.iso")
    np.testing.assert_array_equal(pulled["stn_20/pressure"].values(), np.arange(1000))
    monkeypatch.chdir(tmp_path)
    with iso.open("water.iso", "r+") as store:
        store["stn_10/pressure"].append(np.arange(500, dtype="i2"))
        store.commit()
    page = Page("docs/cloud/push.md", {})
    page.run()
    page.end()
    assert iso.open(url)["stn_10/pressure"].sample_count == 1500


#: What blocks that are not run find defined: also a class of a package that may be missing, of which nothing is known.
DEFINED = {
    "iso": iso,
    "spectra": Instance(iso.Plan),
    "client": Instance(distributed.Client),
    "SLURMCluster": None,
}
NOT_RUN = [block for page in PAGES for block in blocks_of(page) if block.not_run]


@pytest.mark.parametrize("block", NOT_RUN, ids=[f"{block.page}-{block.number}" for block in NOT_RUN])
def test_what_is_not_run_names_what_there_is(block: Block) -> None:
    code = CheckedCode(dict(DEFINED))
    code.check(block.code)
    assert code.problems == []
    assert "Plan.collect" in code.calls


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("spectra.collect(on=client, scales=(1, 20))", "unexpected keyword argument 'scales'"),
        ("spectra.gather()", "Plan has no gather"),
        ("iso.scan(x).rewindows(4)", "Plan has no rewindows"),
        ("from isochrony.cluster import drained", "isochrony.cluster has no drained"),
        ("from isochrony.clusters import drain", "no module isochrony.clusters"),
        ("from dask.distributed import Client\nClient('tcp://x').retire_worker(['a'])", "Client has no retire_worker"),
        ("largest = [spectra.collect(client)]", "too many positional arguments"),
        ("if x:\n    spectra.gather()", "Plan has no gather"),
        ("with iso.cluster.attach() as attachment: pass", "missing a required argument: 'client'"),
        ("spectra.collect(on=clinet)", "clinet is not defined"),
        ("lcient.close()", "lcient is not defined"),
        ("def f(client): return client, clinet", "clinet is not defined"),
    ],
)
def test_a_name_or_argument_that_is_not_there_is_found(code: str, problem: str) -> None:
    checked = CheckedCode(DEFINED | {"x": None})
    checked.check(code)
    assert len(checked.problems) == 1 and problem in checked.problems[0]


@pytest.mark.parametrize(
    "code",
    [
        "with SLURMCluster() as cluster: spectra.collect(on=cluster)",
        "for client, (_, *spectra) in zip([1], [2]): client.gone(), spectra.gone()",
        "def f(a, *b, c=spectra, **d): return [e for e in (a, b, c, d)] + [client.run(len)]\nf(lambda g: g)",
        "try: count = 0\nexcept OSError as error: print(error)\nelse: count += 1",
        "import os.path as here, dask\nhere.join(dask.__name__)",
    ],
)
def test_names_are_bound_in_other_ways_than_by_assignment(code: str) -> None:
    checked = CheckedCode(dict(DEFINED))
    checked.check(code)
    assert checked.problems == []


def test_few_blocks_are_not_run() -> None:
    """SLURM twice, and Kubernetes."""
    assert len(NOT_RUN) == 3
