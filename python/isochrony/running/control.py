"""Changes of a plan while it runs: parameters, implementations, branches, replicas, links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._native import NativeControl
from ..errors.native import OptionError
from ..options import byte_count, index, whole
from ..steps.chain import natives_of
from .report import Measurement

if TYPE_CHECKING:
    from ..plan.plan import Plan

__all__ = ["Control"]


class Control:
    """Changes a plan while it runs: pass it to `Plan.collect` or `Plan.run`, and call its methods meanwhile.

    Adjustable are the functions of `Plan.filter` and `Plan.map`, the thresholds of `Plan.triggers`, and ``method=`` of
    operators with several implementations (`Plan.fir`, `Plan.running_quantile`). A change takes effect at an index of
    the operator's input, whatever the number of workers: items that begin before it are computed with the old value,
    all others with the new one. `Report.changes` lists these indices; passed as ``at=``, they repeat the run to the
    bit. `add` and `remove` attach and detach sinks and functions; `Report.branches` lists them.

    The plan itself stays as it is: changes belong to the run. A control serves one run at a time, and can be used
    again; passing one that is in use is a `PlanError` with code ``control_in_use``.

    >>> import numpy as np, isochrony as iso
    >>> loud = iso.scan(np.arange(8), rate=100).rewindow(2).filter(lambda s: s.max() > 100)
    >>> control = iso.Control()
    >>> control.set(loud, at=4, predicate=lambda s: s.max() > 4)  # before the run; during it, call from another thread
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
        """Change parameters of the last operator of `plan`.

        ``method=`` switches to another implementation, if its results are the same to the bit or within the run's
        ``tolerance=``: from the index on, results are those of the other; none is lost or repeated. State of an
        expression (`ewm`, `hysteresis`, `previous`, `counter`) is kept if that part of the expression stays the same.
        Each change is stored until the end of the run, for the report: some hundred bytes.

        Parameters:
            plan: a plan that ends in the operator: the running plan, or a part of it.
            at: index of the operator's input from which the change takes effect; for windows and rows, of their first
                sample. If the operator has already received later items, or has a later change, the change takes effect
                from there on. Rows need their ``start``. None: the first item that the operator has not received yet;
                before the run, the first sample.
            params: new values by name, as in the method of `Plan`: ``predicate=`` of `Plan.filter`, ``expression=`` of
                `Plan.map`, ``on=`` and ``off=`` of `Plan.triggers`, ``method=`` of `Plan.fir` and
                `Plan.running_quantile`.

        Raises:
            PlanError: the parameter is not adjustable, the value has another type than before, or `plan` is not part of
                the running plan; results of the implementation differ by more than ``tolerance=``
                (``not_within_tolerance``); with several workers, an expression with state in place of one without, or
                the reverse.
            OptionError: no parameter is stated, or `at` is not a whole number of at most 64 bits.

        >>> import numpy as np, isochrony as iso
        >>> windows = iso.scan(np.arange(12), rate=100).rewindow(2)
        >>> peaks = windows.map(lambda s: s.max())
        >>> control = iso.Control()
        >>> control.set(peaks, at=6, expression=lambda s: s.min())
        >>> peaks.run(control=control).report.changes[0].at
        6
        """
        if not params:
            raise OptionError(
                "Control.set() was given no parameter to change; name one, as in set(plan, predicate=...)"
            )
        from_index = None if at is None else index("Control.set at=", at, "samples")
        (native,) = natives_of("Control.set", (plan,))
        self._native.set(native, params, from_index)

    def add(self, branch: Plan, *, at: int | None = None) -> None:
        """Add a branch to the running plan: it gets each item of the operator that it continues, once, from an index
        on.

        What the branch has in common with the plan is not computed again, and results of the plan stay the same. The
        branch runs in the thread that called the run, as sinks and functions do; an error in it ends the run. It ends
        with the plan, or with `remove`. Its windows begin at the same indices as if it had been part of the plan from
        the start; operators with state start with the first item of the branch.

        Parameters:
            branch: a plan that continues one operator of the running plan and ends in a sink (`Plan.sink`, a file,
                `Plan.send`) or in `Plan.each`.
            at: index from which on the branch gets the results of that operator, or a later one if they have passed
                already: `BranchReport.at` has it. Rows need their ``start``. None: the next result; before the run, the
                first.

        Raises:
            PlanError: the branch does not continue the running plan (``not_running``), has no sink, reads more than one
                operator of the plan, or continues an operator that the optimiser rewrote or that runs in several
                threads at a time, in tasks or replicas (``branch``). If the branch was added before the run, the run
                raises it.
            OptionError: `at` is not a whole number of at most 64 bits.

        >>> import numpy as np, isochrony as iso
        >>> low = iso.scan(np.arange(8.0), rate=100).map(lambda s: s / 2)
        >>> control, seen = iso.Control(), []
        >>> control.add(low.each(lambda values, start: seen.append((start, values.tolist()))), at=5)
        >>> result = low.rewindow(2).count().run(control=control)
        >>> seen
        [(5, [2.5, 3.0, 3.5])]
        """
        (native,) = natives_of("Control.add", (branch,))
        self._native.add(native, None if at is None else index("Control.add at=", at, "samples"))
        self._branches = [one for one in self._branches if self._native.has(one._native)] + [branch]

    def remove(self, branch: Plan, *, at: int | None = None) -> None:
        """Remove a branch that was added. Its sink commits, as at the end of a run.

        Parameters:
            branch: the plan object that was passed to `add`.
            at: the branch gets all items that begin before this index, or those that have passed already if that is
                more. None: those that have passed already.

        Raises:
            PlanError: not a branch of the running plan (``branch``).
            OptionError: `at` is not a whole number of at most 64 bits.

        >>> import numpy as np, isochrony as iso
        >>> low = iso.scan(np.arange(8.0), rate=100).map(lambda s: s / 2)
        >>> control, seen = iso.Control(), []
        >>> branch = low.each(lambda values, start: seen.append((start, values.tolist())))
        >>> control.add(branch)
        >>> control.remove(branch, at=3)
        >>> result = low.rewindow(2).count().run(control=control)
        >>> seen
        [(0, [0.0, 0.5, 1.0])]
        """
        (native,) = natives_of("Control.remove", (branch,))
        self._native.remove(native, None if at is None else index("Control.remove at=", at, "samples"))

    def set_replicas(self, stage: int, replicas: int) -> None:
        """Change the number of replicas of a stage of the running plan. Results stay the same.

        Parameters:
            stage: number of the stage, as in `StageReport`.
            replicas: from 1 to the number at the start of the run. A replica that is stopped finishes its current item.

        Raises:
            PlanError: no run in stages uses this control (``no_stages``), or the stage cannot have that many replicas
                (``no_replicas``).
            OptionError: not a whole number, or a negative one.

        >>> import numpy as np, isochrony as iso
        >>> control = iso.Control()
        >>> def watch(values, start):
        ...     if start == 0:
        ...         control.set_replicas(2, 1)
        >>> plan = iso.scan(np.arange(100_000.0), rate=1000).lowpass(50).highpass(5).rewindow(512).power()
        >>> report = plan.each(watch).run(workers=2, control=control).report
        >>> sorted({stage.number for stage in report.stages})
        [0, 1, 2, 3]
        """
        stage = whole("Control.set_replicas stage=", stage, "", 0)
        self._native.set_replicas(stage, whole("Control.set_replicas replicas=", replicas, "replicas"))

    def set_link_capacity(self, link: int, size: int | str) -> None:
        """Change the capacity of a link between stages of the running plan. Results stay the same.

        Parameters:
            link: number of the link, an index into `Report.links`.
            size: bytes, from 1, or text such as "256KiB". The stage before the link waits while the link holds more.

        Raises:
            PlanError: no run in stages uses this control (``no_stages``), or there is no such link (``no_link``).
            OptionError: not a size, or a negative number.

        >>> import numpy as np, isochrony as iso
        >>> control = iso.Control()
        >>> def watch(values, start):
        ...     if start == 0:
        ...         control.set_link_capacity(0, "64KiB")
        >>> plan = iso.scan(np.arange(100_000.0), rate=1000).lowpass(50).highpass(5).rewindow(512).power()
        >>> report = plan.each(watch).run(workers=2, control=control).report
        >>> report.links[0].capacity
        65536
        """
        link = whole("Control.set_link_capacity link=", link, "", 0)
        self._native.set_link_capacity(link, byte_count("size", size))

    def measurement(self) -> Measurement:
        """Measure the stages and links of the running plan so far.

        Returns:
            A `Measurement`: `elapsed_s`, a `StageReport` per stage or replica, and a `LinkReport` per link.

        Raises:
            PlanError: no run in stages uses this control (``no_stages``).

        >>> import numpy as np, isochrony as iso
        >>> control, measured = iso.Control(), []
        >>> def watch(values, start):
        ...     if start == 0:
        ...         measured.append(control.measurement())
        >>> plan = iso.scan(np.arange(100_000.0), rate=1000).lowpass(50).highpass(5).rewindow(512).power()
        >>> report = plan.each(watch).run(workers=2, control=control).report
        >>> [link.stages for link in measured[0].links]
        [(0, 1), (1, 2), (2, 3)]
        """
        return Measurement._of(**self._native.measurement())
