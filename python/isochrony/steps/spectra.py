"""Spectra of windows: steps of `isochrony.Plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import numpy.typing as npt

from ..errors.native import PlanError
from ..options import length
from .generated import GeneratedOperators

if TYPE_CHECKING:
    from ..options import Length
    from .tapers import Taper

__all__ = ["SpectrumSteps"]


class SpectrumSteps(GeneratedOperators):
    """Part of `isochrony.Plan`: spectra over time, and back."""

    __slots__ = ()

    def ifft(self) -> Self:
        """Transform every row of `fft` back into its window, as `numpy.fft.irfft`, of complex samples as `ifft`.

        Rows of N // 2 + 1 numbers give N real samples, rows of N numbers complex ones. Where both have the same length
        (N is 1 or 2), the type of the samples before `fft` decides.

        Returns:
            Rows of N samples, shape (n, N): real for spectra of real windows, otherwise complex; single precision for
            complex64, otherwise double. No edges, no delay.

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
        nfft: Length,
        hop: Length | None = None,
        *,
        taper: Taper = "hann",
        scaling: Literal["none", "spectrum", "psd"] = "spectrum",
        detrend: Literal["none", "constant", "linear"] = "none",
    ) -> Self:
        """Compute the short-time Fourier transform: `rewindow`, then `fft`, as `scipy.signal.stft` does.

        This is SciPy's ``boundary=None, padded=False``: row k of a gap-free range is computed from the `nfft` samples
        from ``k * hop`` on. `isochrony.adds_up` tells whether the signal can be reconstructed with this taper and hop.

        Returns:
            Rows of complex numbers: shape (windows, nfft // 2 + 1) for real samples, (windows, nfft) for complex ones;
            complex64 for float32 and complex64, otherwise complex128. Edges: only windows that lie wholly in a gap-free
            range. No delay beyond the window.

        Parameters:
            nfft: length of a window: samples, from 1, or text such as "125ms", as in `rewindow`.
            hop: distance between the starts of consecutive windows, in the same forms as `nfft`; default: nfft / 2,
                rounded up (SciPy's).
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

    def spectrogram(
        self,
        nfft: Length,
        hop: Length | None = None,
        *,
        taper: Taper = "hann",
        scaling: Literal["density", "spectrum"] = "density",
        detrend: Literal["none", "constant", "linear"] = "constant",
    ) -> Self:
        """Compute power spectra over time: `rewindow`, then `power`; `scipy.signal.spectrogram`, transposed.

        `frequencies` gives the axis of a row; ``.rows(power=lambda s: s)`` after it adds each row's start,
        end and time.

        Returns:
            Rows of real numbers: shape (windows, nfft // 2 + 1) for real samples, (windows, nfft) for complex ones;
            float32 for float32 and complex64, otherwise float64. Edges: only windows that lie wholly in a gap-free
            range. No delay beyond the window.

        Parameters:
            nfft: length of a window: samples, from 1, or text such as "125ms", as in `rewindow`.
            hop: distance between the starts of consecutive windows, in the same forms as `nfft`; default: nfft / 2,
                rounded up.
            scaling: "density" in unit**2/Hz, "spectrum" in unit**2, as in `power`.
            taper, detrend: as in `power`. SciPy's default taper is ("tukey", 0.25), its overlap an eighth.

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

    @property
    def frequencies(self) -> npt.NDArray[np.float64]:
        """Frequencies in Hz of the values of a row, for plans of spectra and of expressions of them: shape (values,).

        For real samples as `numpy.fft.rfftfreq`, for complex ones as `numpy.fft.fftfreq`.

        Raises:
            PlanError: the rows are not spectra.
        """
        hz = self._native.frequencies
        if hz is None:
            raise PlanError(
                "this plan gives no spectra, so it has no frequencies; put fft(), power() or welch(...) before "
                ".frequencies"
            )
        return np.array(hz)

    def _windows(self, step: str, nfft: Length, hop: Length | None) -> Self:
        windows = self._then("rewindow", window=length(step, nfft, "samples"))
        # Without one of its own, the hop is the window in samples.
        window = windows.hop
        every = window - window // 2 if hop is None else length(f"{step} hop=", hop, "samples")
        return self._then("rewindow", window=window, hop=every)
