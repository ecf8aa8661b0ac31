"""Spectra of windows: steps of `isochrony.Plan`."""

from __future__ import annotations

from typing import Self

from .chain import Chain
from .options import choice

__all__ = ["SpectrumSteps"]


class SpectrumSteps(Chain):
    """Spectra of windows."""

    __slots__ = ()

    def fft(self) -> Self:
        """Transform every window: a row of complex numbers each, as `numpy.fft.rfft`, of complex samples as `fft`.

        A row of N real samples gives N // 2 + 1 numbers, at ``numpy.fft.rfftfreq(N, 1 / rate)`` Hz. complex64 for
        float32 and complex64 samples, else complex128.

        Raises:
            PlanError: no windows of samples come in.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([1.0, 0.0, -1.0, 0.0]), rate=100).rewindow(4).fft().collect()
        array([[0.+0.j, 2.+0.j, 0.+0.j]])
        """
        return self._then("fft")

    def power(self, *, taper: str = "hann", scaling: str = "density", detrend: str = "constant") -> Self:
        """Power spectrum of every window: a row of real numbers each, as `scipy.signal.periodogram`.

        Parameters:
            taper: "hann", "hamming", "blackman" or "boxcar", periodic.
            scaling: "density", in the unit squared per Hz; or "spectrum", in the unit squared, where a sine of
                amplitude A peaks at A²/2. One-sided for real samples.
            detrend: "constant" takes each window's mean out first; or "none".

        Raises:
            PlanError: no windows of samples come in. OptionError: a parameter is none of these.
        """
        choice("taper", taper, ("hann", "hamming", "blackman", "boxcar"))
        choice("scaling", scaling, ("density", "spectrum"))
        choice("detrend", detrend, ("constant", "none"))
        return self._then("power", taper=taper, scaling=scaling, detrend=detrend)
