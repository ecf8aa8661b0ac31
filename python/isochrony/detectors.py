"""Detectors and running statistics of samples: steps of `isochrony.Plan`."""

from __future__ import annotations

import math
from typing import Literal, Self

import numpy as np

from .chain import Chain
from .native_errors import OptionError
from .options import choice, whole

__all__ = ["DetectorSteps"]


def _number(step: str, value: object, unit: str) -> float:
    """A finite number, or `OptionError`."""
    try:
        # Of a float32 too, the decimal that it prints as.
        given = str(value) if isinstance(value, np.floating) else value
        number = math.nan if isinstance(value, bool | str) else float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise OptionError(f"{step}{value!r} is refused; give a number of {unit}")
    return number


class DetectorSteps(Chain):
    """Of `isochrony.Plan`: where something stands out, and statistics of the last time.

    All take real samples, or windows of one number each, as ``rewindow(256).map(lambda s: s.std())`` gives them, and
    begin anew behind every gap and clock step. Values are in their unit; float32 stays that, all else becomes float64.
    """

    __slots__ = ()

    def stalta(self, sta: float, lta: float, *, method: Literal["classic", "recursive"] = "classic") -> Self:
        """Ratio of the mean square of a short time to that of a long time, both ending at each sample.

        As many numbers as come in, without delay; `triggers` makes ranges of them.

        Parameters:
            sta: the short time in seconds, to the nearest sample.
            lta: the long time in seconds, longer than `sta`.
            method: "classic": plain means; "recursive": exponentially weighted ones with these time constants.

        Conventions:
            Those of ObsPy's ``classic_sta_lta`` and ``recursive_sta_lta``: 0 until the long time has passed since the
            stretch began, and of silence. The classic sums forget entirely what has left them, however large it was.
            NaN reaches as far as the long time, in the recursive ratio to the end of its stretch.

        Raises:
            OptionError: an option without a legal value. PlanError: `lta` is not longer than `sta`, a time is shorter
                than half a sample, or no real samples come in.

        >>> import numpy as np, isochrony as iso
        >>> signal = np.random.default_rng(1).normal(size=5000)
        >>> signal[3000:3100] *= 20
        >>> ratio = iso.scan(signal, rate=100).stalta(0.2, 10)
        >>> ratio.triggers(on=5, off=1).collect().round(-1)
        array([[3000, 3120]])
        """
        choice("method", method, ("classic", "recursive"))
        return self._then(
            "stalta",
            sta=_number("stalta sta=", sta, "seconds"),
            lta=_number("stalta lta=", lta, "seconds"),
            method=method,
        )

    def triggers(self, on: float, off: float | None = None, *, min_length: float = 0.0, merge: float = 0.0) -> Self:
        """Make ranges of where numbers have gone to `on` or above and stayed at `off` or above.

        Gives a plan of ranges, for `sync`, `rows` or `annotate`; of windows they have all samples of the windows. A
        range ends with its gap-free stretch, and where a filter has removed something.

        Parameters:
            on: a range begins with a number that is this or more.
            off: it ends before one that is less; default: `on`. Both may be changed while the plan runs.
            min_length: shorter ranges are left out; in seconds.
            merge: ranges with at most so many seconds between them become one, before short ones are left out.

        Conventions:
            Ranges are half-open. ObsPy's ``trigger_onset`` names the last index in them instead. NaN is below both.

        Raises:
            OptionError: an option that is no number. PlanError: `off` is above `on`, a time is negative, or no real
                samples come in.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([0, 4, 3, 2, 0, 5, 0]), rate=1).triggers(on=4, off=3).collect()
        array([[1, 3],
               [5, 6]])
        """
        return self._then(
            "triggers",
            on=_number("triggers on=", on, "the numbers' unit"),
            off=None if off is None else _number("triggers off=", off, "the numbers' unit"),
            min_length=_number("triggers min_length=", min_length, "seconds"),
            merge=_number("triggers merge=", merge, "seconds"),
        )

    def cfar(
        self,
        pfa: float | None = None,
        *,
        deviations: float | None = None,
        memory: int = 1000,
        timeout: int = 1000,
    ) -> Self:
        """How far each number stands out of the noise before it: 1 and more is a detection.

        The level is the number's distance from the noise's mean over the distance at which it is detected; as many
        levels as numbers, without delay. ``triggers(on=1)`` makes ranges of them.

        Parameters:
            pfa: probability that a number of Gaussian noise is detected, 1e-15 to 0.1. Or give
            deviations: standard deviations above the mean from which a number is detected, 1 to 1000.
            memory: time constant of the noise's mean and deviation, in numbers, from 8. So many are learned from first;
                their level is 0.
            timeout: what is detected does not become noise, until so many numbers in a row were: then all do,
                until one is not detected. So a lasting step is followed.

        Conventions:
            With `pfa` the distance is that of Student's t, since mean and deviation are estimates; what leaving out
            detections takes from them is put back. NaN has the level NaN, and no part in the noise.

        Raises:
            OptionError: an option without a legal value. PlanError: one out of range, both or none of `pfa` and
                `deviations`, or no real numbers come in.

        >>> import numpy as np, isochrony as iso
        >>> signal = np.random.default_rng(1).normal(size=(500, 32))
        >>> signal[400] *= 3
        >>> loudness = iso.scan(signal.ravel(), rate=48_000).rewindow(32).map(lambda s: (s * s).mean())
        >>> loudness.cfar(deviations=6, memory=100).triggers(on=1).collect() // 32
        array([[400, 401]])
        """
        return self._then(
            "cfar",
            pfa=None if pfa is None else _number("cfar pfa=", pfa, "false alarms a number"),
            deviations=None if deviations is None else _number("cfar deviations=", deviations, "deviations"),
            memory=whole("cfar memory=", memory, "numbers", 8),
            timeout=whole("cfar timeout=", timeout, "numbers"),
        )

    def ca_cfar(
        self,
        pfa: float,
        *,
        training: int = 16,
        guard: int = 2,
        sides: Literal["both", "before"] = "both",
        order: float | None = None,
        degrees: int = 2,
    ) -> Self:
        """How far each power stands out of those around it: 1 and more is a detection.

        The level is the power's ratio to the threshold above which noise is with probability `pfa`, whatever its power.
        ``triggers(on=1)`` makes ranges of them. Numbers that lack training cells, at the beginning of a stretch and
        with both `sides` at its end, have no level.

        Parameters:
            pfa: probability that a number of noise is detected, 1e-15 to 0.1.
            training: cells from which the noise is told, on each side.
            guard: cells next to the one under test that are left out, on each side.
            sides: "both", or "before", which needs nothing that comes later.
            order: the noise is told by the cell that is above this part of the training cells (0.75), which others that
                stand out do not mask; default: by their mean.
            degrees: of how many squares of Gaussian numbers a power is the mean: 2 of complex samples and of a
                spectrum's bins, 1 of squares of real samples, n of their mean over n samples. `order` needs 2.

        Conventions:
            Cell averaging's factor is N (pfa^(-1/N) - 1) for `degrees` of 2, else of the F distribution; that of an
            order statistic is Rohling's (1983). NaN reaches the levels in whose cells it is.

        Raises:
            OptionError: an option without a legal value. PlanError: one out of range, or no real numbers come in.

        >>> import numpy as np, isochrony as iso
        >>> power = np.random.default_rng(1).exponential(size=2000)
        >>> power[700] = 60.0
        >>> iso.scan(power, rate=100).ca_cfar(1e-6).triggers(on=1).collect()
        array([[700, 701]])
        """
        choice("sides", sides, ("both", "before"))
        return self._then(
            "ca_cfar",
            pfa=_number("ca_cfar pfa=", pfa, "false alarms a number"),
            training=whole("ca_cfar training=", training, "cells"),
            guard=whole("ca_cfar guard=", guard, "cells", 0),
            sides=sides,
            order=None if order is None else _number("ca_cfar order=", order, "the training cells"),
            degrees=whole("ca_cfar degrees=", degrees, "squares"),
        )

    def running_mean(self, window: float) -> Self:
        """Mean of the samples of the last `window` seconds, for every sample.

        As many numbers as come in, in their unit; a window ends at its sample, and at the beginning of a stretch it
        has the samples that there are. NaN and infinities reach as far as the window, and nothing else does: sums
        are not carried on.

        Raises:
            OptionError: no number. PlanError: a window shorter than half a sample, or no real samples come in.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([1.0, 3.0, 5.0, 1.0]), rate=100).running_mean(0.02).collect()
        array([1., 2., 4., 3.])
        """
        return self._then("running_mean", window=_number("running_mean window=", window, "seconds"))

    def running_rms(self, window: float) -> Self:
        """Root mean square of the samples of the last `window` seconds, for every sample; else as `running_mean`.

        >>> import numpy as np, isochrony as iso
        >>> iso.scan(np.array([3.0, -3.0, 4.0, 4.0]), rate=100).running_rms(0.02).collect().round(2)
        array([3.  , 3.  , 3.54, 4.  ])
        """
        return self._then("running_rms", window=_number("running_rms window=", window, "seconds"))

    def running_quantile(self, window: float, q: float) -> Self:
        """Quantile `q` (0.5 the median) of the samples of the last `window` seconds, for every sample.

        As many numbers as come in, in their unit; windows as those of `running_mean`. Between samples it is
        interpolated as by `numpy.quantile`. NaN reaches as far as the window.

        Raises:
            OptionError: no number. PlanError: a window shorter than half a sample, a `q` outside of 0 to 1, or no real
                samples come in.

        >>> import numpy as np, isochrony as iso
        >>> spiky = iso.scan(np.array([1.0, 2.0, 90.0, 3.0, 2.0]), rate=100)
        >>> spiky.running_quantile(0.03, 0.5).collect()
        array([1. , 1.5, 2. , 3. , 3. ])
        """
        return self._then(
            "running_quantile",
            window=_number("running_quantile window=", window, "seconds"),
            q=_number("running_quantile q=", q, "the samples"),
        )
