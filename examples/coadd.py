"""COADD: adds cutouts of a source to a stack by inverse variance, and measures its flux and noise."""

from pathlib import Path
from typing import Any

import numpy as np
from astropy.io import fits
from cutouts import SIZE
from sky import Source, point_image

#: Pixels from the source beyond which there is nothing but noise.
FAR = np.hypot(*(np.indices((SIZE, SIZE)) - SIZE // 2)) > 15
#: Numbers of cutouts at which the noise of a stack is kept.
MARKS = 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000
POINT = point_image(SIZE // 2, SIZE // 2, SIZE)


class Stack:
    """The weighted mean of cutouts of a source; sums of two images, however many cutouts there are.

    Attributes:
        source: in the middle of pixel SIZE // 2 of each axis.
        count: cutouts that were added.
        rejected: pixels of them that were not used.
        history: at each of MARKS, how many were added, the mean, its noise, and the mean noise of one cutout.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.count, self.rejected = source, 0, 0
        self.history: list[tuple[int, np.ndarray, float, float]] = []
        self._sum, self._weights, self._weight = np.zeros((SIZE, SIZE)), np.zeros((SIZE, SIZE)), 0.0

    def add(self, cutout: dict[str, Any]) -> None:
        """Add what `cutouts.cutout` returned."""
        values, weight = cutout["values"], cutout["weight"]
        used = np.isfinite(values)
        self._sum += np.where(used, values, 0) * weight
        self._weights += used * weight
        self._weight += weight
        self.count += 1
        self.rejected += cutout["rejected"]
        if self.count in MARKS:
            self.history.append(
                (self.count, self.mean().astype("f4"), self.noise(), (self.count / self._weight) ** 0.5)
            )

    def mean(self) -> np.ndarray:
        """The mean of each pixel; NaN where all were rejected."""
        return np.divide(self._sum, self._weights, out=np.full((SIZE, SIZE), np.nan), where=self._weights > 0)

    def noise(self) -> float:
        """Standard deviation of pixels far from the source that almost all cutouts show: those of an edge have more."""
        return float(np.std(self.mean()[FAR & (self._weights > 0.9 * self._weight)]))

    def flux(self) -> tuple[float, float]:
        """Flux of the source, by a matched filter, and its standard deviation; infinite where nothing was added."""
        information = (POINT**2 * self._weights).sum()
        if information == 0:
            return 0.0, float("inf")
        return float((POINT * self._sum).sum() / information), float(information**-0.5)

    def write(self, path: Path) -> None:
        """Write mean and standard deviation of each pixel to a FITS file."""
        flux, error = self.flux()
        header = fits.Header({"RA": self.source.ra, "DEC": self.source.dec, "FRAMES": self.count})
        header.update({"REJECTED": self.rejected, "FLUX": flux, "FLUXERR": error})
        with np.errstate(divide="ignore"):
            deviations = fits.ImageHDU((self._weights**-0.5).astype("f4"), name="ERROR")
        fits.HDUList([fits.PrimaryHDU(self.mean().astype("f4"), header), deviations]).writeto(path, overwrite=True)
