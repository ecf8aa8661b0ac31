"""What windows are described by: steps of `isochrony.Plan`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import numpy.typing as npt

from .chain import Chain
from .native_errors import OptionError
from .options import choice, whole
from .tapers import taper_text

if TYPE_CHECKING:
    from .tapers import Taper

__all__ = ["FeatureSteps", "numbers"]


def numbers(name: str, given: npt.ArrayLike | Iterable[float]) -> float | list[float]:
    """Finite real numbers, one or a list of them, or `OptionError`."""
    values = np.asarray(given)
    if values.ndim > 1 or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise OptionError(f"{name}={given!r} is refused; give a finite number or a list of them")
    return float(values) if values.ndim == 0 else [float(value) for value in values]


class FeatureSteps(Chain):
    """What windows are described by.

    Each window gives a row of one or a few numbers, computed from itself alone: float32 of float32 samples, else
        float64.
    Calibrated counts are values in their unit. NaN and infinities spread to their window's row and no further.
    """

    __slots__ = ()

    def envelope(self, low_hz: float | None = None, *, attenuation_db: float | None = None) -> Self:
        """The envelope of every window, or of samples that go on: the magnitude of the analytic signal.

        Of windows, as long as they: ``abs(scipy.signal.hilbert(window))``. Each window is taken as one period of a
        periodic signal: where its end does not continue into its beginning, values near both ends show it. Overlapping
        windows of which the middles are used avoid that. An offset counts: take it out by `detrend`.

        Of samples, with their indices and without delay, by a Hilbert transformer of a limited number of taps.

        Parameters:
            low_hz: of samples only, and needed there: the lowest frequency of which the envelope is right, above 0
                and below a quarter of the rate; the highest is half the rate less `low_hz`. Slower ones, and an offset,
                show as they are: put `highpass` before.
            attenuation_db: of samples only: a sine of the band gives its amplitude within
                ``10**(-attenuation_db / 20)`` of it; 20 to 160 dB, default 60.

        Conventions:
            Of samples values are given only where all taps lie in the stretch, which leaves out about
            ``(attenuation_db - 2) / 58 * rate / low_hz`` samples, or a few more, at each of its ends; NaN reaches as
            far.

        Raises:
            PlanError: no windows and no samples that are real come in, or a frequency out of range.
            OptionError: `low_hz` is missing for samples; it or `attenuation_db` is given for windows.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([0.0, 3.0, 0.0, -3.0]), rate=100).rewindow(4).envelope().collect()
        array([[3., 3., 3., 3.]])
        >>> tone = iso.scan(2 * np.sin(np.arange(4000)), rate=100)
        >>> bool(abs(tone.envelope(low_hz=2).collect() - 2).max() < 2e-3)
        True
        """
        if self.kind != "samples":
            for option, value in (("low_hz", low_hz), ("attenuation_db", attenuation_db)):
                if value is not None:
                    raise OptionError(
                        f"envelope({option}={value!r}) is for samples; leave it out, or put envelope before rewindow"
                    )
            return self._then("envelope")
        if low_hz is None:
            raise OptionError(
                "the envelope of samples needs low_hz=, the lowest frequency of which it is right; give it"
            )
        low, attenuation = (
            numbers("low_hz", low_hz),
            numbers("attenuation_db", 60.0 if attenuation_db is None else attenuation_db),
        )
        return self._then("stream_envelope", low_hz=low, attenuation_db=attenuation)

    def rms(self) -> Self:
        """The root of the mean square of every window, of complex samples of their magnitudes: one number each.

        NaN and infinities count; ``stats("rms")`` leaves them out.

        Raises:
            PlanError: no windows of samples come in.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([3.0, -4.0, 0.0, 0.0]), rate=100).rewindow(4).rms().collect()
        array([[2.5]])
        """
        return self._then("rms")

    def zero_crossings(self) -> Self:
        """How often the sign changes from one sample of a window to the next that has one: one number each.

        Zeros (of either sign) and NaN have no sign and are passed over: 1, 0, -1 is one crossing, 1, 0, 1 none.

        Raises:
            PlanError: no windows of real samples come in.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([1, 0, -1, 2, 0, 3]), rate=100).rewindow(6).zero_crossings().collect()
        array([[2.]])
        """
        return self._then("zero_crossings")

    def haar(self, levels: int, *, output: Literal["energies", "details", "coefficients"] = "energies") -> Self:
        """The orthonormal Haar wavelet transform of every window: energies of its frequency bands, or coefficients.

        Parameters:
            levels: how often the window is halved, from 1; its length is a multiple of ``2**levels``. Level l sees
                about ``rate / 2**(l + 1)`` to ``rate / 2**l`` Hz.
            output: "energies": of the details of levels 1, 2 ... and of what the last leaves, ``levels + 1`` numbers
                that add up to the sum of the squared samples; the "details" of the last level, ``window / 2**levels``
                numbers; or all "coefficients", the approximation first and then details from the last level to the
                first, as ``np.concatenate(pywt.wavedec(window, "haar", level=levels))``.

        Raises:
            PlanError: no windows of real samples of such a length come in. OptionError: an option without a legal
                value.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([1.0, 3.0, 5.0, 5.0]), rate=100).rewindow(4).haar(2).collect()
        array([[ 2.,  9., 49.]])
        """
        choice("output", output, ("energies", "details", "coefficients"))
        return self._then("haar", levels=whole("haar", levels, "levels"), output=output)

    def quantile(self, at: npt.ArrayLike) -> Self:
        """Quantiles of every window, a number for each, as `numpy.quantile` gives them by default.

        Parameters:
            at: one or more numbers from 0 (the minimum) to 1 (the maximum).

        Raises:
            PlanError: no windows of real samples come in, or a number is out of range. OptionError: it is no number.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([4, 1, 2, 3]), rate=100).rewindow(4).quantile([0.5, 1]).collect()
        array([[2.5, 4. ]])
        """
        return self._then("quantile", at=numbers("at", at))

    def spectral_score(
        self,
        weights: npt.ArrayLike = 1.0,
        *,
        band_hz: tuple[float, float] | None = None,
        normalise: Literal["none", "total"] = "none",
        taper: Taper = "boxcar",
        detrend: Literal["none", "constant", "linear"] = "none",
    ) -> Self:
        """A weighted sum of the magnitudes of every window's frequencies: one number each.

        It is the detection score of XStream's DETECTAUDIO (Girod et al. 2008, section II), of the magnitudes of `fft`.

        Parameters:
            weights: a number for each frequency, at ``numpy.fft.rfftfreq(window, 1 / rate)`` Hz, or one for all.
            band_hz: two frequencies in Hz; those outside of them count nothing.
            normalise: "total" divides by the sum of all magnitudes, so that with weights from 0 to 1 the score is a
                share; a window of zeros has 0.
            taper, detrend: as in `fft`.

        Raises:
            PlanError: no windows of samples come in, or not as many weights, or a band out of range.
            OptionError: an option without a legal value.

        >>> import numpy as np, isochrony as iso
        >>> windows = iso.scan(np.array([2.0, 0.0, -2.0, 0.0, 1.0, 1.0, 1.0, 1.0]), rate=100).rewindow(4)
        >>> windows.spectral_score(band_hz=(20, 30), normalise="total").collect()
        array([[1.],
               [0.]])
        """
        choice("normalise", normalise, ("none", "total"))
        choice("detrend", detrend, ("none", "constant", "linear"))
        band = [] if band_hz is None else numbers("band_hz", band_hz)
        return self._then(
            "spectral_score",
            weights=numbers("weights", weights),
            band_hz=band,
            normalise=normalise,
            taper=taper_text(taper),
            detrend=detrend,
        )

    def trim_peak(self, extreme: Literal["max", "min", "abs"] = "max", *, count: int = 1, skip: int = 1) -> Self:
        """Trim peaks from every window, or from what was computed of it: its extreme, then that of the rest behind, ...

        It is XStream's `trimpeak` (Girod et al. 2008, figure 3): a peak and the rest behind it, to be searched again.

        Parameters:
            extreme: the largest value, the smallest, or the one furthest from zero. Of equal ones the first; never NaN.
            count: number of peaks, from 1 to 64.
            skip: the rest begins so many values behind a peak, from 1.

        Returns:
            A plan of rows: "start", "end", "time" (where the signal knows civil time), then "peak" (float64) and "at"
            (the index of its sample), "peak_2", "at_2", ...; unknown where nothing is left. A row of fewer values than
            the window has samples is spread over it evenly, and "at" is the first sample that a value covers.

        Raises:
            PlanError: no windows of real values come in. OptionError: an option without a legal value.

        >>> import numpy as np, isochrony as iso
        >>> echo = iso.scan(np.array([0, 7, 6, 0, 4, 1]), rate=100).rewindow(6)
        >>> echo.trim_peak(count=2, skip=2).collect()
         start  end  peak  at  peak_2  at_2
             0    6     7   1       4     4
        [1 rows]
        """
        choice("extreme", extreme, ("max", "min", "abs"))
        peaks, behind = whole("trim_peak count=", count, "peaks"), whole("trim_peak skip=", skip, "values")
        return self._then("trim_peak", extreme=extreme, count=peaks, skip=behind)
