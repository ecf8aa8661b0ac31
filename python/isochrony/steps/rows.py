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
    """Part of `isochrony.Plan`: makes rows with named fields, and works on them."""

    __slots__ = ()

    def rows(self, *, wrap: bool = False, **fields: Callable[[Expr], Expr] | Expr) -> Self:
        """Make a row with named fields of each window, or of each range.

        Returns:
            Rows: "start" and "end" (int64), "time" (of the first sample, if the signal has civil time), then the
            fields, with dtypes as in `map`. No edges, no delay.

        Parameters:
            wrap: integer arithmetic wraps, as in `map`. So no field can have the name "wrap".
            fields: functions by name of field, such as ``peak=lambda s: s.max()``, called once each to build an
                expression. One value per window gives a number, several give a list. Ranges have no samples, so they
                take no fields.

        Raises:
            OptionError: `wrap` is neither True nor False.
            PlanError: a function cannot become an expression, or has types that do not fit; two fields have one name;
                the input is neither windows nor ranges.

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
        """Keep some fields of rows, and compute others.

        Returns:
            Rows with the named fields in this order, then the computed ones, with dtypes as in `map`. No edges, no
            delay.

        Parameters:
            names: names of fields to keep. Without "start" and "end" rows cannot be joined.
            wrap: integer arithmetic wraps, as in `map`. So no computed field can have the name "wrap".
            fields: computed fields by name, such as ``ratio=lambda r: r.std / r.mean``; each function is called once,
                to build an expression.

        Raises:
            OptionError: `wrap` is neither True nor False.
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
        """Group rows by the values of fields, by windows of time, or by sessions; `Groups.agg` aggregates the groups.

        Returns:
            A `Groups`; its `agg` gives one row per group at the end of the run; with `every`, one per window and group
            as soon as the window is over; with `session`, one per session.

        Parameters:
            keys: names of fields; none: all rows form one group. Compute other keys with `select`.
            every: length from the start of one window to the next, in seconds, or as text ("1h", "100 samples") or
                timedelta; 1 ns to 2e9 s, and at least a sample. Windows start at multiples of it: in civil time (UTC)
                if the rows have it, so "1h" starts at the full hour; else in time since index 0, in whole samples. A
                length in samples always counts from index 0.
            period: length of a window, as `every`; None: `every`. If longer, windows overlap, and a row is in several;
                if shorter, rows between windows are left out.
            session: longest pause within a session, as `every`. A session starts with a row of its keys, and ends when
                no row of these keys starts within this time after the end of the earlier ones.
            most: largest number of groups, with those of windows that are not over, from 1; more end the run with an
                error.

        Conventions:
            A row belongs to the windows that contain its "start". Windows continue across gaps, but end at clock steps:
            each run has windows of its own.

        Raises:
            OptionError: a length is not one, or `most` is not a whole number from 1.
            PlanError: from `Groups.agg`: `every` together with `session`, `period` without `every`, or a key that does
                not exist.

        >>> import numpy as np, isochrony as iso
        >>> rows = iso.scan(np.arange(8) % 3, rate=100).rewindow(2).stats("max")
        >>> rows.group_by("max").agg(n="count").collect()
         max  n
           1  2
           2  2
        [2 rows]
        >>> pressure = iso.scan(np.arange(7200), rate=1, start="2026-03-01T10:20")
        >>> hourly = pressure.rewindow(1200).stats("max").group_by(every="1h")
        >>> hourly.agg(n="count", max=("max", "max")).collect()
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
    """Groups of rows of a plan; made by `Plan.group_by`. `agg` computes one row per group.

    >>> import numpy as np, isochrony as iso
    >>> groups = iso.scan(np.arange(8) % 3, rate=100).rewindow(2).stats("max").group_by("max")
    >>> groups.agg(n="count").collect()
     max  n
       1  2
       2  2
    [2 rows]
    """

    __slots__ = ("_keys", "_params", "_plan")

    def __init__(self, plan: _Plan, keys: tuple[str, ...], params: dict[str, float | str]) -> None:
        self._plan = plan
        self._keys = keys
        self._params = params

    def agg(self, **aggregates: str | tuple[str, str]) -> _Plan:
        """Compute one row per group, at the end of the run, or as soon as a window or session is over.

        Returns:
            At the end: the keys, then the aggregates, in order of the groups' first rows. Without indices, so these
            rows cannot be joined.
            With `every`: "start" and "end" (int64, indices of the window), "time" (its start, if the rows have civil
            time), the keys, the aggregates; by window, then in order of first rows. Windows without rows give none.
            "start" and "end" stay within the run.
            With `session`: the same, with the start of the session's first row and the latest end of its rows; by
            start. A session waits for earlier ones.

        Parameters:
            aggregates: by name of column: "count", or a pair of a field and one of "sum", "min", "max", "mean", "std"
                (population), "first", "last". Nulls are left out.

        Raises:
            PlanError: a field or an aggregate that does not exist, two columns of one name (windows and sessions have
                "start", "end" and "time"), rows without "start" and "end", or windows shorter than a sample.

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
