"""PIXELS: rejects pixels that cosmic rays hit, and shifts images by parts of a pixel."""

import numpy as np
from scipy import fft, ndimage

CLIP = 5  # standard deviations beyond which a pixel is rejected: it was hit by a cosmic ray
ROUNDING = 12**-0.5  # counts: the standard deviation that rounding alone gives


def reject_outliers(values: np.ndarray) -> float:
    """Make pixels that were hit NaN. Returns the standard deviation of the others; a source is far below it.

    Raises:
        ValueError: the counts are equal, but for rounding: no weight follows from them.
    """
    kept = values[np.isfinite(values)]
    while True:
        mean, noise = kept.mean(), kept.std()
        if noise < ROUNDING:
            raise ValueError(f"pixels around the source are {mean:.6g} ± {noise:.2g} counts: no noise, so no weight")
        inside = np.abs(kept - mean) <= CLIP * noise
        if inside.all():
            values[np.abs(values - mean) > CLIP * noise] = np.nan
            return float(noise)
        kept = kept[inside]


def shifted(values: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Values moved by at most half a pixel along each axis. NaN spread to two pixels around them.

    By the Fourier transform, which keeps flux and noise. Interpolation by splines is a low-pass filter: it takes a part
    of the variance and correlates pixels, so that errors of fluxes would be underestimated.
    """
    bad = np.isnan(values)
    spectrum = ndimage.fourier_shift(fft.rfft2(np.where(bad, 0, values)), shift, n=values.shape[1])
    moved = fft.irfft2(spectrum, s=values.shape)
    if bad.any():
        moved[ndimage.binary_dilation(bad, np.ones((5, 5)))] = np.nan
    return moved
