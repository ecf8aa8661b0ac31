"""Changes of a plan while it runs: parameters, implementations, branches, replicas, links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._native import NativeControl
from ..errors.native import OptionError
from ..options import byte_count, index, whole
from .report import Measurement

if TYPE_CHECKING:
    from ..plan.plan import Plan

__all__ = ["Control"]


class Control:
    """Changes a plan while it runs: give it to `Plan.collect` or `Plan.run`, and keep it.

    Adjustable are the functions of `Plan.filter` and `Plan.map`, the thresholds of `Plan.triggers`, and ``method=`` of
    operators with several implementations (`Plan.fir`, `Plan.running_quantile`). A change takes effect at an index of
    the operator's input: what begins before it is computed without, all else with it, by however many workers.
    `Report.changes` lists these indices; given as ``at=``, they repeat the run to the bit. `add` and `remove` give the
    plan other sinks and functions while it runs; `Report.branches` lists them.
    A control is one run's: the plan stays as it is. It serves one run after another; a run that is given the control of
    one that has not ended is a `PlanError` with code ``control_in_use``.

    >>> import numpy as np, isochrony as iso
    >>> loud = iso.scan(np.arange(8), rate=100).rewindow(2).filter(lambda s: s.max() > 100)
    >>> control = iso.Control()
    >>> control.set(loud, at=4, predicate=lambda s: s.max() > 4)  # here before it runs, as well from another thread
    >>> result = loud.count().run(control=control)
    >>> [(change.operator, change.at) for change in result.report.changes]
    [('filter', 4)]
    """

    __slots__ = ("_branches", "_native")

    def __init__(self) -> None:
        self._native = NativeControl()
        # The engine does not own the functions of a plan.
        self._branches: list[Plan] = []

    def set(self, plan: Plan, *, at: int | None = None, **params: Any) -> None:
        """Give parameters of the last operator of `plan`, as it was built, other values.

        ``method=`` switches to another implementation where its results are the same bits, or within the run's
        ``tolerance=``: results that begin at the index or behind it are the other's, and none is lost or comes twice.
        What an expression remembers (`ewm`, `hysteresis`, `previous`, `counter`) stays where that part is written as
        before. Each change is kept until the run ends, for the report: some hundred bytes.

        Parameters:
            plan: the plan that ends in the operator: the whole, or a part that others were made of.
            at: index of the operator's input (for windows and rows: of their first sample) from which the change is in
                effect: not before what the operator has got by now, and not before an earlier change of it. Rows need
                their ``start`` for it. Default: from what it has not got yet; before the run begins, from the first
                sample.
            params: by name, as the step takes them: ``predicate=`` of `Plan.filter`, ``expression=`` of `Plan.map`,
                ``on=`` and ``off=`` of `Plan.triggers`, ``method=`` of `Plan.fir` and `Plan.running_quantile`.

        Raises:
            PlanError: not adjustable, not of the type that it had, or no part of the plan that runs; an implementation
                that differs by more than ``tolerance=`` (``not_within_tolerance``); with several workers also an
                expression that remembers earlier items in place of one that does not, or the reverse.
            OptionError: no parameter is given; `at` is no whole number of 64 bits.
        """
        if not params:
            raise OptionError(
                "Control.set() was given no parameter to change; name one, as in set(plan, predicate=...)"
            )
        from_index = None if at is None else index("Control.set at=", at, "samples")
        self._native.set(plan._native, params, from_index)

    def add(self, branch: Plan, *, at: int | None = None) -> None:
        """Add a branch to the running plan: it gets each item of the operator it continues once, from an index on.

        What the branch has in common with the plan is not computed again, and the plan's own results stay the same.
        The branch is executed in the caller's thread, as all sinks and functions are; an error in it ends the run, as
        one in the plan does. It ends with the plan, or by `remove`. Windows in it lie as they would if it had been part
        of the plan; operators that remember begin with its first item.

        Parameters:
            branch: a plan that continues one operator of the running plan and ends in a sink (`Plan.sink`, a file,
                `Plan.send`) or in `Plan.each`.
            at: index of that operator's results from which on the branch gets them, or later if more were given by now;
                `BranchReport.at` says from where. Rows need their ``start`` for it. Default: from what is given next;
                before the run begins, from the first.

        Raises:
            PlanError: it does not continue the running plan (``not_running``), has no sink, reads more than one
                operator of the plan, or continues one that the optimiser rewrote or that several threads compute at a
                time, in tasks or replicas (``branch``). If the branch was added before the run, the run raises it.
            OptionError: `at` is no whole number of 64 bits.

        >>> import numpy as np, isochrony as iso
        >>> low = iso.scan(np.arange(8.0), rate=100).map(lambda s: s / 2)
        >>> control, seen = iso.Control(), []
        >>> control.add(low.each(lambda values, start: seen.append((start, values.tolist()))), at=5)
        >>> result = low.rewindow(2).count().run(control=control)
        >>> seen
        [(5, [2.5, 3.0, 3.5])]
        """
        self._native.add(branch._native, None if at is None else index("Control.add at=", at, "samples"))
        self._branches = [one for one in self._branches if self._native.has(one._native)] + [branch]

    def remove(self, branch: Plan, *, at: int | None = None) -> None:
        """Remove a branch that was added: its sink commits as at the end of a run.

        Parameters:
            branch: the plan object that was given to `add`.
            at: the branch gets all that begins before this index, or what was given by now if that is more. Default:
                what was given by now.

        Raises:
            PlanError: it is no branch of the running plan (``branch``).
            OptionError: `at` is no whole number of 64 bits.
        """
        self._native.remove(branch._native, None if at is None else index("Control.remove at=", at, "samples"))

    def set_replicas(self, stage: int, replicas: int) -> None:
        """Give a stage of the running plan another number of replicas. Results stay the same.

        Parameters:
            stage: its number, as in `StageReport`.
            replicas: from 1 to as many as it began with. A replica that is retired completes what it computes.

        Raises:
            PlanError: nothing runs in stages with this control (``no_stages``), or that stage cannot have so many
                (``no_replicas``).
            OptionError: a negative number, or no whole one.
        """
        stage = whole("Control.set_replicas stage=", stage, "", 0)
        self._native.set_replicas(stage, whole("Control.set_replicas replicas=", replicas, "replicas"))

    def set_link_capacity(self, link: int, size: int | str) -> None:
        """Give a link between stages of the running plan another capacity. Results stay the same.

        Parameters:
            link: its number, an index into `Report.links`.
            size: bytes from 1, or text such as "256KiB": the stage before it waits while it holds more.

        Raises:
            PlanError: nothing runs in stages with this control (``no_stages``), or there is no such link
                (``no_link``).
            OptionError: a negative number, or no size.
        """
        link = whole("Control.set_link_capacity link=", link, "", 0)
        self._native.set_link_capacity(link, byte_count("size", size))

    def measurement(self) -> Measurement:
        """What the stages and links of the running plan did so far.

        Raises:
            PlanError: nothing runs in stages with this control (``no_stages``).
        """
        return Measurement._of(**self._native.measurement())
