"""Stacking finds sources that no frame shows, with errors that are true, here and on a cluster."""

from __future__ import annotations

import gzip
import math
import os
import re
import shutil
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import cloudpickle
import numpy as np
import pytest
from scipy import ndimage, stats

from stacking_modules import FORMS, Survey, imported, stacks_of, survey_of

FRAMES = 50

pytest.importorskip("astropy", reason="astropy is missing: pip install 'isochrony[astro]'")


@pytest.fixture(scope="module", autouse=True)
def example() -> Iterator[SimpleNamespace]:
    with imported() as modules:
        yield modules


@pytest.fixture(scope="module")
def surveys(example: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> list[Survey]:
    """Three fields, with 18 sources."""
    return [survey_of(example, tmp_path_factory.mktemp("survey"), seed, FRAMES) for seed in range(3)]


@pytest.fixture(scope="module")
def stacks(example: SimpleNamespace, surveys: list[Survey]) -> list[Any]:
    """A stack of each of the 18 sources."""
    found = [stacks_of(example, survey) for survey in surveys]
    assert not any(failures for _, failures in found)
    return [stack for several, _ in found for stack in several]


def off(stacks: list[Any]) -> np.ndarray:
    """How many of its errors each flux is off."""
    return np.array([(stack.flux()[0] - stack.source.flux) / stack.flux()[1] for stack in stacks])


def noise_ratios(stacks: list[Any]) -> np.ndarray:
    """Noise of each stack at each N, over that of one frame divided by the root of N."""
    return np.array([[noise * count**0.5 / single for count, _, noise, single in stack.history] for stack in stacks])


def test_fluxes_are_within_their_errors(stacks: list[Any]) -> None:
    errors = off(stacks)
    assert len(errors) == 18
    low, high = stats.chi2.ppf([0.001, 0.999], len(errors))
    assert low < np.square(errors).sum() < high
    assert abs(errors.mean()) < 3.3 / len(errors) ** 0.5
    # One frame tells nothing of a source, and 50 do.
    significance = np.array([stack.source.flux / stack.flux()[1] for stack in stacks])
    assert (significance / FRAMES**0.5 < 1.1).all()
    assert np.median(significance) > 3


def test_the_flux_that_is_added_is_measured(
    example: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same noise, so that what differs is the source."""
    fluxes = []
    for flux in (0.0, 100.0):
        monkeypatch.setattr(example.sky, "FLUX", (flux, np.nextafter(flux, np.inf)))
        found, _ = stacks_of(example, survey_of(example, tmp_path, 5, 10))
        fluxes.append([stack.flux()[0] for stack in found])
    added = np.diff(fluxes, axis=0)[0]
    assert added.mean() == pytest.approx(100, abs=1)
    # Counts are whole numbers, and a source has a few in each frame.
    np.testing.assert_allclose(added, 100, atol=3)


def test_noise_falls_as_the_root_of_the_number_of_frames(example: SimpleNamespace, stacks: list[Any]) -> None:
    counts = [count for count, *_ in stacks[0].history]
    assert counts == [1, 2, 5, 10, 20, 50]
    assert np.abs(noise_ratios(stacks) - 1).max() < 0.05
    # In units of one frame's noise, which differs from frame to frame.
    noise = noise_ratios(stacks).mean(axis=0) / np.sqrt(counts)
    slope = np.polyfit(np.log(counts), np.log(noise), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.01)
    # Of frames that have, multiplied by their gain, 0.81 to 1.21 times this: the mean of the inverse variance.
    gain, noise_of_frame = np.meshgrid(*2 * [np.linspace(0.9, 1.1, 201)])
    expected = example.sky.NOISE / np.mean((gain * noise_of_frame) ** -2.0) ** 0.5
    assert np.mean([stack.history[-1][3] for stack in stacks]) == pytest.approx(expected, rel=0.02)


def test_an_interpolation_that_smooths_would_be_found_out(
    example: SimpleNamespace, surveys: list[Survey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example.cutouts, "shifted", lambda values, shift: ndimage.shift(values, shift, order=1))
    found, _ = stacks_of(example, Survey(surveys[0].sources, surveys[0].frames[:20]))
    assert noise_ratios(found)[:, -1].max() < 0.95


def test_the_mean_is_weighted_by_inverse_variance(example: SimpleNamespace) -> None:
    rng = np.random.default_rng(0)
    stack = example.coadd.Stack(example.sky.Source(0, 0, 1))
    assert stack.flux() == (0.0, math.inf)
    noise = rng.uniform(1, 4, 7)
    cuts = [rng.normal(0, one, (100, 100)).astype("f4") for one in noise]
    for cut in cuts:
        cut[rng.random(cut.shape) < 0.2] = np.nan
    for cut, one in zip(cuts, noise, strict=True):
        stack.add({"values": cut, "weight": one**-2, "rejected": int(np.isnan(cut).sum()), "seconds": []})
    for row, column in rng.integers(0, 100, (50, 2)):
        there = [(float(cut[row, column]), one**-2) for cut, one in zip(cuts, noise, strict=True)]
        there = [(value, weight) for value, weight in there if not math.isnan(value)]
        expected = sum(value * weight for value, weight in there) / sum(weight for _, weight in there)
        assert stack.mean()[row, column] == pytest.approx(expected)
    assert stack.rejected == sum(int(np.isnan(cut).sum()) for cut in cuts)


def test_a_stack_is_written_with_its_flux_and_errors(
    example: SimpleNamespace, stacks: list[Any], tmp_path: Path
) -> None:
    stacks[0].write(tmp_path / "stack.fits")
    fits = pytest.importorskip("astropy.io.fits")
    with fits.open(tmp_path / "stack.fits") as hdus:
        np.testing.assert_array_equal(hdus[0].data, stacks[0].mean().astype("f4"))
        assert (hdus[0].header["FLUX"], hdus[0].header["FLUXERR"]) == stacks[0].flux()
        assert hdus[0].header["FRAMES"] == FRAMES
        assert np.median(hdus["ERROR"].data) == pytest.approx(stacks[0].noise(), rel=0.05)


@pytest.mark.parametrize("locality", [0.1, 1, 1.38, 2, 5, 30])
def test_locality_is_the_number_of_sources_of_a_file(example: SimpleNamespace, locality: float) -> None:
    sources = example.sky.catalogue(0)
    assert len(sources) == 11 * 16
    frames = [Path(f"{number}.fits") for number in range(50)]
    tasks = example.stacking_tasks.workload(sources, frames, locality)
    files = Counter(task[-1] for task in tasks)
    assert sum(files.values()) / len(frames) == pytest.approx(locality)
    assert max(files.values()) - min(files.get(str(frame), 0) for frame in frames) <= 1
    assert len(set(tasks)) == len(tasks)


@pytest.mark.parametrize("locality", [0, -1, 177])
def test_a_locality_that_cannot_be_is_refused(example: SimpleNamespace, locality: float) -> None:
    with pytest.raises(
        ValueError, match=rf"locality={locality} of 1 frames is refused: give .* above 0 to 176, the sources"
    ):
        example.stacking_tasks.workload(example.sky.catalogue(0), [Path("a.fits")], locality)


def test_memory_does_not_grow_with_the_number_of_tasks(
    example: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = {"weight": 1.0, "rejected": 0, "seconds": []}
    monkeypatch.setattr(example.cutouts, "cutout", lambda task, path: {**cut, "values": np.zeros((100, 100), "f4")})
    peaks = []
    for count in (60, 600):
        tracemalloc.start()
        example.stacking_tasks.stack([example.sky.Source(0, 0, 1)], [(0, 0.0, 0.0, "")] * count)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Three more images at marks, and the list of tasks, where the cutouts would take 22 MB.
    assert peaks[1] - peaks[0] < 250_000


def test_a_worker_that_cannot_import_the_example_does_its_tasks(
    example: SimpleNamespace, surveys: list[Survey], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `each` gives a cluster, called in a process of its own."""
    called = []

    class Caches:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            called.append("closed")

    def mapped(function: Any, tasks: Any, *, client: Any, inputs: Any, cache_form: Any, keep_going: bool) -> Any:
        assert isinstance(client, Caches)
        assert cache_form is None, "tasks decompress parts of RICE frames"
        assert keep_going
        script = (
            "import sys, cloudpickle; f, t = cloudpickle.load(sys.stdin.buffer); "
            "sys.stdout.buffer.write(cloudpickle.dumps([f(*one) for one in t]))"
        )
        calls = cloudpickle.dumps((function, [(task, inputs(task)) for task in tasks]))
        done = subprocess.run([sys.executable, "-c", script], input=calls, capture_output=True, check=True, cwd="/")
        yield from cloudpickle.loads(done.stdout)

    cluster = ModuleType("isochrony.cluster")
    cluster.attach = lambda on: Caches()  # type: ignore[attr-defined]
    cluster.map = mapped  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "isochrony.cluster", cluster)
    monkeypatch.setattr("isochrony.cluster", cluster, raising=False)
    survey = surveys[2]
    tasks = example.stacking_tasks.workload(survey.sources, survey.frames[:4], 2)
    found, failures = example.stacking_tasks.stack(survey.sources, tasks, "tcp://10.0.0.5:8786")
    expected, _ = example.stacking_tasks.stack(survey.sources, tasks)
    assert (failures, called) == ([], ["closed"])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.mean(), other.mean())


@pytest.mark.parametrize("packed", [False, True])
def test_workers_of_a_cluster_give_the_same_stacks(
    example: SimpleNamespace, surveys: list[Survey], tmp_path: Path, packed: bool
) -> None:
    distributed = pytest.importorskip("distributed")
    cluster = pytest.importorskip("isochrony.cluster")
    if not hasattr(cluster, "map"):
        pytest.skip("isochrony.cluster has no map: tasks of files cannot run on a cluster")
    survey = surveys[0]
    frames = [Path(shutil.copy(path, tmp_path)) for path in survey.frames[:12]]
    if packed:
        for frame in frames:
            frame.with_suffix(".fits.gz").write_bytes(gzip.compress(frame.read_bytes()))
        frames = [frame.with_suffix(".fits.gz") for frame in frames]
    os.truncate(frames[3], 20_000)
    frames[5].unlink()
    tasks = example.stacking_tasks.workload(survey.sources, frames, 2.5)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as on:
        found, failures = example.stacking_tasks.stack(survey.sources, tasks, on)
    expected, _ = example.stacking_tasks.stack(survey.sources, tasks)
    assert [stack.count for stack in found] == [10, 10, 4]
    assert [failure.partition(": ")[0] for failure in failures] == 3 * [str(frames[3]), str(frames[5])]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.mean(), other.mean())


def test_the_script_reports_and_draws(
    example: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import stacking

    given = f"stacking {tmp_path / 'out'} --frames 10 --locality 1.5 --form gzip --shape 300 420"
    monkeypatch.setattr(sys, "argv", given.split())
    stacking.main()
    said = capsys.readouterr().out
    assert re.findall(r"source (\d): flux .* was .*; (\d+) frames", said) == [("0", "10"), ("1", "5")]
    assert re.findall(r"(?m)^(\w+): [\d.]+ ms a task; (?:[\d.]+, ){4}[\d.]+$", said) == list(FORMS)
    assert len(list((tmp_path / "out").glob("stack_*.fits"))) == 2
    assert (tmp_path / "out" / "stacking.png").stat().st_size > 10_000
