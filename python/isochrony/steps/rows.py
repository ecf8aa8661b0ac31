"""Steps that make rows with named fields, and that work on rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from ..options import flag, length_in_seconds, whole
from .chain import Chain

if TYPE_CHECKING:
    from .._native import Expr, Row
    from ..options import Duration

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

    def group_by(
        self,
        *keys: str,
        every: Duration | None = None,
        period: Duration | None = None,
        session: Duration | None = None,
        most: int = 1_000_000,
    ) -> Groups[Self]:
        """Group rows with equal fields, or those of each window of time; `Groups.agg` aggregates the groups.

        Returns:
            Groups, whose `agg` gives rows: one per group at the end of the run; with `every`, one per window and group
            as soon as the window is over; with `session`, one per session.

        Parameters:
            keys: names of the fields; none: all rows are one group. Other keys are made by `select`.
            every: from the begin of one window to the next, in seconds, or as text ("1h", "100 samples") or timedelta,
                from 1 ns to 2e9 s and at least a sample. Windows begin at multiples of it: in civil time (UTC) where
                the rows have it, so "1h" begins at the full hour, else in time since index 0, in whole samples. A
                length in samples counts from index 0 in any case.
            period: length of a window, as `every`, which is the default. Longer: windows overlap, and a row is in
                several. Shorter: rows between windows are left out.
            session: longest pause within a session, as `every`. A session begins with a row of its key, and ends when
                no row of the key starts within this time after the end of those before.
            most: largest number of groups, with windows of those that are not over; more end the run with an error.

        Conventions:
            A row belongs to the windows that its "start" lies in. A gap ends no window; a clock step does, and the new
            run has windows of its own.

        Raises:
            OptionError: a length is none, or `most` is no whole number from 1.
            PlanError: `every` together with `session`, or `period` without `every`, as raised by `Groups.agg`, and a
                key that does not exist.

        >>> import numpy as np, isochrony as iso
        >>> rows = iso.scan(np.arange(8) % 3, rate=100).rewindow(2).stats("max")
        >>> rows.group_by("max").agg(n="count").collect()
         max  n
           1  2
           2  2
        [2 rows]

        A row per hour, while the recording or feed is being read:

        >>> pressure = iso.scan(np.arange(7200), rate=1, start="2026-03-01T10:20")
        >>> pressure.rewindow(1200).stats("max").group_by(every="1h").agg(n="count", max=("max", "max")).collect()
         start   end                           time  n   max
             0  2400  2026-03-01T10:00:00.000000000  2  2399
          2400  6000  2026-03-01T11:00:00.000000000  3  5999
          6000  9600  2026-03-01T12:00:00.000000000  1  7199
        [3 rows]
        """
        spans = {"every": every, "period": period, "session": session}
        lengths = {
            name: length_in_seconds(f"group_by {name}=", value) for name, value in spans.items() if value is not None
        }
        return Groups(self, keys, {**lengths, "most": whole("group_by most=", most, "groups")})


def _wraps(step: str, wrap: object) -> bool:
    return flag(f"{step} wrap", wrap, ": it says whether integers wrap, so a field needs another name")


_Plan = TypeVar("_Plan", bound=RowSteps)


class Groups(Generic[_Plan]):
    """Rows in groups; made by `Plan.group_by`."""

    __slots__ = ("_keys", "_params", "_plan")

    def __init__(self, plan: _Plan, keys: tuple[str, ...], params: dict[str, float | str]) -> None:
        self._plan = plan
        self._keys = keys
        self._params = params

    def agg(self, **aggregates: str | tuple[str, str]) -> _Plan:
        """One row for each group, at the end of the run, or for each group of a window when the window is over.

        Returns:
            Rows at the end: the keys, then the aggregates, one row per group in the order of their first rows. No
            indices, so they cannot be joined.

            With `every`: "start" and "end" (int64, indices of the window), "time" (its begin, where the rows have civil
            time), the keys, the aggregates; by window, then in the order of first rows in it. Windows without rows give
            none. "start" and "end" stay within the run.

            With `session`: the same, with the start of the session's first row, the latest end of its rows, and the
            time of its start; by start. A session waits for those that began before it.

        Parameters:
            aggregates: names of columns, and what they are: "count", or a field and one of "sum", "min", "max",
                "mean", "std" (of the population), "first", "last". Nulls are left out.

        Raises:
            PlanError: a field or an aggregate that does not exist, or two columns of one name, of which windows have
                "start", "end" and "time"; windows of rows that have no "start" and "end", or are shorter than a sample.

        >>> import numpy as np, isochrony as iso
        >>> rows = iso.scan(np.arange(8) % 3, rate=100).rewindow(2).stats("min", "max")
        >>> rows.group_by("max").agg(n="count", least=("min", "min")).collect()
         max  n  least
           1  2      0
           2  2      0
        [2 rows]
        >>> rows.group_by(every="4 samples").agg(most=("max", "max")).collect()
         start  end  most
             0    4     2
             4    8     2
        [2 rows]
        """
        aggregates_json = {name: what if isinstance(what, str) else list(what) for name, what in aggregates.items()}
        return self._plan._then("group_by", keys=list(self._keys), aggregates=aggregates_json, **self._params)
