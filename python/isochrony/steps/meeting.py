"""Steps with several plans, and loops, in which a plan gets its own earlier results."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ..errors.native import OptionError, PlanError
from ..options import flag, length
from .chain import Chain, natives_of

if TYPE_CHECKING:
    from .._native import NativePlan
    from ..options import Length
    from ..plan.plan import Plan

__all__ = ["MeetingSteps", "alone", "takes_plans"]


def takes_plans(step: str, function: Callable[..., Any], count: int) -> None:
    """Refuses a function that cannot be called with an argument for each of so many plans."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(count))
    except TypeError as why:
        names = ", ".join(f"x{number}" for number in range(1, count + 1))
        raise PlanError(
            f"the function given to {step} gets {count} arguments, one for each plan: {why}; "
            f"give one that takes {count}, such as lambda {names}: ..."
        ) from None


def alone(step: str, plan: Chain, others: tuple[Plan, ...], wrap: bool) -> NativePlan:
    """The plan by itself, or an error where a Python function would get what only an expression takes."""
    if flag(f"{step} wrap", wrap):
        raise PlanError(f"{step}: wrap=True is for expressions; a Python function computes in the dtypes of its arrays")
    if others:
        raise PlanError(
            f"{step} with other plans cannot take a function made with iso.py or iso.jit; give a plain lambda of "
            f"arithmetic such as lambda x, y: x + y, or combine the plans with zip() before {step}"
        )
    return plan._native


class MeetingSteps(Chain):
    """Part of `isochrony.Plan`: combines several plans."""

    __slots__ = ()

    def zip(self, *others: Plan) -> tuple[Self, ...]:
        """Keep the items that all plans have at the same indices: ``x, y = a.zip(b)``.

        For an expression of both, use `map` with other plans. If indices decrease (in a selection by time across a
        clock that was set back), their ascending parts are matched: the first part of one plan with the first of the
        other, and so on.

        Returns:
            A tuple with a plan for this one and for each of the others, of the same dtypes and shapes. No edges, no
            delay.

        Parameters:
            others: samples, or windows of the same length and hop, of the same timebase.

        Raises:
            PlanError: the plans differ in items or timebase.

        >>> import numpy as np, isochrony as iso
        >>> quiet = iso.scan(np.arange(9), rate=100).rewindow(3).filter(lambda s: s.max() < 6)
        >>> here, there = quiet.zip(iso.scan(np.arange(9) * 10, rate=100).rewindow(3))
        >>> there.collect()
        array([[ 0, 10, 20],
               [30, 40, 50]])
        """
        zipped = self._native.then("zip", "{}", natives_of("zip", others))
        return tuple(type(self)(zipped.output(port)) for port in range(1 + len(others)))

    def sync(self, *others: Plan, on: Plan) -> tuple[Self, ...]:
        """Keep the samples of this plan and of others that lie in the ranges of a third.

        ``around, = iso.scan(signal).sync(on=detected.ranges(before=100))``. Samples are held back, without a copy,
        until no later range can contain them.

        Returns:
            A tuple with a plan for this one and for each of the others: samples within the ranges, shape (n,), of the
            same dtype. No edges, no delay.

        Parameters:
            others: samples of the same timebase.
            on: ranges, such as those of `ranges` or `triggers`.

        Raises:
            PlanError: an input is not samples, or `on` is not ranges.

        >>> import numpy as np, isochrony as iso
        >>> signal = iso.scan(np.array([0, 1, 6, 7, 1, 0, 0]), rate=100)
        >>> (around,) = signal.sync(on=signal.triggers(on=5))
        >>> around.collect()
        array([6, 7])
        """
        synced = self._native.then("sync", "{}", natives_of("sync", (*others, on)))
        return tuple(type(self)(synced.output(port)) for port in range(1 + len(others)))

    def feedback(
        self,
        body: Callable[[Self, Self], Plan | tuple[Plan, Plan]],
        *,
        initial: npt.ArrayLike = 0.0,
        delay: Length = 1,
    ) -> Plan:
        """Feed earlier results back into a plan: a feedback loop.

        Returns:
            The results of the loop: one window (or sample) per input window, with its indices. Edges: the loop starts
            again with `initial` in each gap-free range. No delay.

        Parameters:
            body: function of this plan and of the results `delay` windows (or samples) before, called once. It returns
                the results, which are also fed back, or a pair (results, fed-back values). The fed-back plan must have
                a value for each input window: put filters after the loop.
            initial: first value fed back in each gap-free range: a number, or the values of a window. Its dtype is that
                of the feedback.
            delay: number of windows (or samples) from 1, or a length such as "2s". Windows pass through the loop
                `delay` at a time, so a long delay is faster than a short one.

        Raises:
            OptionError: a parameter out of range.
            PlanError: the feedback has another type than `initial`, may lack windows, or is used outside the loop.

        >>> import numpy as np, isochrony as iso
        >>> clap = iso.scan(np.array([8.0, 0, 0, 0, 0, 0]), rate=100)
        >>> clap.feedback(lambda x, back: x.map(lambda s, t: s + t / 2, back), delay=2).collect()  # an echo
        array([8., 0., 4., 0., 2., 0.])
        >>> def levelled(windows, gain):
        ...     out = windows.map(lambda s, g: s * g, gain)
        ...     return out, out.map(lambda s: 1 / (1 + abs(s).max()))
        >>> iso.scan(np.ones(6), rate=100).rewindow(2).feedback(levelled, initial=1.0).collect()
        array([[1.        , 1.        ],
               [0.5       , 0.5       ],
               [0.66666667, 0.66666667]])
        """
        windows = length("feedback delay=", delay, "windows or samples", legal="from 1 to 1e9")
        values = np.asarray(initial)
        if values.ndim > 1 or values.size == 0 or values.dtype.kind not in "biuf":
            raise OptionError(f"feedback initial={initial!r} is refused; give a real number or a list of them")
        first = values.tolist()
        numbers = [float(x) for x in first] if isinstance(first, list) else float(first)
        back = self._then("delayed", by=windows, initial=numbers, dtype=values.dtype.name)
        made = body(self, back)
        pair: tuple[Any, ...] = made if isinstance(made, tuple) else (made, made)
        if len(pair) != 2 or not all(isinstance(one, Chain) for one in pair):
            kinds = ", ".join(type(one).__name__ for one in pair)
            raise PlanError(
                f"the function given to feedback returned {kinds}; return one plan, or a pair (result, fed back) of "
                "plans"
            )
        result, fed = pair
        looped: Plan = result._then("feedback", (fed, back))
        return looped
