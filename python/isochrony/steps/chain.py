"""What every plan is, whatever its steps: a value that prints, compares, is saved and read again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, Self

from ..errors.native import OptionError, PlanError
from ..options import flag, whole
from ..tuning.configuration import OperatorCost

if TYPE_CHECKING:
    from .._native import NativePlan, Store
    from ..tasklets.plans import Known

__all__ = ["Chain", "natives_of"]


def natives_of(step: str, plans: Iterable[object]) -> list[NativePlan]:
    """The native plans of a step's arguments, or `PlanError` if one is no plan."""
    natives = []
    for plan in plans:
        if not isinstance(plan, Chain):
            raise PlanError(
                f"{step} got {type(plan).__name__}; give plans, such as iso.scan(signal) or iso.scan(array, rate=100)"
            )
        natives.append(plan._native)
    return natives


def _name_methods(cls: type) -> None:
    """Have Python's own errors name methods as those of `Plan`: users do not know the classes it is made of."""
    for name, member in vars(cls).items():
        method = getattr(member, "__func__", member)
        while isinstance(method, FunctionType) and not name.startswith("_"):
            # Where `Plan` is, so that they can be pickled by these names.
            method.__module__, method.__qualname__ = "isochrony.plan.plan", f"Plan.{name}"
            method = getattr(method, "__wrapped__", None)


class Chain:
    """A plan of the engine, and how a step is added to it. `isochrony.Plan` has the steps."""

    __slots__ = ("_known", "_native")

    #: What tasklets asked of it, once they did.
    _known: Known

    def __init_subclass__(cls) -> None:
        _name_methods(cls)

    def __init__(self, native: NativePlan) -> None:
        self._native = native

    def _then(self, name: str, others: tuple[Chain, ...] = (), /, **params: object) -> Self:
        return type(self)(self._native.then(name, json.dumps(params), natives_of(name, others)))

    @property
    def hop(self) -> int:
        """Samples from one window to the next; 1 without windows."""
        return self._native.hop

    @property
    def kind(self) -> str:
        """Type of the items: "samples", "frames" (windows), "ranges", "rows" or "count"."""
        return self._native.kind

    def explain(self, *, workers: int | Literal["auto"] = "auto") -> str:
        r"""Describe the plan as written, how it is rewritten and why, and how it will run; reads nothing.

        Returns:
            A str of several lines, in sections. ``plan``: the plan as written. ``rewrite``: one line for each change of
            the optimiser. ``no skipping``: why no range of a scan is skipped. ``runs as``: the plan after that, and of
            each operator its output type and how its results depend on its input (stateless, overlap, settling, ...).
            ``by default one worker``: why, if so. ``on several workers``: which part runs in tasks or stages, and why
            others do not, if `collect` runs it with `workers`. ``predicted``: the time that it will take, if costs are
            known. ``reads``: how each recording is read.

        Parameters:
            workers: number of workers, as in `collect`; fewer than 2 count as 2.

        Raises:
            OptionError: `workers` is neither "auto" nor a whole number from 1 to 1024.

        >>> import numpy as np, isochrony as iso
        >>> print(*iso.scan(np.zeros(3), rate=100).lowpass(10).explain().splitlines()[:7], sep="\n")
        plan
          scan(array) -> iir(band="lowpass", cutoff_hz=10.0)
        runs as
          scan(array) -> iir(band="lowpass", cutoff_hz=10.0)
          0 scan: samples[float64] of array at 100 Hz; stateless
          1 iir: samples[float64] of array at 100 Hz; settles after 132 samples (relative error 1e-9)
        by default one worker: it reads only 3 samples
        """
        from ..running.options import worker_count

        return self._native.explain(worker_count("workers", workers))

    def characterise(self, *, samples: int = 1 << 20, repeats: int = 9, save: bool = True) -> tuple[OperatorCost, ...]:
        """Measure the cost of each operator by itself, with input always available and output consumed at once.

        `explain` then predicts the run time of this plan, and of others with the same operators. Operators that write
        or call Python functions, and all operators after them, are not measured.

        Returns:
            A tuple with an `OperatorCost` for each measured operator, in order of the plan.

        Parameters:
            samples: number of samples of each source to replay, from 1; they must fit into memory several times.
            repeats: number of measurements of each operator, from 3.
            save: save the costs with the profile of this machine, for `explain`.

        Raises:
            PlanError: a source that can be read only once, such as a live feed (code ``cannot_characterise``).
            OptionError: `samples` or `repeats` out of range.

        >>> import numpy as np, isochrony as iso
        >>> plan = iso.scan(np.arange(1e5), rate=1000).rewindow(100).power()
        >>> [cost.name for cost in plan.characterise(save=False)]
        ['rewindow', 'power']
        """
        samples = whole("characterise samples=", samples, "samples")
        repeats = whole("characterise repeats=", repeats, "repetitions", least=3)
        return OperatorCost._all(self._native.characterise(samples, repeats, flag("characterise save", save)))

    def to_json(self) -> str:
        """Save the plan as JSON text: operators by name, signals by store and name, expressions as graphs.

        Returns:
            A str of JSON, which `from_json` and `isochrony run` read.

        Raises:
            PlanError: the plan scans an array, which exists only in this process, or calls a function that cannot be
                imported by name.

        >>> import tempfile, numpy as np, isochrony as iso
        >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
        >>> _ = store.create("p", dtype="f8", rate=100).append(np.arange(4.0)), store.commit()
        >>> text = iso.scan(store["p"]).limit(2).to_json()
        >>> print(iso.Plan.from_json(text, store=store))
        scan(p) -> limit(count=2)
        """
        return self._native.to_json()

    @classmethod
    def from_json(
        cls,
        saved: str | bytes | Mapping[str, Any],
        *,
        store: Store | None = None,
        allow_functions: bool | Iterable[str] = False,
    ) -> Self:
        """Read a plan that `to_json` saved.

        Returns:
            A plan that equals the saved one.

        Parameters:
            saved: the JSON text, or the dict that it represents.
            store: store of its signals; None: the stores that it names, opened for reading.
            allow_functions: Python functions that may be imported and called, which runs the code of their modules.
                False: none; the error lists those of the plan. A list: those that it names, as "module:name". True:
                all, for plans that you trust like a script.

        Raises:
            PlanError: the text is not a plan, a signal does not exist, or a function is not allowed (code
                "functions_not_allowed").
            OptionError: `allow_functions` is neither a bool nor a list of names.

        >>> import tempfile, numpy as np, isochrony as iso
        >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
        >>> _ = store.create("p", dtype="f8", rate=100).append(np.arange(4.0)), store.commit()
        >>> plan = iso.scan(store["p"]).limit(2)
        >>> iso.Plan.from_json(plan.to_json(), store=store) == plan
        True
        """
        from .._native import NativePlan

        text = json.dumps(dict(saved)) if isinstance(saved, Mapping) else saved
        try:
            text = text.decode() if isinstance(text, bytes) else text
        except UnicodeDecodeError as error:
            raise PlanError(
                f"the plan cannot be read: it is not UTF-8 text ({error.reason} at byte {error.start}); give the text "
                "that to_json returned"
            ) from error
        return cls(NativePlan.from_json(text, store, *_allowed(allow_functions)))

    def __reduce__(self) -> tuple[Any, ...]:
        from ..plan.pickling import reduced

        return reduced(self)

    def __eq__(self, other: object) -> bool:
        return self._native == other._native if isinstance(other, Chain) else NotImplemented

    def __hash__(self) -> int:
        # Equal plans print alike.
        return hash(str(self))

    def __str__(self) -> str:
        return str(self._native)

    def __repr__(self) -> str:
        return f"Plan({self})"


def _allowed(allow_functions: object) -> tuple[list[str], bool]:
    """Functions that may be imported, as "module:name", and whether all may."""
    if isinstance(allow_functions, bool):
        return [], allow_functions
    names = [] if isinstance(allow_functions, str) or not isinstance(allow_functions, Iterable) else [*allow_functions]
    if not names or not all(isinstance(name, str) and ":" in name for name in names):
        raise OptionError(
            f"allow_functions={allow_functions!r} is refused; give True, False or a list of names such as "
            '["module:name"]'
        )
    return names, False


_name_methods(Chain)
