"""FRAMES: a survey of one field, made and written: raw, compressed by gzip, or by RICE.

Each frame has a pointing, a rotation, a background, a calibration and a noise of its own, and pixels that cosmic rays
hit; all have the same dead pixels (BLANK). Headers have the WCS, SKY in counts and CAL in flux units per count. Sources
are below the noise of a frame.
"""

import gzip
import io
from pathlib import Path

import numpy as np
from astropy.io import fits
from sky import NOISE, SHAPE, catalogue, point_image, projection

BLANK = -32768
STAMP = 25  # pixels, beyond which a point source has no flux
SUFFIXES = {"raw": ".fits", "gzip": ".fits.gz", "RICE": ".fits.fz"}


def frame(seed: int, number: int, shape: tuple[int, int] = SHAPE) -> tuple[np.ndarray, fits.Header]:
    """Counts and header of a frame; others do not change it."""
    rng = np.random.default_rng([seed, 1 + number])
    level, gain, noise = rng.uniform(900, 1100), rng.uniform(0.9, 1.1), NOISE * rng.uniform(0.9, 1.1)
    wcs = projection(shape, rng.uniform(-20, 20, 2), np.radians(rng.uniform(-1, 1)))
    counts = rng.standard_normal(shape, "f4") * noise + level
    sources = catalogue(seed, shape)
    for source, (x, y) in zip(sources, wcs.wcs_world2pix([(s.ra, s.dec) for s in sources], 0), strict=True):
        left, top = round(x) - STAMP // 2, round(y) - STAMP // 2
        rows, columns = slice(max(top, 0), max(top + STAMP, 0)), slice(max(left, 0), max(left + STAMP, 0))
        seen = counts[rows, columns]
        image = point_image(x - left, y - top, STAMP)[rows.start - top :, columns.start - left :]
        seen += source.flux / gain * image[: seen.shape[0], : seen.shape[1]]
    hit = rng.integers(0, counts.size, max(counts.size // 50_000, 1))
    counts.flat[hit] += rng.uniform(100, 3000, len(hit))
    whole = np.rint(counts).astype("i2")
    whole.flat[np.random.default_rng(seed).integers(0, counts.size, max(counts.size // 100_000, 1))] = BLANK
    header = wcs.to_header()
    header.update({"SKY": level, "CAL": gain, "BLANK": BLANK})
    return whole, header


def write(folder: Path, seed: int, number: int, form: str, shape: tuple[int, int] = SHAPE) -> Path:
    """Write a frame raw, by gzip or by RICE: without loss, in tiles, so that a cutout reads few of them."""
    path = folder / f"frame_{number:04}{SUFFIXES[form]}"
    counts, header = frame(seed, number, shape)
    if form == "RICE":
        fits.CompImageHDU(counts, header, compression_type="RICE_1", tile_shape=(128, 128)).writeto(
            path, overwrite=True
        )
        return path
    file = io.BytesIO()
    fits.PrimaryHDU(counts, header).writeto(file)
    path.write_bytes(file.getvalue() if form == "raw" else gzip.compress(file.getvalue(), 4))
    return path
