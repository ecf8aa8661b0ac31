"""Stacking finds sources that no frame shows, with honest errors, from frames of every format."""

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage, stats

fits = pytest.importorskip("astropy.io.fits", reason="astropy is missing: pip install 'isochrony[astro]'")
wcs_library = pytest.importorskip("astropy.wcs")

EXAMPLES = Path(__file__).parents[1] / "examples"
MODULES = ("coadd", "cutouts", "fits_tiles", "frames", "pixels", "sky", "stacking_profile", "stacking_tasks")
SHAPE = 300, 420  # six sources
FORMS = ("raw", "gzip", "RICE")
FRAMES = 50


@pytest.fixture(scope="module", autouse=True)
def example() -> Iterator[SimpleNamespace]:
    """The modules of the example, which import one another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield SimpleNamespace(**{name: __import__(name) for name in MODULES})
        for name in (*MODULES, "stacking", "stacking_figure"):
            sys.modules.pop(name, None)


@dataclass
class Survey:
    """Frames of a field, and its sources."""

    sources: list[Any]
    frames: list[Path]


@pytest.fixture(scope="module")
def surveys(example: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> list[Survey]:
    """Four fields, with 24 sources."""
    found = []
    for seed in range(4):
        folder = tmp_path_factory.mktemp("survey")
        frames = [example.frames.write(folder, seed, number, "raw", SHAPE) for number in range(FRAMES)]
        found.append(Survey(example.sky.catalogue(seed, SHAPE), frames))
    return found


def stacks_of(example: SimpleNamespace, survey: Survey) -> tuple[list[Any], list[str]]:
    tasks = example.stacking_tasks.workload(survey.sources, survey.frames, len(survey.sources))
    found: tuple[list[Any], list[str]] = example.stacking_tasks.stack(survey.sources, tasks)
    return found


@pytest.fixture(scope="module")
def stacks(example: SimpleNamespace, surveys: list[Survey]) -> list[Any]:
    """A stack of each of the 24 sources."""
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
    assert len(errors) == 24
    low, high = stats.chi2.ppf([0.001, 0.999], len(errors))
    assert low < np.square(errors).sum() < high
    assert abs(errors.mean()) < 3.3 / len(errors) ** 0.5
    # One frame tells nothing of a source, and 50 do.
    significance = np.array([stack.source.flux / stack.flux()[1] for stack in stacks])
    assert (significance / FRAMES**0.5 < 1.1).all()
    assert np.median(significance) > 3


def test_noise_falls_as_the_root_of_the_number_of_frames(example: SimpleNamespace, stacks: list[Any]) -> None:
    counts = [count for count, *_ in stacks[0].history]
    assert counts == [1, 2, 5, 10, 20, 50]
    assert np.abs(noise_ratios(stacks) - 1).max() < 0.05
    noise = np.array([[one[2] for one in stack.history] for stack in stacks])
    slope = np.polyfit(np.log(counts), np.log(noise.mean(axis=0)), 1)[0]
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


@pytest.mark.parametrize("number", range(3))
def test_all_formats_give_the_same_cutouts(example: SimpleNamespace, tmp_path: Path, number: int) -> None:
    counts, _ = example.frames.frame(7, number, SHAPE)
    paths = [example.frames.write(tmp_path, 7, number, form, SHAPE) for form in FORMS]
    assert paths[1].stat().st_size < 0.6 * paths[0].stat().st_size
    for path in paths:
        with fits.open(path, do_not_scale_image_data=True) as hdus:
            np.testing.assert_array_equal(hdus[-1].data, counts)
    for source in example.sky.catalogue(7, SHAPE):
        cuts = [example.cutouts.cutout((0, source.ra, source.dec, str(path)), path) for path in paths]
        for cut in cuts:
            np.testing.assert_array_equal(cut["values"], cuts[0]["values"])
            assert (cut["weight"], cut["rejected"]) == (cuts[0]["weight"], cuts[0]["rejected"])
            assert len(cut["seconds"]) == len(example.cutouts.STEPS)
            assert min(cut["seconds"]) > 0


def test_a_gzip_file_is_known_by_its_content(example: SimpleNamespace, tmp_path: Path) -> None:
    path = example.frames.write(tmp_path, 7, 0, "gzip", SHAPE)
    source = example.sky.catalogue(7, SHAPE)[0]
    task = (0, source.ra, source.dec, str(path))
    expected = example.cutouts.cutout(task, path)["values"]
    unpacked = tmp_path / "unpacked" / path.name
    unpacked.parent.mkdir()
    unpacked.write_bytes(gzip.decompress(path.read_bytes()))
    np.testing.assert_array_equal(example.cutouts.cutout(task, unpacked)["values"], expected)


@given(st.integers(-40, 160), st.integers(-40, 140), st.integers(0, 400), st.randoms(use_true_random=False))
def test_a_tile_is_that_of_a_frame_with_margins(column: int, row: int, dead: int, random: Any) -> None:
    import fits_tiles

    size, margin = 31, 80
    counts = np.arange(100 * 120, dtype="i2").reshape(100, 120)
    for number in range(dead):
        counts.flat[random.randrange(counts.size)] = (-32768, 32767)[number % 2]
    image = fits.PrimaryHDU(counts, fits.Header({"BLANK": -32768}))
    padded = np.full((100 + 2 * margin, 120 + 2 * margin), np.nan)
    padded[margin:-margin, margin:-margin] = np.where((counts == -32768) | (counts == 32767), np.nan, counts)
    top, left = row + margin - size // 2, column + margin - size // 2
    expected = padded[top : top + size, left : left + size]
    if np.isfinite(expected).sum() < 0.1 * size**2:
        with pytest.raises(ValueError, match=rf"column {column}, row {row} of 120 x 100: only \d+ of 961 pixels"):
            fits_tiles.tile(image, column, row, size)
        return
    values, outside = fits_tiles.tile(image, column, row, size)
    np.testing.assert_array_equal(values, expected)
    rows, columns = (range(at - size // 2, at + size // 2 + 1) for at in (row, column))
    assert outside == size**2 - sum(0 <= at < 100 for at in rows) * sum(0 <= at < 120 for at in columns)


def test_a_cutout_at_a_corner_has_what_the_frame_shows_of_it(example: SimpleNamespace, tmp_path: Path) -> None:
    path = tmp_path / "corner.fits"
    wcs = example.sky.projection(SHAPE, np.zeros(2), 0)
    rng = np.random.default_rng(0)
    counts = np.rint(rng.normal(1000, 5, SHAPE)).astype("i2")
    header = wcs.to_header()
    header.update({"SKY": 1000.0, "CAL": 2.0})
    fits.PrimaryHDU(counts, header).writeto(path)
    ra, dec = wcs.wcs_pix2world(20.0, 280.0, 0)
    found = example.cutouts.cutout((0, float(ra), float(dec), "corner"), path)
    # In the middle of a pixel, so that nothing is shifted: rows 230 to 299, columns 0 to 69, without two of each edge.
    expected = np.full((100, 100), np.nan)
    expected[: 300 - 230, 50 - 20 :] = 2.0 * (counts[230:, :70] - 1000.0)
    expected[68:], expected[:, :32] = np.nan, np.nan
    np.testing.assert_allclose(found["values"], expected, atol=1e-4)
    assert found["rejected"] == 0


def dirichlet(size: int, shift: float) -> np.ndarray:
    """The matrix that shifts periodic samples of odd number, from its definition as a sum of cosines."""
    lag = np.subtract.outer(np.arange(size), np.arange(size)) - shift
    return sum((np.cos(2 * np.pi * k * lag / size) * (2 if k else 1) for k in range(size // 2 + 1)), 0 * lag) / size


@given(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.integers(0, 2**32 - 1))
def test_a_shift_keeps_flux_and_noise(down: float, right: float, seed: int) -> None:
    import pixels
    import sky

    values = np.random.default_rng(seed).normal(size=(35, 35))
    moved = pixels.shifted(values, (down, right))
    np.testing.assert_allclose(moved, dirichlet(35, down) @ values @ dirichlet(35, right).T, atol=1e-10)
    assert moved.sum() == pytest.approx(values.sum(), abs=1e-9)
    assert np.square(moved).sum() == pytest.approx(np.square(values).sum(), rel=1e-12)
    # A point source comes to where one is made.
    at = sky.point_image(17 - right, 17 - down, 35)
    np.testing.assert_allclose(pixels.shifted(at, (down, right)), sky.point_image(17, 17, 35), atol=2e-6)
    assert at.sum() == pytest.approx(1, abs=1e-12)


def test_pixels_beside_rejected_ones_are_rejected(example: SimpleNamespace) -> None:
    values = np.zeros((105, 105))
    values[40, 50] = np.nan
    bad = np.argwhere(np.isnan(example.pixels.shifted(values, (0.3, -0.4))))
    assert (bad.min(axis=0).tolist(), bad.max(axis=0).tolist(), len(bad)) == ([38, 48], [42, 52], 25)


def test_hit_pixels_are_rejected_and_counted(example: SimpleNamespace) -> None:
    values = np.random.default_rng(0).normal(0, 5, (105, 105))
    values[3, 4] = np.nan
    quiet = np.nanstd(values)
    hit = [(10, 10), (50, 52), (104, 0)]
    for place, height in zip(hit, (60, -5000, 1e6), strict=True):
        values[place] = height
    assert example.pixels.reject_outliers(values) == pytest.approx(quiet, rel=1e-3)
    assert {tuple(place) for place in np.argwhere(np.isnan(values))} == {(3, 4), *hit}


def test_the_rejected_pixels_of_a_survey_are_those_that_were_spoilt(
    example: SimpleNamespace, surveys: list[Survey]
) -> None:
    survey, half = surveys[1], example.cutouts.READ // 2
    for number, path in enumerate(survey.frames[:10]):
        counts, header = example.frames.frame(1, number, SHAPE)
        spoilt = (counts == -32768) | (np.abs(counts - header["SKY"]) > 60)
        for source in survey.sources:
            x, y = wcs_library.WCS(header).all_world2pix(source.ra, source.dec, 0)
            low = np.maximum([round(float(y)) - half, round(float(x)) - half], 0)
            expected = spoilt[low[0] : round(float(y)) + half + 1, low[1] : round(float(x)) + half + 1].sum()
            assert example.cutouts.cutout((0, source.ra, source.dec, ""), path)["rejected"] == expected


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
    with fits.open(tmp_path / "stack.fits") as hdus:
        np.testing.assert_array_equal(hdus[0].data, stacks[0].mean().astype("f4"))
        assert (hdus[0].header["FLUX"], hdus[0].header["FLUXERR"]) == stacks[0].flux()
        assert hdus[0].header["FRAMES"] == FRAMES
        assert np.median(hdus["ERROR"].data) == pytest.approx(stacks[0].noise(), rel=0.05)


def spoil(path: Path, change: Callable[[Any], None]) -> None:
    """Rewrite a raw frame."""
    with fits.open(path, do_not_scale_image_data=True) as hdus:
        hdu = fits.PrimaryHDU(np.array(hdus[0].data), hdus[0].header)
    change(hdu)
    hdu.writeto(path, overwrite=True)


def with_nan(hdu: Any) -> None:
    hdu.data = hdu.data.astype("f4")
    hdu.data[::50, ::50] = np.nan


def constant(hdu: Any) -> None:
    hdu.data[:] = 1000


def almost_constant(hdu: Any) -> None:
    hdu.data[:] = 1000
    hdu.data[::10, ::5] = 1001


def without(key: str) -> Callable[[Any], None]:
    return lambda hdu: hdu.header.remove(key)


#: What is wrong with a frame: what is done to its file, and what its error says.
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "NaN": (lambda path: spoil(path, with_nan), "are NaN; mark bad ones by BLANK"),
    "half": (lambda path: os.truncate(path, path.stat().st_size // 2), r"it ends after \d+ of \d+ bytes"),
    "header only": (lambda path: os.truncate(path, 2880), "it ends after 2880 of"),
    "half a header": (lambda path: os.truncate(path, 1000), ""),
    "empty": (lambda path: path.write_bytes(b""), "Empty or corrupt"),
    "no FITS": (lambda path: path.write_bytes(b"recording " * 10_000), "No SIMPLE card"),
    "absent": (lambda path: path.unlink(), "No such file"),
    "constant": (lambda path: spoil(path, constant), "are 1000 ± 0 counts: no noise, so no weight"),
    "almost constant": (lambda path: spoil(path, almost_constant), r"± 0\.1\d* counts: no noise, so no weight"),
    "zero gain": (lambda path: spoil(path, lambda hdu: hdu.header.set("CAL", 0.0)), "CAL=0 in its header is refused"),
    "no sky": (lambda path: spoil(path, without("SKY")), "SKY"),
    "no gain": (lambda path: spoil(path, without("CAL")), "CAL"),
    "elsewhere": (lambda path: spoil(path, lambda hdu: hdu.header.set("CRVAL2", 5.0)), "only 0 of 11025 pixels"),
    "cube": (lambda path: spoil(path, lambda hdu: setattr(hdu, "data", hdu.data[None])), "3 axes, not 2"),
}


@pytest.mark.filterwarnings("ignore::astropy.utils.exceptions.AstropyWarning")
def test_a_damaged_frame_is_named_and_the_others_go_on(
    example: SimpleNamespace, surveys: list[Survey], tmp_path: Path
) -> None:
    survey = surveys[2]
    frames = [Path(shutil.copy(path, tmp_path)) for path in survey.frames[: len(DAMAGES) + 5]]
    for path, (damage, _) in zip(frames, DAMAGES.values(), strict=False):
        damage(path)
    found, failures = stacks_of(example, Survey(survey.sources[:2], frames))
    expected, _ = stacks_of(example, Survey(survey.sources[:2], survey.frames[len(DAMAGES) : len(DAMAGES) + 5]))
    assert [failure.partition(": ")[0] for failure in failures] == 2 * [str(path) for path in frames[: len(DAMAGES)]]
    for failure, (_, said) in zip(failures, DAMAGES.values(), strict=False):
        assert re.search(said, failure), failure
        assert failure.endswith("; copy the frame again, or leave it out")
    for one, other in zip(found, expected, strict=True):
        assert one.count == 5
        np.testing.assert_array_equal(one.mean(), other.mean())


@pytest.mark.filterwarnings("ignore::astropy.utils.exceptions.AstropyWarning")
@pytest.mark.parametrize("form", FORMS)
def test_a_file_cut_anywhere_is_named(example: SimpleNamespace, tmp_path: Path, form: str) -> None:
    path = example.frames.write(tmp_path, 3, 0, form, SHAPE)
    content = path.read_bytes()
    source = example.sky.catalogue(3, SHAPE)[-1]
    for length in {*np.linspace(0, len(content) - 1, 40).astype(int).tolist(), 2880, 5760, len(content) - 2880}:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: .*; copy the frame again, or leave it out"):
            example.cutouts.cutout((0, source.ra, source.dec, str(path)), path)


@given(st.floats(-0.06, 0.06), st.floats(-0.06, 0.06), st.floats(-200, 200), st.floats(-200, 200), st.floats(-3, 3))
def test_coordinates_are_those_of_the_tangent_plane(east: float, north: float, x: float, y: float, turn: float) -> None:
    import fits_tiles
    import sky

    wcs = sky.projection(SHAPE, np.array([x, y]), turn)
    ra, dec = sky.FIELD[0] + east, sky.FIELD[1] + north
    found = fits_tiles.radec2xy(wcs.to_header(), ra, dec)
    # Calabretta and Greisen (2002), equations 12 to 15 and 54, for the pole in the middle of the field.
    a, d, d0 = np.radians([ra - sky.FIELD[0], dec, sky.FIELD[1]])
    depth = np.sin(d) * np.sin(d0) + np.cos(d) * np.cos(d0) * np.cos(a)
    xi = np.degrees(np.cos(d) * np.sin(a) / depth)
    eta = np.degrees((np.sin(d) * np.cos(d0) - np.cos(d) * np.sin(d0) * np.cos(a)) / depth)
    matrix = np.array([[-np.cos(turn), np.sin(turn)], [np.sin(turn), np.cos(turn)]]) * 0.396 / 3600
    middle = (np.array([420, 300]) - 1) / 2 + (x, y)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, [xi, eta]) + middle, atol=1e-6)
    np.testing.assert_allclose(found, wcs.all_world2pix(ra, dec, 0), atol=1e-6)
    np.testing.assert_allclose(wcs.all_pix2world(*found, 0), (ra, dec), atol=1e-10)


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
    with pytest.raises(ValueError, match=f"locality={locality}: the field has 176 sources; give more than 0"):
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

    def mapped(function: Any, tasks: Any, *, client: Any, inputs: Any, keep_going: bool) -> Iterator[Any]:
        assert isinstance(client, Caches)
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
    survey = surveys[3]
    tasks = example.stacking_tasks.workload(survey.sources, survey.frames[:4], 2)
    found, failures = example.stacking_tasks.stack(survey.sources, tasks, "tcp://10.0.0.5:8786")
    expected, _ = example.stacking_tasks.stack(survey.sources, tasks)
    assert (failures, called) == ([], ["closed"])
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
