"""Filters of samples: steps of `isochrony.Plan`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Self

from ..errors.native import OptionError, PlanError
from ..options import choice, finite, finite_or_list, whole
from .generated import GeneratedOperators

__all__ = ["FilterSteps"]

_BANDS = ("lowpass", "highpass", "bandpass", "bandstop")
_WINDOWS = ("hamming", "hann", "blackman", "boxcar", "kaiser")

#: Of an error of `iir` about a corner: half the rate, if that is the limit.
_CORNER = re.compile(r"cutoff_hz=.*above 0(?: and below half the rate, (\S+))? Hz; change cutoff_hz")


class FilterSteps(GeneratedOperators):
    """Part of `isochrony.Plan`: filters of samples. Results keep unit and indices.

    Frequencies are in Hz, above 0 and below half the rate. A filter starts again after every gap and clock step, and
    after items that a filter of windows removed.
    """

    __slots__ = ()

    def lowpass(self, hz: float, order: int = 4, *, initial: Literal["zero", "steady"] = "zero") -> Self:
        """Keep frequencies below a corner: a Butterworth filter; see `iir`.

        Returns:
            As `iir`: samples with their indices, shape (n,). The filter starts anew in each gap-free range. It is
            causal, so its delay depends on frequency: for zero phase use `zero_phase`.

        Parameters:
            hz (Hz): corner, where the gain is 1 / sqrt(2), -3 dB; above 0 and below half the rate.
            order (1 to 32): poles of the lowpass prototype.
            initial ("zero" or "steady"): state at the start of each gap-free range, as in `iir`.

        Raises:
            OptionError, PlanError: as `iir`.

        >>> import numpy as np, isochrony as iso
        >>> t = np.arange(2000) / 1000
        >>> mixed = iso.scan(np.sin(2 * np.pi * 5 * t) + np.sin(2 * np.pi * 200 * t), rate=1000)
        >>> round(float(np.std(mixed.lowpass(20).collect()[1000:])), 2)  # of one sine
        0.71
        """
        return self._butterworth("lowpass", hz, order, initial)

    def highpass(self, hz: float, order: int = 4, *, initial: Literal["zero", "steady"] = "zero") -> Self:
        """Keep frequencies above a corner: a Butterworth filter; see `iir`.

        Returns:
            As `iir`: samples with their indices, shape (n,). The filter starts anew in each gap-free range. It is
            causal, so its delay depends on frequency: for zero phase use `zero_phase`.

        Parameters:
            hz (Hz): corner, where the gain is 1 / sqrt(2), -3 dB; above 0 and below half the rate.
            order (1 to 32): poles of the lowpass prototype.
            initial ("zero" or "steady"): state at the start of each gap-free range, as in `iir`.

        Raises:
            OptionError, PlanError: as `iir`.

        >>> import numpy as np, isochrony as iso
        >>> t = np.arange(2000) / 1000
        >>> mixed = iso.scan(np.sin(2 * np.pi * 5 * t) + np.sin(2 * np.pi * 200 * t), rate=1000)
        >>> round(float(np.std(mixed.highpass(100).collect()[1000:])), 2)  # of one sine
        0.71
        """
        return self._butterworth("highpass", hz, order, initial)

    def bandpass(
        self, low_hz: float, high_hz: float, order: int = 4, *, initial: Literal["zero", "steady"] = "zero"
    ) -> Self:
        """Keep frequencies between two corners: a Butterworth filter; see `iir`.

        Returns:
            As `iir`: samples with their indices, shape (n,). The filter starts anew in each gap-free range. It is
            causal, so its delay depends on frequency: for zero phase use `zero_phase`.

        Parameters:
            low_hz, high_hz (Hz): corners, where the gain is 1 / sqrt(2), -3 dB; ascending, above 0 and below half the
                rate.
            order (1 to 32): poles of the lowpass prototype; the filter has twice as many.
            initial ("zero" or "steady"): state at the start of each gap-free range, as in `iir`.

        Raises:
            OptionError, PlanError: as `iir`.

        >>> import numpy as np, isochrony as iso
        >>> t = np.arange(2000) / 1000
        >>> mixed = iso.scan(np.sin(2 * np.pi * 5 * t) + np.sin(2 * np.pi * 200 * t), rate=1000)
        >>> round(float(np.std(mixed.bandpass(150, 250).collect()[1000:])), 2)  # of one sine
        0.71
        """
        return self._butterworth("bandpass", (low_hz, high_hz), order, initial)

    def bandstop(
        self, low_hz: float, high_hz: float, order: int = 4, *, initial: Literal["zero", "steady"] = "zero"
    ) -> Self:
        """Remove frequencies between two corners: a Butterworth filter; see `iir`.

        Returns:
            As `iir`: samples with their indices, shape (n,). The filter starts anew in each gap-free range. It is
            causal, so its delay depends on frequency: for zero phase use `zero_phase`.

        Parameters:
            low_hz, high_hz (Hz): corners, where the gain is 1 / sqrt(2), -3 dB; ascending, above 0 and below half the
                rate.
            order (1 to 32): poles of the lowpass prototype; the filter has twice as many.
            initial ("zero" or "steady"): state at the start of each gap-free range, as in `iir`.

        Raises:
            OptionError, PlanError: as `iir`.

        >>> import numpy as np, isochrony as iso
        >>> t = np.arange(2000) / 1000
        >>> mixed = iso.scan(np.sin(2 * np.pi * 5 * t) + np.sin(2 * np.pi * 200 * t), rate=1000)
        >>> round(float(np.std(mixed.bandstop(150, 250).collect()[1000:])), 2)  # of one sine
        0.71
        """
        return self._butterworth("bandstop", (low_hz, high_hz), order, initial)

    def _butterworth(
        self,
        band: Literal["lowpass", "highpass", "bandpass", "bandstop"],
        corners: float | tuple[float, float],
        order: int,
        initial: Literal["zero", "steady"],
    ) -> Self:
        """`iir`, with errors that name the method that was called and its parameters."""
        try:
            return self.iir("butter", band, corners, order, initial=initial)
        except (OptionError, PlanError) as error:
            text = str(error)
            if text.startswith("iir"):
                text = f"{band} (operator iir){text.removeprefix('iir')}"
                parameter = "low_hz or high_hz" if isinstance(corners, tuple) else "hz"
                text = _of_corner(text, corners).replace("cutoff_hz", parameter)
                if isinstance(corners, tuple) and "two ascending frequencies" in text:
                    low, high = corners
                    how = "swap them" if low > high else "lower low_hz, or raise high_hz"
                    text = f"{band} (operator iir): low_hz={low:g} Hz must be below high_hz={high:g} Hz; {how}"
                error.args = (text, *error.args[1:])
            raise

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
        """Filter samples with a finite impulse response: given taps, or a design by a window or for equal ripple.

        Returns:
            Samples with their indices, shape (n,): float32 for float32, computed in single precision, otherwise
            float64; of complex samples the real and the imaginary part are filtered separately. Edges: "causal" gives
            as many as come in and assumes zeros before each gap-free range; "centred" leaves out (taps - 1) / 2 samples
            at both ends of it. Delay: (taps - 1) / 2 samples for symmetric taps if "causal", none if "centred".

        Parameters:
            taps: the taps themselves, or their number if they are to be designed.
            band: passband type of a window design.
            cutoff_hz: corner of a window design, or both corners of a band: the gain there is one half.
            window: window of the design; stopband attenuation: "hamming" 53 dB, "hann" 44, "blackman" 74, "boxcar" 21,
                "kaiser" `attenuation_db`.
            attenuation_db: stopband attenuation of a Kaiser window, above 0 dB.
            width_hz: transition width of a Kaiser window, instead of the number of taps.
            edges_hz: start and end of each band of an equiripple design, ascending from 0 to half the rate.
            gains: gain in each of these bands.
            weights: weight of the error in each of them, above 0; default: equal.
            delay: "causal": result i depends on sample i and those before it, as in ``lfilter``; "centred": no delay;
                needs an odd number of symmetric or antisymmetric taps.
            method: "direct" adds products; "fft" multiplies spectra of blocks, so that results come up to two blocks
                later and rounding errors are relative to the largest samples of a block; "auto": direct below 80 taps.

        Conventions:
            Designs are those of ``scipy.signal.firwin`` and ``remez``, with symmetric taps. Window designs are scaled
            to unit gain at 0 Hz (lowpass, bandstop), half the rate (highpass) or the centre of the band (bandpass). NaN
            and infinities reach as far as the taps do.

        Raises:
            OptionError: an option without a legal value.
            PlanError: parameters that exclude each other, or one that the others call for and that is missing; a
                frequency out of range; an equiripple design that does not converge; input that is not samples.

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
            given = finite_or_list("fir taps=", taps, "")

        def many(name: str, value: float | Sequence[float] | None, unit: str) -> float | list[float] | None:
            return None if value is None else finite_or_list(f"fir {name}=", value, unit)

        return self._then(
            "fir",
            taps=whole("fir taps=", given, "taps") if isinstance(given, int) else given,
            band=band,
            cutoff_hz=many("cutoff_hz", cutoff_hz, "Hz"),
            window=window,
            attenuation_db=None if attenuation_db is None else finite("fir attenuation_db=", attenuation_db, "dB"),
            width_hz=None if width_hz is None else finite("fir width_hz=", width_hz, "Hz"),
            edges_hz=many("edges_hz", edges_hz, "Hz"),
            gains=many("gains", gains, ""),
            weights=many("weights", weights, ""),
            delay=delay,
            method=method,
        )


def _of_corner(text: str, corners: float | tuple[float, float]) -> str:
    """An error of `iir` with the corner that it is about, which limit that misses, and how to change it."""
    named = {"low_hz": corners[0], "high_hz": corners[1]} if isinstance(corners, tuple) else {"hz": corners}
    found = _CORNER.search(text)
    # Where a list was given, the message has its numbers.
    if found is None or not all(isinstance(hz, int | float) for hz in named.values()):
        return text
    half = found[1]
    for name, hz in named.items():
        missed = ""
        if hz <= 0:
            missed = "above 0; raise"
        elif half is not None and hz >= float(half):
            missed = f"below half the rate, {half} Hz; lower"
        if missed:
            given = int(hz) if hz == int(hz) else float(hz)
            return text.replace(found[0], f"{name}={given} Hz must be {missed} {name}")
    return text
