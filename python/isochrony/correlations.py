"""How two plans' windows compare: steps of `isochrony.Plan`.

A lag is positive where the second plan has the event later. Windows meet at equal indices of one timebase; what one
plan lacks is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from .chain import Chain
from .features import numbers
from .options import choice, whole

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["CorrelationSteps"]


class CorrelationSteps(Chain):
    """How this plan's windows compare with another's."""

    __slots__ = ()

    def xcorr(self, other: Plan, max_lag: int, *, normalise: Literal["none", "coeff"] = "none") -> Self:
        """Correlate windows with another plan's: a row of ``2 * max_lag + 1`` numbers for each pair, float64.

        The number at lag l, from ``-max_lag`` on, is the sum over i of ``self[i] * other[i + l]``, as far as both
        windows reach (``scipy.signal.correlate(other, self)``): a peak at a positive lag means that the other has it
        later. Sums have an absolute error of about 1e-15 of the product of the windows' norms; NaN spreads to its
        pair's row.

        Parameters:
            other: windows of real samples, alike, of the same timebase.
            max_lag: in samples, from 0, below the window's length.
            normalise: "coeff" divides by the product of the windows' norms: from -1 to 1, 0 where one of them is zero.

        Raises:
            PlanError: no such windows come in, or they are too short. OptionError: an option without a legal value.

        >>> import numpy as np, isochrony as iso
        >>> x, y = np.zeros((2, 8))
        >>> x[3], y[5] = 2, 3
        >>> here, there = (iso.scan(z, rate=100).rewindow(8) for z in (x, y))
        >>> abs(here.xcorr(there, 2).collect().round(6))
        array([[0., 0., 0., 0., 6.]])
        """
        choice("normalise", normalise, ("none", "coeff"))
        return self._then("xcorr", (other,), max_lag=_lag("xcorr", max_lag), normalise=normalise)

    def gcc_phat(
        self, other: Plan, max_lag: int, *, band_hz: tuple[float, float] | None = None, regularise: float = 1e-3
    ) -> Self:
        """Correlate the phases of windows with another plan's (GCC-PHAT): rows of ``2 * max_lag + 1`` numbers.

        Each frequency of the band counts alike, whatever its power (Knapp and Carter 1976): a pure delay peaks at 1, as
        sharp as the band allows, and echoes are told apart. Lags are those of `xcorr`.

        Parameters:
            other: windows of real samples, alike, of the same timebase.
            max_lag: in samples, from 0, below the window's length.
            band_hz: two frequencies between which there is signal; None: all up to half the rate.
            regularise: added to each frequency's cross-power before it is divided by it, as a share of the largest:
                from 0. Frequencies with less than that count less, instead of adding their noise.

        Raises:
            PlanError: no such windows come in, they are too short, or the band is out of range.
            OptionError: an option without a legal value.

        >>> import numpy as np, isochrony as iso
        >>> noise = np.random.default_rng(1).standard_normal(1030)
        >>> here, there = (iso.scan(z, rate=100).rewindow(1024) for z in (noise[3:1027], noise[:1024]))
        >>> int(here.gcc_phat(there, 5).collect().argmax()) - 5
        3
        """
        band = [] if band_hz is None else numbers("band_hz", band_hz)
        lag = _lag("gcc_phat", max_lag)
        return self._then("gcc_phat", (other,), max_lag=lag, band_hz=band, regularise=numbers("regularise", regularise))

    def delay(
        self,
        other: Plan,
        max_lag: int,
        *,
        method: Literal["xcorr", "gcc_phat"] = "xcorr",
        refine: Literal["parabola", "band_limited"] | None = None,
        band_hz: tuple[float, float] | None = None,
        regularise: float = 1e-3,
    ) -> Self:
        """By how many seconds another plan's windows lag behind this one's: a row for each pair.

        Parameters:
            other: windows of real samples, alike, of the same timebase.
            max_lag: largest delay, in samples, from 0, below the window's length.
            method: the correlation whose highest peak is the delay: "xcorr" of coefficients, or "gcc_phat".
            refine: how the peak is found between samples. "parabola" through the highest value and its neighbours: it
                is off towards the nearer sample, for a flat band by up to 0.011 samples where it ends at a sixth of
                the rate, 0.026 at a quarter, 0.12 at half the rate. "band_limited": the peak of the band-limited
                function through all values, without bias. Default: a parabola for "xcorr", else band-limited.
            band_hz, regularise: of "gcc_phat", as there.

        Returns:
            A plan of rows: "start", "end", "time" (where the signal knows civil time), "delay" in seconds, positive
                where
            the other has it later, and "peak", the correlation there. NaN where a window has NaN or is zero.

        Raises:
            PlanError: no such windows come in, they are too short, or the band is out of range or given for "xcorr".
            OptionError: an option without a legal value.

        >>> import numpy as np, isochrony as iso
        >>> t = np.arange(200)
        >>> x, y = (np.exp(-((t - at) ** 2) / 50) for at in (90, 92.5))
        >>> here, there = (iso.scan(z, rate=100).rewindow(200) for z in (x, y))
        >>> here.delay(there, 10, refine="band_limited").select("delay", "peak").collect()
         delay (s)  peak
             0.025     1
        [1 rows]
        """
        choice("method", method, ("xcorr", "gcc_phat"))
        if refine is not None:
            choice("refine", refine, ("parabola", "band_limited"))
        band = [] if band_hz is None else numbers("band_hz", band_hz)
        options = {"method": method, "refine": refine, "band_hz": band, "regularise": numbers("regularise", regularise)}
        return self._then("delay", (other,), max_lag=_lag("delay", max_lag), **options)


def _lag(step: str, max_lag: int) -> int:
    return whole(f"{step} max_lag=", max_lag, "samples", 0)
