"""Cutting samples into windows: a step of `isochrony.Plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from ..errors.native import OptionError
from ..options import choice, finite, length
from .chain import Chain

if TYPE_CHECKING:
    from ..options import Length

__all__ = ["WindowSteps"]

#: As `rewindow` declares it.
_WINDOW_RANGE = "from 1 to 2^46"


class WindowSteps(Chain):
    """Part of `isochrony.Plan`: windows."""

    __slots__ = ()

    def rewindow(
        self,
        window: Length | None = None,
        hop: Length | None = None,
        *,
        seconds: float | None = None,
        tail: Literal["drop", "keep"] = "drop",
        anchor: Literal["range", "run"] = "range",
    ) -> Self:
        """Cut every gap-free range into windows of equal length: ``rewindow(4096)``, ``rewindow("125ms")``.

        A time is the nearest whole number of samples at the signal's rate, halves up, exact from the decimals as
        written: 0.07 s of 100 Hz are 7 samples. The plan states the samples that came out.

        Returns:
            Windows, shape (n, window), of the samples' dtype, without a copy where memory allows. Edges: a window never
            spans a gap or a clock step; a last, short one is treated as `tail` says. No delay beyond the window.
            Where no window fits there are none, and `collect` warns with `EmptyResultWarning`.

        Parameters:
            window: length of a window, 1 to 2^46 samples: a whole number of samples; text with a unit (ns, us, ms, s,
                min, h or samples), as ``"125ms"``; or a timedelta.
            hop: from the start of one window to that of the next, the same; default: `window`.
            seconds: length of a window in seconds, instead of `window`.
            tail: "drop" or "keep" a last window that a break or the end leaves short.
            anchor: where windows begin to count. "range": at the first sample that is read of each gap-free range, so
                that a selection of exactly one window gives that window. "run": at the first sample of the gap-free
                range, read or not, so that a scan of a part of a signal gives those of the signal's own windows that
                lie wholly inside.

        Raises:
            OptionError: an argument of the wrong type; neither or both of `window` and `seconds`; an unknown `tail` or
                `anchor`; a number of samples below 1, or above 2^63 - 1.
            PlanError: a length in seconds or text that is 0 samples, or out of range; text that is not a length; the
                input is not samples.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.arange(7), rate=100).rewindow(3, hop="20ms").collect()
        array([[0, 1, 2],
               [2, 3, 4],
               [4, 5, 6]])
        >>> print(iso.scan(np.arange(7), rate=100).rewindow(seconds=0.03))
        scan(array) -> rewindow(window=3)
        """
        if (window is None) == (seconds is None):
            raise OptionError('rewindow takes window=, as 4096 or "125ms", or seconds=; give one of them')
        if seconds is None:
            samples = length("rewindow window=", window, "samples", legal=_WINDOW_RANGE)
        else:
            samples = f"{finite('rewindow seconds=', seconds, 'seconds')!r}s"
        return self._then(
            "rewindow",
            window=samples,
            hop=None if hop is None else length("rewindow hop=", hop, "samples", legal=_WINDOW_RANGE),
            tail=choice("tail", tail, ("drop", "keep")),
            anchor=choice("anchor", anchor, ("range", "run")),
        )
