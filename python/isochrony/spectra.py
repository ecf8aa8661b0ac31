"""Spectra of windows: steps of `isochrony.Plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import numpy.typing as npt

from .chain import Chain
from .native_errors import PlanError
from .options import choice, whole
from .tapers import taper_text

if TYPE_CHECKING:
    from .tapers import Taper

__all__ = ["SpectrumSteps"]

_DETREND = ("none", "constant", "linear")
_SCALING = ("density", "spectrum")


class SpectrumSteps(Chain):
    """Spectra of windows."""

    __slots__ = ()

    def fft(
        self,
        *,
        taper: Taper = "boxcar",
        scaling: Literal["none", "spectrum", "psd"] = "none",
        detrend: Literal["none", "constant", "linear"] = "none",
    ) -> Self:
        """Transform every window: a row of complex numbers each, as `numpy.fft.rfft`, of complex samples as `fft`.

        A row of N real samples gives N // 2 + 1 numbers, at ``numpy.fft.rfftfreq(N, 1 / rate)`` Hz (`frequencies`).
        complex64 for float32 and complex64 samples, else complex128. NaN spreads to its window's row.

        Parameters:
            taper: by which windows are multiplied first, as in `isochrony.taper_factors`, periodic.
            scaling: "none"; "spectrum", where a sine of amplitude A has A/2; "psd", whose squared magnitudes are power
                per Hz, two-sided (both as `scipy.signal.stft`).
            detrend: what is taken from each window before that: its mean ("constant"), a line ("linear"), or "none".

        Raises:
            PlanError: no windows of samples come in, or a taper's parameter is out of range.
            OptionError: an option without a legal value.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([1.0, 0.0, -1.0, 0.0]), rate=100).rewindow(4).fft().collect().real
        array([[0., 2., 0.]])
        """
        choice("scaling", scaling, ("none", "spectrum", "psd"))
        choice("detrend", detrend, _DETREND)
        return self._then("fft", taper=taper_text(taper), scaling=scaling, detrend=detrend)

    def ifft(self) -> Self:
        """Transform every row of `fft` back into its window, as `numpy.fft.irfft`, of complex samples as `ifft`.

        Rows of N // 2 + 1 numbers of windows of N samples give real samples, rows of N numbers complex ones. Where N is
        1 or 2, so that both are as long, what `fft` was computed of decides.

        Raises:
            PlanError: rows of another length, or no complex ones, come in.

        >>> import numpy as np, isochrony as iso
        >>> spectra = iso.scan(np.array([1.0, 2.0, 4.0, 3.0]), rate=100).rewindow(4).fft()
        >>> spectra.map(lambda s: 2 * s).ifft().collect().round(6)
        array([[2., 4., 8., 6.]])
        """
        # Rows of one or two numbers do not tell whether they are those of complex samples.
        short = len(self._native.frequencies or ()) in (1, 2)
        return self._then("ifft", complex=True) if short and self._native.complex_spectra else self._then("ifft")

    def stft(
        self,
        nfft: int,
        hop: int | None = None,
        *,
        taper: Taper = "hann",
        scaling: Literal["none", "spectrum", "psd"] = "spectrum",
        detrend: Literal["none", "constant", "linear"] = "none",
    ) -> Self:
        """Short-time Fourier transform of samples: `rewindow`, then `fft`, with the conventions of `scipy.signal.stft`.

        Only windows that lie wholly in a gap-free stretch count (SciPy's ``boundary=None, padded=False``), so row k
        of a stretch is of the `nfft` samples from ``k * hop`` on. `isochrony.adds_up` says whether taper and hop allow
        to put the signal together again.

        Parameters:
            nfft: samples of a window, from 1.
            hop: samples from one window to the next, from 1; default: half a window, rounded up (SciPy's).
            taper, scaling, detrend: as in `fft`.

        Raises:
            PlanError: no samples come in, or a taper's parameter is out of range.
            OptionError: an option without a legal value.

        >>> import numpy as np, isochrony as iso
        >>> sine = 3 * np.sin(2 * np.pi * 25 * np.arange(400) / 100)
        >>> plan = iso.scan(sine, rate=100).stft(100)
        >>> spectra = plan.collect()
        >>> spectra.shape, plan.frequencies[np.abs(spectra[0]).argmax()], abs(spectra[0]).max().round(6)
        ((7, 51), np.float64(25.0), np.float64(1.5))
        """
        return self._windows("stft", nfft, hop).fft(taper=taper, scaling=scaling, detrend=detrend)

    def power(
        self,
        *,
        taper: Taper = "hann",
        scaling: Literal["density", "spectrum"] = "density",
        detrend: Literal["none", "constant", "linear"] = "constant",
    ) -> Self:
        """Power spectrum of every window: a row of real numbers each, as `scipy.signal.periodogram`.

        Parameters:
            taper: by which windows are multiplied first, as in `isochrony.taper_factors`, periodic.
            scaling: "density", in the unit squared per Hz; or "spectrum", in the unit squared, where a sine of
                amplitude A peaks at A²/2. One-sided for real samples.
            detrend: what is taken from each window before that: its mean ("constant"), a line ("linear"), or "none".

        Raises:
            PlanError: no windows of samples come in, or a taper's parameter is out of range.
            OptionError: an option without a legal value.
        """
        choice("scaling", scaling, _SCALING)
        choice("detrend", detrend, _DETREND)
        return self._then("power", taper=taper_text(taper), scaling=scaling, detrend=detrend)

    def spectrogram(
        self,
        nfft: int,
        hop: int | None = None,
        *,
        taper: Taper = "hann",
        scaling: Literal["density", "spectrum"] = "density",
        detrend: Literal["none", "constant", "linear"] = "constant",
    ) -> Self:
        """Power spectra of samples over time: `rewindow`, then `power`, as `scipy.signal.spectrogram` (transposed).

        `frequencies` gives the axis of a row; ``.rows(power=lambda s: s)`` behind it puts each row's start, end and
        time beside it.

        Parameters:
            nfft: samples of a window, from 1.
            hop: samples from one window to the next, from 1; default: half a window, rounded up.
            taper, scaling, detrend: as in `power`. SciPy's default taper is ("tukey", 0.25), its overlap an eighth.

        Raises:
            PlanError: no samples come in, or a taper's parameter is out of range.
            OptionError: an option without a legal value.

        >>> import numpy as np, isochrony as iso
        >>> chirp = np.sin(2 * np.pi * np.arange(2000) ** 2 / 2000 / 20)
        >>> plan = iso.scan(chirp, rate=100).spectrogram(200, 450)
        >>> plan.frequencies[plan.collect().argmax(axis=1)]
        array([0.5, 3. , 5. , 7.5, 9.5])
        """
        return self._windows("spectrogram", nfft, hop).power(taper=taper, scaling=scaling, detrend=detrend)

    def welch(
        self,
        nfft: int,
        hop: int | None = None,
        *,
        taper: Taper = "hann",
        scaling: Literal["density", "spectrum"] = "density",
        detrend: Literal["none", "constant", "linear"] = "constant",
        average: Literal["mean", "median"] = "mean",
    ) -> Self:
        """Power spectrum of every window, averaged over parts of it: a row each, as `scipy.signal.welch`.

        Parameters:
            nfft: samples of a part, from 1 to the window's.
            hop: samples from one part to the next, from 1; default: half a part, rounded up.
            taper, scaling, detrend: as in `power`, of each part.
            average: "mean"; or "median" over its bias for noise, of which a short disturbance is no part.

        Raises:
            PlanError: no windows of samples come in, `nfft` is longer than they are, or a taper's parameter is out of
                range.
            OptionError: an option without a legal value.

        >>> import numpy as np, isochrony as iso
        >>> noise = np.random.default_rng(1).standard_normal(100_000)
        >>> density = iso.scan(noise, rate=100).rewindow(100_000).welch(256).collect()
        >>> (density[0, 1:-1].mean() * 50).round(1)  # white noise of one unit, up to 50 Hz
        np.float64(1.0)
        """
        choice("scaling", scaling, _SCALING)
        choice("detrend", detrend, _DETREND)
        choice("average", average, ("mean", "median"))
        part = whole("welch nfft=", nfft, "samples")
        every = None if hop is None else whole("welch hop=", hop, "samples")
        return self._then(
            "welch",
            nfft=part,
            hop=every,
            taper=taper_text(taper),
            scaling=scaling,
            detrend=detrend,
            average=average,
        )

    def taper(self, taper: Taper = "hann", *, symmetric: bool = False) -> Self:
        """Multiply the samples of every window by the factors of a taper (`isochrony.taper_factors`).

        float32 and complex64 stay, all else becomes double.

        Parameters:
            taper: its name, or its name and its parameter.
            symmetric: with ends that are alike; else its period is the window.

        Raises:
            PlanError: no windows of samples come in, or its parameter is out of range. OptionError: no such taper.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.ones(4), rate=100).rewindow(4).taper("hann").collect()
        array([[0. , 0.5, 1. , 0.5]])
        """
        return self._then("taper", taper=taper_text(taper), symmetric=bool(symmetric))

    def detrend(self, kind: Literal["constant", "linear"] = "constant") -> Self:
        """Take its mean, or the line with the least squared distance, from every window, as `scipy.signal.detrend`.

        float32 and complex64 stay, all else becomes double. NaN spreads to its window.

        Raises:
            PlanError: no windows of samples come in. OptionError: `kind` is neither.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([1.0, 3.0, 2.0, 4.0]), rate=100).rewindow(4).detrend("linear").collect().round(6)
        array([[-0.3,  0.9, -0.9,  0.3]])
        """
        choice("kind", kind, ("constant", "linear"))
        return self._then("detrend", kind=kind)

    @property
    def frequencies(self) -> npt.NDArray[np.float64]:
        """The frequencies in Hz that the values of a row are of, where rows are spectra or as many values made of them.

        Those of real samples are `numpy.fft.rfftfreq`, of complex ones `numpy.fft.fftfreq`.

        Raises:
            PlanError: rows are no spectra.
        """
        hz = self._native.frequencies
        if hz is None:
            raise PlanError("frequencies are those of spectra; put fft(), power() or welch(...) before it")
        return np.array(hz)

    def _windows(self, step: str, nfft: int, hop: int | None) -> Self:
        window = whole(step, nfft, "samples")
        every = window - window // 2 if hop is None else whole(f"{step} hop=", hop, "samples")
        return self._then("rewindow", window=window, hop=every)
