"""The envelope of windows and of samples: a step of `isochrony.Plan`."""

from __future__ import annotations

from typing import Self

from ..errors.native import OptionError
from ..options import finite
from .chain import Chain

__all__ = ["FeatureSteps"]


class FeatureSteps(Chain):
    """Part of `isochrony.Plan`: the envelope."""

    __slots__ = ()

    def envelope(self, low_hz: float | None = None, *, attenuation_db: float | None = None) -> Self:
        """Compute the envelope of every window, or of continuous samples: the magnitude of the analytic signal.

        Inputs:
            Windows of real samples, shape (n, N), or real samples, shape (n,).

        Returns:
            The same shape and unit, float32 for float32, otherwise float64. Edges: a window is treated as one period of
            a periodic signal, so values near both ends are affected where the end does not continue into the beginning.
            Of samples, about ``(attenuation_db - 2) / 58 * rate / low_hz`` values are left out at both ends of each
            gap-free range. No delay.

        Parameters:
            low_hz: for samples only, and required there: lowest frequency of which the envelope is accurate, above 0
                and below a quarter of the rate; the highest is half the rate less `low_hz`. Lower frequencies and an
                offset appear rectified, as their absolute value: remove them with `highpass` first.
            attenuation_db: for samples only: a sine of the band gives its amplitude within
                ``10**(-attenuation_db / 20)`` of it; 20 to 160 dB, default 60.

        Conventions:
            Of windows, as ``abs(scipy.signal.hilbert(window))``; remove an offset with `detrend`. Of samples, by a
            Hilbert transformer with a limited number of taps. NaN spreads to its window, or as far as the taps.

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
                        f"envelope of windows does not take {option}={value!r}, which is for samples; leave it out, or "
                        "put envelope before rewindow"
                    )
            return self._then("envelope")
        if low_hz is None:
            raise OptionError(
                "envelope of samples needs low_hz=; give the lowest frequency in Hz at which the envelope must be right"
            )
        low = finite("envelope low_hz=", low_hz, "Hz")
        attenuation = 60.0 if attenuation_db is None else finite("envelope attenuation_db=", attenuation_db, "dB")
        return self._then("stream_envelope", low_hz=low, attenuation_db=attenuation)
