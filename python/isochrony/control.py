"""Parameters that change while a plan runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._native import NativeControl

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["Control"]


class Control:
    """Changes parameters of a running plan: give it to `Plan.collect` or `Plan.run`, and keep it.

    Adjustable are the functions of `Plan.filter` and `Plan.map`. A change holds from the next burst of the sources on
    (some 64 items), for all of its items. It is one run's: the plan stays as it is.
    A control serves one run after another; a run that is given the control of one that has not ended is a `PlanError`
    with code ``control_in_use``.

    >>> import numpy as np, isochrony as iso
    >>> loud = iso.scan(np.arange(8), rate=100).rewindow(2).filter(lambda s: s.max() > 100)
    >>> control = iso.Control()
    >>> control.set(loud, predicate=lambda s: s.max() > 4)  # here before it runs, as well from another thread
    >>> loud.count().collect(control=control)
    2
    """

    __slots__ = ("_native",)

    def __init__(self) -> None:
        self._native = NativeControl()

    def set(self, plan: Plan, **params: Any) -> None:
        """Give parameters of the last operator of `plan`, as it was built, other values.

        What an expression remembers (`ewm`, `hysteresis`, `previous`, `counter`) stays where that part is written as
        before.

        Parameters:
            plan: the plan that ends in the operator: the whole, or a part that others were made of.
            params: by name, as the step takes them: ``predicate=`` of `Plan.filter`, ``expression=`` of `Plan.map`.

        Raises:
            PlanError: not adjustable, not of the type that it had, or no part of the plan that runs.
        """
        self._native.set(plan._native, params)
