"""Steps that make rows with named fields, and that work on rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from .chain import Chain
from .options import flag, whole

if TYPE_CHECKING:
    from ._native import Expr, Row

__all__ = ["STATS", "Groups", "RowSteps"]

#: Statistics of `Plan.stats`.
STATS = ("min", "max", "count", "mean", "std", "var", "rms")


class RowSteps(Chain):
    """Of `isochrony.Plan`: from windows or ranges to rows, and from rows to rows."""

    __slots__ = ()

    def rows(self, *, wrap: bool = False, **fields: Callable[[Expr], Expr] | Expr) -> Self:
        """Make a row of each window, or of each range.

        Returns:
            Rows: "start" and "end" (int64), "time" (of the first sample, where the signal knows civil time), then the
            fields, of the dtypes that `map` gives. No edges, no delay.

        Parameters:
            wrap: integer arithmetic wraps, as in `map`; so no field can be called "wrap".
            fields: by name, each as ``lambda s: s.max()``; traced once. One value a window is a number, several are a
                list. Ranges have no samples and take none.

        Raises:
            OptionError: `wrap` is not True or False.
            PlanError: one cannot be traced, its types do not fit, two fields have one name, or the input has neither
                windows nor ranges.

        >>> import numpy as np, isochrony as iso
        >>> windows = iso.scan(np.arange(6), rate=100).rewindow(3)
        >>> windows.rows(energy=lambda s: (s * s).sum(), peak=lambda s: s.max()).collect()
         start  end  energy  peak
             0    3       5     2
             3    6      50     5
        [2 rows]
        """
        return type(self)(self._native.traced_fields("rows", "{}", fields, _wraps("rows", wrap)))

    def select(self, *names: str, wrap: bool = False, **fields: Callable[[Row], Expr] | Expr) -> Self:
        """Keep some fields of rows, in this order, and add others.

        Returns:
            Rows with the named fields in this order, then the computed ones, of the dtypes that `map` gives. No
            edges, no delay.

        Parameters:
            names: of fields that are kept. Without "start" and "end" rows cannot be joined.
            wrap: integer arithmetic wraps, as in `map`; so no computed field can be called "wrap".
            fields: further ones by name, each as ``lambda r: r.std / r.mean``; traced once.

        Raises:
            OptionError: `wrap` is not True or False.
            PlanError: a field that does not exist, two fields of one name, or input that is not rows.

        >>> import numpy as np, isochrony as iso
        >>> rows = iso.scan(np.arange(6), rate=100).rewindow(3).stats("min", "max")
        >>> rows.select("start", span=lambda r: r.max - r.min).collect()
         start  span
             0     2
             3     2
        [2 rows]
        """
        params = json.dumps({"names": names})
        return type(self)(self._native.traced_fields("select", params, fields, _wraps("select", wrap)))

    def group_by(self, *keys: str, most: int = 1_000_000) -> Groups[Self]:
        """Group rows with equal fields; `Groups.agg` aggregates the groups.

        Returns:
            Groups, whose `agg` gives rows: the keys, then the aggregates, one row per group at the end of the run.

        Parameters:
            keys: names of the fields; none: all rows are one group. Other keys, as hours, are made by `select`.
            most: largest number of groups; more end the run with an error.

        Raises:
            OptionError: `most` is no whole number from 1. A key that does not exist is an error of `Groups.agg`.

        >>> import numpy as np, isochrony as iso
        >>> rows = iso.scan(np.arange(8) % 3, rate=100).rewindow(2).stats("max")
        >>> rows.group_by("max").agg(n="count").collect()
         max  n
           1  2
           2  2
        [2 rows]
        """
        return Groups(self, keys, whole("group_by most=", most, "groups"))


def _wraps(step: str, wrap: object) -> bool:
    return flag(f"{step} wrap", wrap, ": it says whether integers wrap, so a field needs another name")


_Plan = TypeVar("_Plan", bound=RowSteps)


class Groups(Generic[_Plan]):
    """Rows in groups; made by `Plan.group_by`."""

    __slots__ = ("_keys", "_most", "_plan")

    def __init__(self, plan: _Plan, keys: tuple[str, ...], most: int) -> None:
        self._plan = plan
        self._keys = keys
        self._most = most

    def agg(self, **aggregates: str | tuple[str, str]) -> _Plan:
        """One row for each group, at the end of the run, in the order of the groups' first rows.

        Returns:
            Rows: the keys, then the aggregates, one row per group. No indices, so they cannot be joined.

        Parameters:
            aggregates: names of columns, and what they are: "count", or a field and one of "sum", "min", "max",
                "mean", "std" (of the population), "first", "last". Nulls are left out.

        Raises:
            PlanError: a field or an aggregate that does not exist, or two columns of one name.

        >>> import numpy as np, isochrony as iso
        >>> rows = iso.scan(np.arange(8) % 3, rate=100).rewindow(2).stats("min", "max")
        >>> rows.group_by("max").agg(n="count", least=("min", "min")).collect()
         max  n  least
           1  2      0
           2  2      0
        [2 rows]
        """
        aggregates_json = {name: what if isinstance(what, str) else list(what) for name, what in aggregates.items()}
        return self._plan._then("group_by", keys=list(self._keys), aggregates=aggregates_json, most=self._most)
