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
from .plan import Plan

if TYPE_CHECKING:
    from .._native import Signal, Store

__all__ = ["SAVED_PLANS", "SavedPlan", "SavedPlanPart", "SavedPlans"]

#: The attribute of a store that holds them.
SAVED_PLANS = "isochrony_views"


class SavedPlans(Mapping[str, "SavedPlan"]):
    """The saved plans of a store by name; ``del store.saved_plans[name]`` forgets one.

    Parameters:
        store: whose plans.
    """

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def _saved(self) -> dict[str, Any]:
        saved = self._store.attrs.get(SAVED_PLANS, {})
        return dict(saved) if isinstance(saved, Mapping) else {}

    def save(self, name: str, plan: Plan, *, overwrite: bool = False) -> None:
        """Keep a plan under a name, on disk when this returns.

        Raises:
            PlanError: it gives neither samples nor windows, writes, or cannot be saved.
            StoreError: a signal or a saved plan has the name (also FileExistsError), or the store is open for reading.
        """
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

        Raises:
            StoreError: no saved plan has the name, or something has the other one.
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
        """A saved plan by its name; ``store.saved_plans[name]`` and ``store[name]`` do the same and allow no functions.

        Parameters:
            name: name of the plan.
            allow_functions: whether Python functions that it calls are imported, as for `Plan.from_json`: a store that
                somebody else wrote may name any.

        Raises:
            KeyError: there is none of that name.
            PlanError: its plan cannot be read, writes, or calls functions that are not allowed (code
                "functions_not_allowed").
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
        """What each saved plan does, in words, or what is wrong with it."""
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
    """A plan that is read as a signal; made by `Store.save_plan`, opened by its name.

    Indices are those of the signal that the plan reads, also where it gives one value a window.

    Attributes:
        store: where it is kept.
        name: in the store.
        saved: the plan as JSON objects.
        plan: the plan over all there is.
        allow_functions: which Python functions may be imported, as it was opened.
    """

    store: Store
    name: str
    saved: Mapping[str, Any]
    plan: Plan
    allow_functions: bool | Iterable[str] = False

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the signals that it reads."""
        names = (node["of"].get("signal") for node in self.saved["nodes"] if node["op"] == "scan")
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def source(self) -> Signal:
        """The first signal that it reads, whose indices and times it has."""
        if not self.sources:
            raise PlanError(
                f"saved plan {self.name!r} reads no signal of a store, so it has no indices and times; run it with "
                "saved_plan.plan.collect()"
            )
        return self.store[self.sources[0]]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its values."""
        row = self.plan._native.row(False)
        return np.dtype(row[0] if row else "float64")

    @property
    def rate(self) -> Any:
        """Samples or windows a second, exact: a `Fraction` in Hz."""
        return self.source.rate.fraction / self.plan.hop

    def time_of(self, index: int) -> Any:
        """Civil time of an index of the signal that it reads."""
        return self.source.time_of(index)

    def __getitem__(self, key: Any) -> SavedPlanPart:
        selection = self.source[key]
        if not hasattr(selection, "segments"):
            raise OptionError(
                f"saved plan {self.name!r} cannot be indexed with one number; give a slice, such as saved_plan[a:b]"
            )
        return SavedPlanPart(self, key)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """All of its values."""
        return self[:].__array__(dtype, copy)

    def __repr__(self) -> str:
        return f"<SavedPlan {self.name}: {self.plan}>"


@dataclass(frozen=True, slots=True)
class SavedPlanPart:
    """A range of a saved plan; nothing is computed before it is asked for.

    Attributes:
        whole: of which it is a part.
        key: what was asked for: a slice of indices or times, a span.
    """

    whole: SavedPlan
    key: Any

    @property
    def plan(self) -> Plan:
        """The plan over this range."""
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
        """Run the plan over the range: shape (samples,), or (windows, values a window)."""
        result: npt.NDArray[Any] = self.plan.collect()
        return result

    def indices(self) -> npt.NDArray[np.int64]:
        """Index of the first sample of each row, by running the plan."""
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
