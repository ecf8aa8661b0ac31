"""CUTOUTS: what a task of stacking does: it cuts a source out of a frame, calibrates it, and centres it on a pixel.

Its steps have the names of figure 7 of Raicu et al., "Accelerating large-scale data exploration through data diffusion"
(2008), section 5.2. A worker of a cluster is sent this module and `fits_tiles`.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from fits_tiles import DAMAGE, image_of, opened, radec2xy, tile
from scipy import fft, ndimage

SIZE = 100  # pixels a side of a cutout, with the source in pixel 50
READ = 105  # a side of what is read, since the shift is periodic; odd, since an even size has a frequency without phase
CLIP = 5  # standard deviations beyond which a pixel is rejected: it was hit by a cosmic ray
STEPS = ("open", "radec2xy", "readHDU + getTile + curl + convertArray", "calibration + interpolation + doStacking")
#: Number of the source, right ascension and declination in degrees, path of the frame.
Task = tuple[int, float, float, str]


def reject_outliers(values: np.ndarray) -> float:
    """Make pixels that were hit NaN. Returns the standard deviation of the others; a source is far below it.

    Raises:
        ValueError: all values are equal.
    """
    while True:
        noise = float(np.nanstd(values))
        if not noise > 0:
            raise ValueError(f"all pixels around the source are {np.nanmean(values):g}, without noise")
        hit = np.abs(values - np.nanmean(values)) > CLIP * noise
        if not hit.any():
            return noise
        values[hit] = np.nan


def shifted(values: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Values moved by at most half a pixel along each axis. NaN spread to two pixels around them.

    By the Fourier transform, which keeps flux and noise. Interpolation by splines is a low-pass filter: it takes up to a
    quarter of the variance, and correlates pixels, so that the error of a flux would be underestimated.
    """
    bad = np.isnan(values)
    spectrum = ndimage.fourier_shift(fft.rfft2(np.where(bad, 0, values)), shift, n=values.shape[1])
    moved = fft.irfft2(spectrum, s=values.shape)
    if bad.any():
        moved[ndimage.binary_dilation(bad, np.ones((5, 5)))] = np.nan
    return moved


def cutout(task: Task, path: str | Path) -> dict[str, Any]:
    """Cut the source of a task out of the frame at a local path.

    Returns:
        values: SIZE x SIZE pixels in flux units, float32, NaN where rejected; weight: 1 / variance of a pixel;
        rejected: pixels that were read and not used; seconds: of each of STEPS.

    Raises:
        ValueError: the frame is damaged or does not show the source; names the frame.
    """
    _, ra, dec, frame = task
    times = [time.perf_counter()]
    try:
        with opened(Path(path)) as hdus:
            times.append(time.perf_counter())
            image = image_of(hdus)
            place = radec2xy(image.header, ra, dec)
            times.append(time.perf_counter())
            column, row = (int(one) for one in np.rint(place))
            values, outside = tile(image, column, row, READ)
            sky, gain = (float(image.header[key]) for key in ("SKY", "CAL"))
        times.append(time.perf_counter())
        values = (values - sky) * gain
        noise = reject_outliers(values)
    except DAMAGE as error:
        raise ValueError(f"{frame}: {error}; copy the frame again, or leave it out") from error
    rejected = int(np.isnan(values).sum()) - outside
    values = shifted(values, (row, column) - place[::-1])[2 : 2 + SIZE, 2 : 2 + SIZE]
    times.append(time.perf_counter())
    seconds = np.diff(times).tolist()
    return {"values": values.astype("f4"), "weight": noise**-2, "rejected": rejected, "seconds": seconds}
