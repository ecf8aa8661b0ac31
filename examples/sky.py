"""SKY: a field of point sources, of which everything is known, and its projection onto the pixels of a frame.

A field is 2048 x 1489 pixels of 0.396 seconds of arc, as in SDSS. `frames` makes frames of it.
"""

from dataclasses import dataclass

import numpy as np
from astropy.wcs import WCS
from scipy.special import erf

SHAPE = 1489, 2048  # rows and columns, of 2 bytes each
PIXEL, FIELD = 0.396 / 3600, (180.0, 0.5)  # degrees
NOISE, SPREAD = 5.5, 1.5  # of a pixel in flux units, roughly; standard deviation of a point source, in pixels
FLUX = 8.0, 30.0  # a single frame has an error of about 29
SPACING = 128  # of sources, so that no cutout shows two


@dataclass(frozen=True)
class Source:
    """A point source: where it is, in degrees, and its flux."""

    ra: float
    dec: float
    flux: float


def point_image(x: float, y: float, size: int) -> np.ndarray:
    """A point source of flux 1 at column x and row y, integrated over the pixels of a square."""
    edges = np.subtract.outer((x, y), np.arange(size + 1) - 0.5) / (-SPREAD * np.sqrt(2))
    columns, rows = np.diff(erf(edges)) / 2
    return np.outer(rows, columns)


def projection(shape: tuple[int, int], shift: np.ndarray, turn: float) -> WCS:
    """The field in its tangent plane, east to the left, shifted by pixels and turned by radians."""
    wcs = WCS(naxis=2)
    wcs.wcs.ctype, wcs.wcs.crval = ["RA---TAN", "DEC--TAN"], FIELD
    wcs.wcs.crpix = (np.array(shape[::-1]) + 1) / 2 + shift
    wcs.wcs.cd = PIXEL * np.array([[-np.cos(turn), np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return wcs


def catalogue(seed: int, shape: tuple[int, int] = SHAPE) -> list[Source]:
    """Sources on a grid, each a little beside its point, in random order."""
    rng = np.random.default_rng([seed, 0])
    rows, columns = (np.arange(size // SPACING) * SPACING + SPACING / 2 for size in shape)
    places = rng.permutation(np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2))
    sky = projection(shape, np.zeros(2), 0).wcs_pix2world(places + rng.uniform(-12, 12, places.shape), 0)
    return [Source(*place, flux) for place, flux in zip(sky.tolist(), rng.uniform(*FLUX, len(sky)), strict=True)]
