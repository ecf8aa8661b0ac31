"""What is chosen before the start: I/O strategies and pinning by tuning, one or several workers by measured costs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony import Configuration, machine
from isochrony.errors.native import OptionError, StoreValueError
from isochrony.running.options import RunOptions
from isochrony.running.runs import collect_reported

SAMPLES = 10_000_000


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    return tmp_path / "settings/isochrony"


def stored(path: Path) -> Any:
    """A signal of 20 MB: more than is read without a prediction. None of it is mapped."""
    with iso.open(path, "x") as writing:
        signal = writing.create("p", dtype="i2", rate=1_000_000)
        signal.append(np.random.default_rng(1).integers(-1000, 1000, SAMPLES).astype("i2"))
        writing.commit()
    return iso.open(path)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return stored(tmp_path_factory.mktemp("stored") / "a.iso")


def filtered(store: Any, **options: Any) -> Any:
    plan = iso.scan(store["p"], **options)
    for cutoff_hz in (9e4, 6e4):
        plan = plan.iir("butter", band="lowpass", cutoff_hz=cutoff_hz, order=4)
    return plan.rewindow(1000).stats("max")


def tuned(plan: Any, **options: Any) -> tuple[Configuration, Any]:
    report = plan.run(workers=2, **{"tune": True} | options).report
    assert report.tuning is not None
    assert report.tuning.configuration is not None
    return report.tuning.configuration, report


def caches() -> int:
    """Last-level caches of the CPUs that may be used, as the kernel lists them."""
    found = set()
    for cpu in os.sched_getaffinity(0):
        shared = Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")
        levels = [(int((one / "level").read_text()), (one / "shared_cpu_list").read_text()) for one in shared]
        found.add(max(levels)[1] if levels else "")
    return len(found)


def exactly(value: float) -> dict[str, float]:
    return {"low": value, "median": value, "high": value}


def profile_of(folder: Path, **seconds_per_byte: float) -> None:
    """Keeps a profile of a disk from which each strategy takes so long, and next to nothing from the page cache."""
    profile = machine.calibrate(folder, size=4 << 20, repeats=1)

    def path(each: float) -> dict[str, Any]:
        cold = {"wait": exactly(each), "fault_bytes": None, "throughput": exactly(1e9), "major_bytes": None}
        return {"ask": exactly(1e-12), "fault_bytes": None, "cold": cold}

    volume = profile["volumes"][0]
    costs = volume["costs"] | {"summarise": exactly(1e-12), "summarise_mapped": exactly(1e-12)}
    paths = {name: path(each) for name, each in seconds_per_byte.items()}
    machine.save(profile | {"volumes": [volume | {"costs": costs, "paths": paths, "kernels": {}}]})


def drop_from_cache(store: Any) -> None:
    for file in Path(store.path).rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def skip_unless_cached(plan: Any, part: str) -> str:
    """What explain() says, if so much of what the plan reads is in the page cache: "0%", or "100%"."""
    explained = str(plan.explain())
    if "no prediction: the disk" in explained:
        pytest.skip("the file system does not tell which disk it is on")
    found = re.search(r", (\d+%|an unknown part) in the page cache", explained)
    assert found is not None, explained
    if found[1] != part:
        pytest.skip(f"{found[1]} of the signal is in the page cache of this file system, not {part}")
    return explained


def test_strategies_are_part_of_the_configuration_and_replayed(store: Any, settings: Path, tmp_path: Path) -> None:
    plan = filtered(store)
    found, report = tuned(plan)
    assert found.io == ("mmap",)
    assert report.reads == ("p: mmap",)
    assert "io=('mmap',)" in repr(found)
    fields = {name: getattr(found, name) for name in Configuration.__slots__}
    other = Configuration(**fields | {"io": ("read",)})
    assert other != found
    other.save(tmp_path / "other.json")
    assert Configuration.load(tmp_path / "other.json") == other
    replayed, report = tuned(plan, tune=tmp_path / "other.json")
    assert replayed == other
    assert report.reads == ("p: read",)
    np.testing.assert_array_equal(plan.collect()["max"], plan.collect(workers=1)["max"])
    with pytest.raises(OptionError, match="made on another machine"):
        plan.run(tune=Configuration(**fields | {"machine": "an abacus, 1 cores"}))
    with pytest.raises(iso.PlanError, match="has 2 stored signals and the plan has 1"):
        plan.run(tune=Configuration(**fields | {"io": ("read", "read")}))
    with pytest.raises(StoreValueError, match=r"no I/O strategy .fread."):
        plan.run(tune=Configuration(**fields | {"io": ("fread",)}))


def test_a_strategy_that_the_user_gave_is_fixed(store: Any, settings: Path) -> None:
    found, report = tuned(filtered(store, io="read"))
    assert found.io == ("read",)
    assert report.reads == ("p: read",)
    # Without identities, so that it fits this plan, too.
    other = Configuration(found.workers, found.replicas, found.link_bytes, found.threads, io=("mmap",))
    replayed, report = tuned(filtered(store, io="read"), tune=other)
    assert replayed.io == ("read",)
    assert report.reads == ("p: read",)


@pytest.mark.parametrize(("best", "other"), [("read", "mmap"), ("mmap", "read")])
def test_the_strategy_is_the_fastest_of_the_profile(best: str, other: str, settings: Path, tmp_path: Path) -> None:
    store = stored(tmp_path / "a.iso")
    profile_of(tmp_path, **{best: 1e-9, other: 1e-6})
    drop_from_cache(store)
    assert f"{best} *" in skip_unless_cached(filtered(store), "0%")
    assert tuned(filtered(store))[0].io == (best,)


def test_threads_are_pinned_where_there_are_several_caches(store: Any, settings: Path) -> None:
    plan = filtered(store)
    found, report = tuned(plan)
    assert found.pin == (caches() > 1)
    assert bool(report.pinned_cpus) == found.pin
    for pin in (True, False):
        given, report = tuned(plan, pin=pin)
        assert given.pin == pin
        assert bool(report.pinned_cpus) == pin
        replayed, report = tuned(plan, tune=given)
        assert replayed == given
        assert bool(report.pinned_cpus) == pin
        # What is given beside the configuration wins.
        other, report = tuned(plan, tune=given, pin=not pin)
        assert other.pin != pin
        assert bool(report.pinned_cpus) != pin
    recommended, report = tuned(plan, tune="recommend")
    assert recommended.pin == found.pin
    assert not report.pinned_cpus


def predicted(plan: Any, threads: str) -> tuple[float, str]:
    """Seconds in all, and what limits it."""
    lines = [line.strip() for line in plan.explain().splitlines()]
    (line,) = (line for line in lines if line.startswith(f"{threads}: "))
    _, _, rest = line.partition(" samples/s, ")
    seconds, _, limit = rest.partition(" s in all; limited by ")
    return float(seconds), limit


@pytest.mark.parametrize(("io", "limit"), [("io_uring", "reading (io_uring)"), ("mmap", "one thread (scan -> ")])
def test_the_prediction_has_the_time_of_reading(
    store: Any, settings: Path, tmp_path: Path, io: str, limit: str
) -> None:
    filtered(store, io=io).characterise(samples=1 << 16, repeats=3)
    computing, _ = predicted(filtered(store, io=io), "1 thread")
    assert computing < 10
    # 20 MB at a megabyte a second.
    profile_of(tmp_path, mmap=1e-6, io_uring=1e-6)
    cold = stored(tmp_path / "cold.iso")
    plan = filtered(cold, io=io)
    drop_from_cache(cold)
    skip_unless_cached(plan, "0%")
    seconds, bottleneck = predicted(plan, "1 thread")
    assert bottleneck.startswith(limit)
    # What is read ahead hides the computing.
    assert seconds == pytest.approx(20 + (computing if io == "mmap" else 0), rel=0.05)
    # In the page cache again, reading takes next to nothing.
    plan.collect()
    skip_unless_cached(plan, "100%")
    assert predicted(plan, "1 thread")[0] == pytest.approx(computing, rel=0.05)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_measured_costs_decide_about_workers(settings: Path) -> None:
    noise = np.random.default_rng(2).standard_normal(1 << 19)

    def heavy(samples: np.ndarray) -> Any:
        plan: Any = iso.scan(samples, rate=1000.0)
        for _ in range(6):
            plan = plan.iir("butter", band="lowpass", cutoff_hz=50.0, order=10)
        return plan

    assert "by default one worker: it reads only 524288 samples" in heavy(noise).explain()

    def collected_in_stages(plan: Any) -> bool:
        report = collect_reported((plan,), RunOptions.of())[2].report
        assert report is not None
        return bool(report.stages)

    assert not heavy(noise).run().report.stages and not collected_in_stages(heavy(noise))
    heavy(noise).characterise(samples=1 << 16, repeats=3)
    # Some 100 ms of work, of which other threads save half.
    assert "by default a worker for each core" in heavy(noise).explain()
    assert heavy(noise).run().report.stages and collected_in_stages(heavy(noise))
    assert "by default one worker: its measured operators take " in heavy(noise[:1000]).explain()
    # On a machine that is ten thousand times faster four million samples are too few.
    long = heavy(np.tile(noise, 8))
    assert "by default a worker for each core" in long.explain()
    file = settings / "operators.json"
    costs = json.loads(file.read_text())
    for operator in costs["operators"]:
        operator["seconds_per_sample"] = {
            name: 1e-4 * seconds for name, seconds in operator["seconds_per_sample"].items()
        }
    file.write_text(json.dumps(costs))
    assert "by default one worker: its measured operators take " in long.explain()
    assert not long.run().report.stages and not collected_in_stages(long)


def test_a_plan_with_a_control_is_pinned_as_the_user_says(store: Any, settings: Path) -> None:
    report = filtered(store).run(workers=2, tune=True, pin=True, control=iso.Control()).report
    assert report.pinned_cpus
    assert report.tuning.configuration.pin
    assert report.tuning.configuration.io == ()
