"""Cutouts are what frames of every format show around a source; a damaged frame is named."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stacking_modules import FORMS, SHAPE, Survey, imported, stacks_of, survey_of

fits = pytest.importorskip("astropy.io.fits", reason="astropy is missing: pip install 'isochrony[astro]'")
wcs_library = pytest.importorskip("astropy.wcs")


@pytest.fixture(scope="module", autouse=True)
def example() -> Iterator[SimpleNamespace]:
    with imported() as modules:
        yield modules


@pytest.fixture(scope="module")
def survey(example: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """A frame for each damage, and five that are whole."""
    return survey_of(example, tmp_path_factory.mktemp("survey"), 2, len(DAMAGES) + 5)


def dirichlet(size: int, shift: float) -> np.ndarray:
    """The matrix that shifts periodic samples of odd number, from its definition as a sum of cosines."""
    lag = np.subtract.outer(np.arange(size), np.arange(size)) - shift
    return sum((np.cos(2 * np.pi * k * lag / size) * (2 if k else 1) for k in range(size // 2 + 1)), 0 * lag) / size


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


def test_the_rejected_pixels_of_a_survey_are_those_that_were_spoilt(example: SimpleNamespace, survey: Survey) -> None:
    half = example.cutouts.READ // 2
    for number, path in enumerate(survey.frames):
        counts, header = example.frames.frame(2, number, SHAPE)
        quiet = counts[np.abs(counts - header["SKY"]) < 60].std()
        # Of a million pixels one or two are so far off without being hit.
        spoilt = (counts == -32768) | (np.abs(counts - header["SKY"]) > 5 * quiet)
        for source in survey.sources:
            x, y = wcs_library.WCS(header).all_world2pix(source.ra, source.dec, 0)
            low = np.maximum([round(float(y)) - half, round(float(x)) - half], 0)
            expected = spoilt[low[0] : round(float(y)) + half + 1, low[1] : round(float(x)) + half + 1].sum()
            assert example.cutouts.cutout((0, source.ra, source.dec, ""), path)["rejected"] == expected


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
    example: SimpleNamespace, survey: Survey, tmp_path: Path
) -> None:
    frames = [Path(shutil.copy(path, tmp_path)) for path in survey.frames]
    for path, (damage, _) in zip(frames, DAMAGES.values(), strict=False):
        damage(path)
    found, failures = stacks_of(example, Survey(survey.sources[:2], frames))
    expected, _ = stacks_of(example, Survey(survey.sources[:2], survey.frames[len(DAMAGES) :]))
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
