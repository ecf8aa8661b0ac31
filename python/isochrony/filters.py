"""Filters of samples: steps of `isochrony.Plan`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self

from .chain import Chain
from .native_errors import OptionError
from .options import choice, whole

__all__ = ["FilterSteps"]

_KINDS = ("butter", "cheby1", "cheby2", "ellip")
_BANDS = ("lowpass", "highpass", "bandpass", "bandstop")
_INITIAL = ("zero", "steady")
_WINDOWS = ("hamming", "hann", "blackman", "boxcar", "kaiser")


def number(step: str, value: object, unit: str) -> float:
    """A finite number, or `OptionError`."""
    try:
        finite = math.nan if isinstance(value, bool | str) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        finite = math.nan
    if not math.isfinite(finite):
        raise OptionError(f"{step}{value!r} is refused; give a finite number{unit and ' of '}{unit}")
    return finite


def numbers(step: str, value: object, unit: str) -> float | list[float]:
    """One number, or a list of them."""
    try:
        several = list(value)  # type: ignore[call-overload]
    except TypeError:
        return number(step, value, unit)
    return [number(step, one, unit) for one in several]


class FilterSteps(Chain):
    """Of `isochrony.Plan`: filters of samples. What they give has the unit and the indices of what they are given.

    Frequencies are in Hz of the signal's rate, between 0 and half of it; others are an error when the step is added.
    A filter begins anew behind every gap and clock step, and where a filter of windows has removed something.
    """

    __slots__ = ()

    def iir(
        self,
        kind: Literal["butter", "cheby1", "cheby2", "ellip"],
        band: Literal["lowpass", "highpass", "bandpass", "bandstop"],
        cutoff_hz: float | Sequence[float],
        order: int = 4,
        *,
        ripple_db: float | None = None,
        attenuation_db: float | None = None,
        initial: Literal["zero", "steady"] = "zero",
    ) -> Self:
        """Filter samples recursively: Butterworth, Chebyshev or elliptic, as second-order sections.

        Samples in; as many samples out, with their indices: float32 of float32, float64 of all other real samples, and
        the parts of complex ones each by itself. The state is double always.

        Parameters:
            kind: "butter" is flat, "cheby1" ripples where it passes, "cheby2" where it stops, "ellip" in both.
            band: what passes.
            cutoff_hz: the corner, or for a band both: where the gain is 1 / sqrt(2) ("butter"), leaves `-ripple_db`
                ("cheby1", "ellip") or reaches `-attenuation_db` ("cheby2").
            order: of the lowpass that it is made of, 1 to 32; a band has twice as many poles.
            ripple_db: depth of the ripple where "cheby1" and "ellip" pass, above 0 dB.
            attenuation_db: least attenuation where "cheby2" and "ellip" stop, above 0 dB.
            initial: what lies before each stretch: "zero", or "steady": its first sample, since ever, so that a
                constant begins without a transient.

        Conventions:
            The design is that of ``scipy.signal.iirfilter(order, cutoff_hz, btype=band, ftype=kind, output="sos")``,
            what it gives that of ``sosfilt``, with ``sosfilt_zi`` times the first sample if `initial` is "steady".
            The delay is the filter's own (`zero_phase` has none). NaN and infinities make all that follows in their
            stretch NaN.

        Raises:
            OptionError: an option without a legal value.
            PlanError: a corner outside of 0 to half the rate, a filter that double precision cannot hold, or no
                samples come in.

        >>> import numpy as np, isochrony as iso
        >>> t = np.arange(2000) / 1000
        >>> signal = np.sin(2 * np.pi * 5 * t) + np.sin(2 * np.pi * 200 * t)
        >>> slow = iso.scan(signal, rate=1000).iir("ellip", "lowpass", 20, 6, ripple_db=0.1, attenuation_db=80)
        >>> fast = iso.scan(signal, rate=1000).highpass(100)
        >>> [round(float(np.std(plan.collect()[1000:])), 2) for plan in (slow, fast)]
        [0.71, 0.71]
        """
        choice("kind", kind, _KINDS)
        choice("band", band, _BANDS)
        choice("initial", initial, _INITIAL)
        return self._then(
            "iir",
            kind=kind,
            band=band,
            cutoff_hz=numbers("iir cutoff_hz=", cutoff_hz, "Hz"),
            order=whole("iir order=", order, "poles"),
            ripple_db=None if ripple_db is None else number("iir ripple_db=", ripple_db, "dB"),
            attenuation_db=None if attenuation_db is None else number("iir attenuation_db=", attenuation_db, "dB"),
            initial=initial,
        )

    def lowpass(self, hz: float, order: int = 4, *, initial: Literal["zero", "steady"] = "zero") -> Self:
        """Keep what lies below a frequency: a Butterworth filter; see `iir`.

        >>> import numpy as np, isochrony as iso
        >>> print(iso.scan(np.ones(3), rate=100).lowpass(10, order=2))
        scan(array) -> iir(band="lowpass", cutoff_hz=10.0, order=2)
        """
        return self.iir("butter", "lowpass", hz, order, initial=initial)

    def highpass(self, hz: float, order: int = 4, *, initial: Literal["zero", "steady"] = "zero") -> Self:
        """Keep what lies above a frequency: a Butterworth filter; see `iir`."""
        return self.iir("butter", "highpass", hz, order, initial=initial)

    def bandpass(
        self, low_hz: float, high_hz: float, order: int = 4, *, initial: Literal["zero", "steady"] = "zero"
    ) -> Self:
        """Keep what lies between two frequencies: a Butterworth filter; see `iir`."""
        return self.iir("butter", "bandpass", (low_hz, high_hz), order, initial=initial)

    def bandstop(
        self, low_hz: float, high_hz: float, order: int = 4, *, initial: Literal["zero", "steady"] = "zero"
    ) -> Self:
        """Take out what lies between two frequencies: a Butterworth filter; see `iir`."""
        return self.iir("butter", "bandstop", (low_hz, high_hz), order, initial=initial)

    def notch(self, hz: float, q: float = 30.0, *, initial: Literal["zero", "steady"] = "zero") -> Self:
        """Take one frequency out, as mains hum; what lies within ``hz / q`` around it is weakened by 3 dB or more.

        Samples in, as many samples out, as with `iir`; the design is ``scipy.signal.iirnotch(hz, q)``.

        Parameters:
            hz: the frequency, between 0 and half the rate.
            q: how narrow: `hz` over the width; the band is no wider than half the rate.
            initial: what lies before each stretch, as in `iir`.

        Raises:
            OptionError: an option without a legal value.
            PlanError: a frequency or a `q` out of range, or no samples come in.

        >>> import numpy as np, isochrony as iso
        >>> hum = np.sin(2 * np.pi * 50 * np.arange(4000) / 1000)
        >>> left = iso.scan(hum + 3.0, rate=1000).notch(50, q=10, initial="steady").collect()
        >>> bool(abs(left[2000:] - 3.0).max() < 1e-3)
        True
        """
        choice("initial", initial, _INITIAL)
        return self._then("notch", hz=number("notch hz=", hz, "Hz"), q=number("notch q=", q, ""), initial=initial)

    def fir(
        self,
        taps: int | Sequence[float] | None = None,
        band: Literal["lowpass", "highpass", "bandpass", "bandstop"] | None = None,
        cutoff_hz: float | Sequence[float] | None = None,
        *,
        window: Literal["hamming", "hann", "blackman", "boxcar", "kaiser"] = "hamming",
        attenuation_db: float | None = None,
        width_hz: float | None = None,
        edges_hz: Sequence[float] | None = None,
        gains: Sequence[float] | None = None,
        weights: Sequence[float] | None = None,
        delay: Literal["causal", "centred"] = "causal",
        method: Literal["auto", "direct", "fft"] = "auto",
    ) -> Self:
        """Filter samples without recursion, by taps that are given or designed.

        Samples in; samples out with their indices: float32 of float32, in single precision, float64 of all other real
        samples, and the parts of complex ones each by itself. ``delay="causal"`` gives as many as come in, "centred"
        leaves out half the taps at each end of a stretch.

        Parameters:
            taps: the taps themselves, or their number, to be designed.
            band: what passes, of a design by a window.
            cutoff_hz: of such a design the corner, or for a band both, where the gain is a half.
            window: "hamming" stops by 53 dB, "hann" by 44, "blackman" by 74, "boxcar" by 21, "kaiser" by
                `attenuation_db`.
            attenuation_db: of a Kaiser window, above 0 dB.
            width_hz: of a Kaiser window, instead of the number of taps: the width from passing to stopping.
            edges_hz: of a design for equal ripple, where each band begins and ends, ascending from 0 to half the rate.
            gains: the gain in each of these bands.
            weights: how much an error counts in each of them, above 0; default: alike.
            delay: "causal": result i is of sample i and those before it, zeros before the stretch, as ``lfilter`` does
                it; "centred": no delay, as an odd number of symmetric or antisymmetric taps can have it, and results
                only where all taps lie in the stretch.
            method: "direct" adds products; "fft" multiplies spectra of blocks, so that results come up to two blocks
                later and rounding errors are a part of the largest samples of a block; "auto": direct below 80 taps.

        Conventions:
            Designs are those of ``scipy.signal.firwin`` and ``remez``, taps symmetric, with a gain of 1 in the middle
            of what passes of a design by a window. NaN and infinities reach as far as the taps do.

        Raises:
            OptionError: an option without a legal value.
            PlanError: options that do not go together, a frequency out of range, a design for equal ripple that was
                not found, or no samples come in.

        >>> import numpy as np, isochrony as iso
        >>> plan = iso.scan(np.arange(6.0), rate=100)
        >>> plan.fir([1, -1]).collect()
        array([0., 1., 1., 1., 1., 1.])
        >>> plan.fir([1, 0, -1], delay="centred").collect()
        array([2., 2., 2., 2.])
        >>> iso.scan(np.ones(300), rate=100).fir(101, "lowpass", 10, delay="centred").collect().round(6).max()
        np.float64(1.0)
        """
        if band is not None:
            choice("band", band, _BANDS)
        choice("window", window, _WINDOWS)
        choice("delay", delay, ("causal", "centred"))
        choice("method", method, ("auto", "direct", "fft"))
        given: int | float | list[float] | None = taps if isinstance(taps, int) else None
        if taps is not None and given is None:
            given = numbers("fir taps=", taps, "")

        def many(name: str, value: float | Sequence[float] | None, unit: str) -> float | list[float] | None:
            return None if value is None else numbers(f"fir {name}=", value, unit)

        return self._then(
            "fir",
            taps=whole("fir taps=", given, "taps") if isinstance(given, int) else given,
            band=band,
            cutoff_hz=many("cutoff_hz", cutoff_hz, "Hz"),
            window=window,
            attenuation_db=None if attenuation_db is None else number("fir attenuation_db=", attenuation_db, "dB"),
            width_hz=None if width_hz is None else number("fir width_hz=", width_hz, "Hz"),
            edges_hz=many("edges_hz", edges_hz, "Hz"),
            gains=many("gains", gains, ""),
            weights=many("weights", weights, ""),
            delay=delay,
            method=method,
        )

    def zero_phase(
        self,
        kind: Literal["butter", "cheby1", "cheby2", "ellip"],
        band: Literal["lowpass", "highpass", "bandpass", "bandstop"],
        cutoff_hz: float | Sequence[float],
        order: int = 4,
        *,
        ripple_db: float | None = None,
        attenuation_db: float | None = None,
    ) -> Self:
        """Filter samples forward and backward: no frequency is delayed, and the gain is that of `iir`, squared.

        Samples in, as many samples out, with their indices; types as with `iir`.

        Parameters:
            kind, band, cutoff_hz, order, ripple_db, attenuation_db: as in `iir`, once: at a corner of "butter" the gain
                is a half, and attenuation and ripple in dB count twice.

        Conventions:
            As ``scipy.signal.sosfiltfilt`` of each gap-free stretch by itself, continued at both ends by itself turned
            about its end (odd padding), as many samples as SciPy takes, or all but one of a shorter stretch. For
            archives: results come a block of 16,384 samples or more late, in bounded memory, because backward begins
            where what it does not know has decayed to a part in 10^12 of what it began with. NaN and infinities make
            NaN of all that follows in the stretch, and of up to two blocks before them.

        Raises:
            OptionError: an option without a legal value.
            PlanError: as with `iir`, and a filter that takes more than 8,388,608 samples to settle.

        >>> import numpy as np, isochrony as iso
        >>> t = np.arange(3000) / 1000
        >>> slow = np.sin(2 * np.pi * 2 * t)
        >>> noisy = iso.scan(slow + np.sin(2 * np.pi * 300 * t), rate=1000)
        >>> left = noisy.zero_phase("butter", "lowpass", 40).collect() - slow
        >>> bool(abs(left[300:-300]).max() < 1e-3)
        True
        """
        choice("kind", kind, _KINDS)
        choice("band", band, _BANDS)
        return self._then(
            "zero_phase",
            kind=kind,
            band=band,
            cutoff_hz=numbers("zero_phase cutoff_hz=", cutoff_hz, "Hz"),
            order=whole("zero_phase order=", order, "poles"),
            ripple_db=None if ripple_db is None else number("zero_phase ripple_db=", ripple_db, "dB"),
            attenuation_db=None
            if attenuation_db is None
            else number("zero_phase attenuation_db=", attenuation_db, "dB"),
        )
