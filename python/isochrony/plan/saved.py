"""Plans saved in a store under a name, and read as signals of one's own.

``store.save_plan("stn_10/loud", plan)`` keeps the plan, not what it gives; ``store["stn_10/loud"]`` opens it as a
read-only, lazy signal: asking for a range runs the plan over that range. Its windows are those of the whole plan that
lie wholly inside the range.

They lie as text among the store's attributes (key `SAVED_PLANS`), so copies of the store have them, and other programs
see them as what they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors.native import OptionError, PlanError, StoreExistsError, StoreKeyError
from ..running.options import RunOptions
from ..running.runs import collect_reported
from ..steps.chain import natives_of
from .plan import Plan

if TYPE_CHECKING:
    from .._native import Signal, Store

__all__ = ["SAVED_PLANS", "SavedPlan", "SavedPlanPart", "SavedPlans"]

#: The attribute of a store that holds them.
SAVED_PLANS = "isochrony_views"


class SavedPlans(Mapping[str, "SavedPlan"]):
    """Saved plans of a store, a mapping of names to `SavedPlan`; made by `Store.saved_plans`.

    ``saved_plans[name]`` opens a plan as `open` does; ``del saved_plans[name]`` removes one. Names are sorted. Changes
    are on disk at once.

    Parameters:
        store: the store.

    Raises:
        KeyError: when a plan is opened or removed: there is none of that name.
        StoreError: when a plan is removed: the store is open for reading.

    >>> import isochrony as iso, numpy as np, tempfile
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
    >>> _ = store.commit()
    >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
    >>> list(store.saved_plans)
    ['means']
    """

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def _saved(self) -> dict[str, Any]:
        saved = self._store.attrs.get(SAVED_PLANS, {})
        return dict(saved) if isinstance(saved, Mapping) else {}

    def save(self, name: str, plan: Plan, *, overwrite: bool = False) -> None:
        """Save a plan under a name, on disk when this returns; `Store.save_plan` does the same.

        Parameters:
            name: name that no signal of the store has.
            plan: a plan of samples or windows that reads stored signals.
            overwrite: replace a saved plan of that name.

        Raises:
            PlanError: the plan gives neither samples nor windows, writes or sends, reads a live feed, or cannot be
                saved.
            StoreError: the name is empty or taken (also FileExistsError), or the store is open for reading.

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.saved_plans.save("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
        >>> "means" in store.saved_plans
        True
        """
        natives_of("save_plan", (plan,))
        saved = json.loads(plan.to_json())
        _refuse_effects(name, saved)
        if plan.kind not in ("samples", "frames"):
            raise PlanError(
                f"saved plan {name!r} is refused: the plan gives {plan.kind}; save a plan that gives samples or windows"
            )
        plans = self._saved()
        if not name:
            raise StoreExistsError("a saved plan needs a name; give text that is not empty")
        if name in self._store.keys():  # noqa: SIM118
            raise StoreExistsError(
                f"the store has a signal {name!r}, so no plan can be saved under that name; choose another name, or "
                f"remove the signal with store.delete({name!r})"
            )
        if name in plans and not overwrite:
            raise StoreExistsError(
                f"the store already has a saved plan {name!r}; choose another name, or replace that plan with "
                f"store.save_plan({name!r}, plan, overwrite=True)"
            )
        self._store.attrs[SAVED_PLANS] = {**plans, name: saved}

    def rename(self, name: str, to: str) -> None:
        """Give a saved plan another name.

        Parameters:
            name: name of the plan.
            to: new name, which no signal and no saved plan has.

        Raises:
            StoreError: no saved plan has the name (also KeyError), the new name is taken (also FileExistsError), or the
                store is open for reading.

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
        >>> store.saved_plans.rename("means", "averages")
        >>> list(store.saved_plans)
        ['averages']
        """
        plans = self._saved()
        if name not in plans:
            raise self._missing(name)
        if to in plans or to in self._store.keys():  # noqa: SIM118
            raise StoreExistsError(
                f"saved plan {name!r} cannot be renamed to {to!r}: the store already has a signal or a saved plan "
                f"{to!r}; choose another name"
            )
        self._store.attrs[SAVED_PLANS] = {to if old == name else old: plan for old, plan in plans.items()}

    def _missing(self, name: str) -> StoreKeyError:
        known = ", ".join(sorted(self._saved())) or "none"
        return StoreKeyError(f"no saved plan is called {name!r}; there are: {known}")

    def __getitem__(self, name: str) -> SavedPlan:
        return self.open(name)

    def open(self, name: str, *, allow_functions: bool | Iterable[str] = False) -> SavedPlan:
        """Open a saved plan by its name; ``store.saved_plans[name]`` and ``store[name]`` do the same and allow no
        functions.

        Parameters:
            name: name of the plan.
            allow_functions: whether Python functions that it calls are imported, as for `Plan.from_json`: a store that
                somebody else wrote may name any.

        Returns:
            A `SavedPlan`. Nothing is computed yet.

        Raises:
            StoreError: there is none of that name (also KeyError).
            PlanError: the plan cannot be read, writes or sends, or calls functions that are not allowed (code
                "functions_not_allowed").

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
        >>> store.saved_plans.open("means")
        <SavedPlan means: scan(x) -> rewindow(window=100) -> map(expression=s.mean())>
        """
        saved = self._saved().get(name)
        if saved is None:
            raise self._missing(name)
        names = tuple(allow_functions) if isinstance(allow_functions, list | tuple | set) else allow_functions
        try:
            _refuse_effects(name, saved)
            plan = Plan.from_json(saved, store=self._store, allow_functions=names)
            return SavedPlan(self._store, name, saved, plan, names)
        except (PlanError, TypeError, KeyError, AttributeError) as error:
            if getattr(error, "code", "") == "functions_not_allowed":
                mend = f"store.saved_plans.open({name!r}, allow_functions=True)"
                message = f"saved plan {name!r} is not opened: {error}: {mend}"
            else:
                message = (
                    f"saved plan {name!r} cannot be opened: {error}; or forget it: del store.saved_plans[{name!r}]"
                )
            refused = PlanError(message)
            refused.code = getattr(error, "code", refused.code)
            raise refused from error

    def texts(self) -> dict[str, str]:
        """List what the saved plans do.

        Returns:
            By name, the plan's operators as text. For a plan that cannot be opened, the reason after "damaged: ", or
            after "not opened: " if it calls Python functions.

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.save_plan("loud", iso.scan(store["x"]).rewindow(100).power())
        >>> store.saved_plans.texts()
        {'loud': 'scan(x) -> rewindow(window=100) -> power'}
        """
        shown = {}
        for name in self:
            try:
                shown[name] = str(self[name].plan)
            except PlanError as error:
                opened = error.code == "functions_not_allowed"
                shown[name] = f"not opened: {error}" if opened else f"damaged: {error}"
        return shown

    def __delitem__(self, name: str) -> None:
        plans = self._saved()
        if name not in plans:
            raise self._missing(name)
        del plans[name]
        self._store.attrs[SAVED_PLANS] = plans

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._saved()))

    def __len__(self) -> int:
        return len(self._saved())

    def __contains__(self, name: object) -> bool:
        return name in self._saved()

    def __repr__(self) -> str:
        return f"<SavedPlans of {self._store.path}: {', '.join(self) or 'none'}>"


# Operators that do more than compute: they write, send, or call what may do anything.
_EFFECTS = ("sink", "annotate", "each", "sink_wav", "sink_parquet", "sink_ipc", "send")
# Sources that wait for what arrives: a saved plan reads samples that are stored.
_FEEDS = ("listen", "follow")


def _refuse_effects(name: str, saved: Mapping[str, Any]) -> None:
    """Refuse a plan that does more than compute, also one that somebody else put into the store."""
    effects = [node["op"] for node in saved["nodes"] if node["op"] in _EFFECTS]
    sources = [node["of"] for node in saved["nodes"] if node["op"] == "scan"]
    effects += [feed for feed in _FEEDS if any(feed in source for source in sources)]
    if effects:
        raise PlanError(
            f"saved plan {name!r} is refused: it would {effects[0]}, but a saved plan only computes samples or "
            f"windows; leave out {effects[0]}"
        )


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan that is read as a signal; saved by `Store.save_plan`, opened by its name.

    ``saved_plan[a:b]`` selects a range of indices or times: a `SavedPlanPart`. Indices are those of the first signal
    that the plan reads, also if the plan gives one value per window. ``numpy.asarray(saved_plan)`` computes all values.

    Attributes:
        store: the store that has the plan.
        name: name of the plan in the store.
        saved: the plan as JSON objects.
        plan: the plan over all samples.
        allow_functions: which Python functions may be imported, as in `SavedPlans.open`.

    Raises:
        OptionError: when it is indexed with one number.

    >>> import isochrony as iso, numpy as np, tempfile
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
    >>> _ = store.commit()
    >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
    >>> means = store["means"]
    >>> means.sources, means.dtype, means.rate
    (('x',), dtype('float64'), Fraction(1, 1))
    >>> np.asarray(means)[:3, 0]
    array([ 49.5, 149.5, 249.5])
    """

    store: Store
    name: str
    saved: Mapping[str, Any]
    plan: Plan
    allow_functions: bool | Iterable[str] = False

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the stored signals that the plan reads, each once; empty if it reads none.

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
        >>> store["means"].sources
        ('x',)
        """
        names = (node["of"].get("signal") for node in self.saved["nodes"] if node["op"] == "scan")
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def source(self) -> Signal:
        """The first signal that the plan reads, whose indices and times it has.

        Raises:
            PlanError: the plan reads no signal of a store.
            StoreError: the store has no such signal any more (also KeyError).

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
        >>> store["means"].source.name
        'x'
        """
        if not self.sources:
            raise PlanError(
                f"saved plan {self.name!r} reads no signal of a store, so it has no indices and times; run it with "
                "saved_plan.plan.collect()"
            )
        return self.store[self.sources[0]]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the plan's values, a `numpy.dtype`.

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
        >>> store["means"].dtype
        dtype('float64')
        """
        row = self.plan._native.row(False)
        return np.dtype(row[0] if row else "float64")

    @property
    def rate(self) -> Any:
        """Rate of the plan's samples or windows in Hz, exact: a `Fraction`.

        Raises:
            PlanError: the plan reads no signal of a store.

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
        >>> store["means"].rate
        Fraction(1, 1)
        """
        return self.source.rate.fraction / self.plan.hop

    def time_of(self, index: int) -> Any:
        """Convert an index to civil time.

        Parameters:
            index: index of a sample of `source`: any whole number, or an array of them.

        Returns:
            A `Time`; for an array, the times as datetime64[ns] of the same shape, as `Signal.time_of` gives them.

        Raises:
            PlanError: the plan reads no signal of a store.
            StoreError: the signal has no civil time.
            TimeError: outside the years 1678 to 2262, for an array.

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100, start="2026-03-01").append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
        >>> store["means"].time_of(250)
        Time('2026-03-01T00:00:02.500Z')
        """
        return self.source.time_of(index)

    def __getitem__(self, key: Any) -> SavedPlanPart:
        selection = self.source[key]
        if not hasattr(selection, "segments"):
            raise OptionError(
                f"saved plan {self.name!r} cannot be indexed with one number; give a slice, such as saved_plan[a:b]"
            )
        return SavedPlanPart(self, key)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Compute all values of the plan."""
        return self[:].__array__(dtype, copy)

    def __repr__(self) -> str:
        return f"<SavedPlan {self.name}: {self.plan}>"


@dataclass(frozen=True, slots=True)
class SavedPlanPart:
    """A range of a saved plan; made by ``saved_plan[a:b]``. Nothing is computed until values are requested.

    Windows are those of the whole plan that lie entirely within the range.

    Attributes:
        whole: the saved plan of which it is a part.
        key: the range: a slice of indices or times, or a span.

    >>> import isochrony as iso, numpy as np, tempfile
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
    >>> _ = store.commit()
    >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
    >>> part = store["means"][250:700]
    >>> part.indices(), part.values()[:, 0]
    (array([300, 400, 500, 600]), array([349.5, 449.5, 549.5, 649.5]))
    """

    whole: SavedPlan
    key: Any

    @property
    def plan(self) -> Plan:
        """The plan over this range: an `isochrony.Plan`.

        Raises:
            PlanError: the plan cannot be read, reads no signal of a store, or calls functions that are not allowed.

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
        >>> len(store["means"][250:700].plan.collect())
        4
        """
        nodes = []
        for node in self.whole.saved["nodes"]:
            if node["op"] == "scan" and "signal" in node["of"]:
                source = self.whole.store[node["of"]["signal"]]
                # Windows are counted from the start of the selection, whatever part of it is read.
                selection = {"ranges": [[source.start_index, source.end_index]], **node["of"]}
                node = {**node, "of": selection, "range": self._range(node["of"]["signal"], node["range"])}
            nodes.append(node)
        whole = self.whole
        saved = {**whole.saved, "nodes": nodes}
        return Plan.from_json(saved, store=whole.store, allow_functions=whole.allow_functions)

    def _range(self, name: str, within: list[int] | None) -> list[int]:
        """Indices of a signal that the range covers: those of other signals than the first by civil time."""
        source = self.whole.source
        asked = source[self.key]
        parts = asked.ranges
        start, end = (min(p[0] for p in parts), max(p[1] for p in parts)) if parts else (0, 0)
        if name != source.name and parts:
            other = self.whole.store[name]
            start, end = other.index_of(source.time_of(start)), other.index_of(source.time_of(end - 1)) + 1
        if within is not None:
            start, end = max(start, within[0]), min(end, within[1])
        return [start, max(start, end)]

    def values(self) -> npt.NDArray[Any]:
        """Run the plan over the range.

        Returns:
            An array of the plan's dtype: for samples, shape (n,); for windows, shape (windows, values per window).

        Raises:
            PlanError: the plan cannot be read, reads no signal of a store, or calls functions that are not allowed.
            RunError: the run fails, for instance in a Python function.

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
        >>> store["means"][250:700].values()[:, 0]
        array([349.5, 449.5, 549.5, 649.5])
        """
        result: npt.NDArray[Any] = self.plan.collect()
        return result

    def indices(self) -> npt.NDArray[np.int64]:
        """Run the plan over the range, and give the places of its values.

        Returns:
            Index of each sample, or of the first sample of each window, as an int64 array of shape (n,).

        Raises:
            PlanError: the plan cannot be read, reads no signal of a store, or calls functions that are not allowed.
            RunError: the run fails, for instance in a Python function.

        >>> import isochrony as iso, numpy as np, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
        >>> _ = store.commit()
        >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
        >>> store["means"][250:700].indices()
        array([300, 400, 500, 600])
        """
        plan = self.plan
        _, (parts,), _ = collect_reported((plan,), RunOptions.of())
        rows = [] if parts is None else [start + plan.hop * np.arange(count) for start, count in parts]
        return np.concatenate([np.empty(0, np.int64), *rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise OptionError(
                "copy=False is refused: the values of a saved plan are computed for each call; leave it out"
            )
        return self.values().astype(dtype or self.whole.dtype, copy=False)

    def __repr__(self) -> str:
        return f"<SavedPlanPart {self.whole.name}[{self.key}]>"
