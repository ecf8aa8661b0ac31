"""FITS_TILES: opens a frame, raw or compressed, finds a place of the sky in it, and reads the pixels around it."""

import gzip
import io
import zlib
from pathlib import Path

import numpy as np
from astropy.io import fits
from astropy.wcs import Wcsprm

SATURATED = 32767
LEAST = 0.1  # of the pixels of a tile must be measured: then their noise is known to 2 %
#: What reading a damaged file raises: here, in astropy, and in zlib.
DAMAGE = (OSError, EOFError, zlib.error, LookupError, TypeError, ValueError)


def opened(path: Path) -> fits.HDUList:
    """The frame at a path, of which only headers were read. A gzip file is decompressed as a whole.

    Raises:
        ValueError: the file ends too early, or has no image.
    """
    with path.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    # Left to astropy, a gzip file is decompressed in parts, some of them twice.
    content = gzip.decompress(path.read_bytes()) if is_gzip else None
    size = path.stat().st_size if content is None else len(content)
    hdus = fits.open(path if content is None else io.BytesIO(content), do_not_scale_image_data=True)
    info = image_of(hdus).fileinfo()
    if size < info["datLoc"] + info["datSpan"]:
        hdus.close()
        raise ValueError(f"it ends after {size} of {info['datLoc'] + info['datSpan']} bytes")
    return hdus


def image_of(hdus: fits.HDUList) -> fits.PrimaryHDU | fits.CompImageHDU:
    """The image of a frame: the first HDU, or the second one where it is compressed by tiles."""
    image = hdus[0 if hdus[0].header["NAXIS"] or len(hdus) == 1 else 1]
    if image.header["NAXIS"] != 2:
        raise ValueError(f"its image has {image.header['NAXIS']} axes, not 2")
    return image


def radec2xy(header: fits.Header, ra: float, dec: float) -> np.ndarray:
    """Column and row of a place, from 0, by wcslib. `astropy.wcs.WCS` takes 15 times as long, and knows distortions."""
    cards = header.tostring(endcard=False, padding=False).encode()
    return Wcsprm(cards).s2p([[ra, dec]], 0)["pixcrd"][0]


def tile(image: fits.PrimaryHDU | fits.CompImageHDU, column: int, row: int, size: int) -> tuple[np.ndarray, int]:
    """A square around a pixel, in counts. NaN: outside of the frame, dead, or saturated; and how many are outside.

    Raises:
        ValueError: too little of the square was measured, or values of the file are NaN.
    """
    first, shape = np.array([row, column]) - size // 2, np.array(image.shape)
    low, high = np.clip([first, first + size], 0, shape)
    # Rows of a raw frame are mapped; of a RICE frame, only tiles that the section touches are decompressed.
    pixels = image.section if isinstance(image, fits.CompImageHDU) else image.data
    counts = pixels[low[0] : high[0], low[1] : high[1]] if (low < high).all() else np.empty((0, 0), "i2")
    if counts.dtype.kind == "f" and np.isnan(counts).any():
        raise ValueError(f"{np.isnan(counts).sum()} of the pixels around the source are NaN; mark bad ones by BLANK")
    bad = (counts == image.header.get("BLANK")) | (counts == SATURATED)
    measured = counts.size - int(bad.sum())
    if measured < LEAST * size**2:
        place = f"column {column}, row {row} of {shape[1]} x {shape[0]}"
        raise ValueError(f"the source is at {place}: only {measured} of {size**2} pixels around it were measured")
    values = np.full((size, size), np.nan)
    top, left = low - first
    values[top : top + counts.shape[0], left : left + counts.shape[1]] = np.where(bad, np.nan, counts)
    return values, values.size - counts.size
