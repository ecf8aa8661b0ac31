"""Plans: what to compute over a signal, said first and run later.

So far one chain can run: ``scan(signal).rewindow(n).stats(...).collect()``, in one
thread. A plan is a value: it prints as what it does, compares, and runs as often as
you like.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from .native_errors import OptionError, PlanError
from .progress import ImportProgress
from .table import Table

if TYPE_CHECKING:
    from ._native import Selection, Signal

__all__ = ["STATS", "Plan", "scan"]

#: Statistics of `Plan.stats`.
STATS = ("min", "max", "count", "mean", "std", "var", "rms")


@dataclass(frozen=True, slots=True)
class Plan:
    """A chain of operators over one signal; made by `isochrony.scan`.

    Attributes:
        source: the signal or selection that is read.
        window: samples a window; None before `rewindow`.
        tail: "drop" or "keep" a last window that a gap or the end leaves short.
        anchor: "run": windows are counted from the first sample after a gap or clock step, whatever part of the
            signal is scanned; "range": from the first sample that is scanned.
        names: statistics, in the order of their columns.
    """

    source: Signal | Selection
    window: int | None = None
    tail: Literal["drop", "keep"] = "drop"
    anchor: Literal["run", "range"] = "run"
    names: tuple[str, ...] = ()

    def rewindow(
        self,
        window: int,
        *,
        tail: Literal["drop", "keep"] = "drop",
        anchor: Literal["run", "range"] = "run",
    ) -> Self:
        """Cut every gap-free stretch into consecutive windows.

        Parameters:
            window: samples a window, from 1. A window never spans a gap or a clock step.
            tail: "drop" a last window that is left short, or "keep" it.
            anchor: "run": scanning a part of a signal gives those of the signal's own windows that lie wholly
                inside; "range": windows begin at the part's first sample.

        Raises:
            OptionError: an option without a legal value.
        """
        try:
            samples = operator.index(window)
        except TypeError:
            samples = 0
        if samples < 1 or isinstance(window, bool):
            raise OptionError(f"rewindow({window!r}) is refused; give a whole number of samples, from 1")
        if tail not in ("drop", "keep"):
            raise OptionError(f"tail={tail!r} is refused; give 'drop' or 'keep'")
        if anchor not in ("run", "range"):
            raise OptionError(f"anchor={anchor!r} is refused; give 'run' or 'range'")
        return replace(self, window=samples, tail=tail, anchor=anchor)

    def stats(self, *names: str) -> Self:
        """Compute statistics of the finite samples of each window, in the signal's unit.

        Parameters:
            names: of "min", "max", "count", "mean", "std" (population, as NumPy's), "var" and "rms"; each once. Of
                complex samples they are those of the magnitude.

        Raises:
            PlanError: an unknown or repeated name, none, or no `rewindow` before.
        """
        if self.window is None:
            raise PlanError("stats needs windows; say rewindow(samples) first")
        unknown = [name for name in names if name not in STATS]
        if unknown or not names or len(set(names)) < len(names):
            raise PlanError(f"stats{names!r} is refused; name each of {', '.join(STATS)} at most once")
        return replace(self, names=names)

    def collect(self, *, workers: int = 1, progress: bool = False) -> Table:
        """Run the plan in this thread.

        Parameters:
            workers: 1; more is an error until parallel runs exist.
            progress: draw a progress line on a terminal.

        Returns:
            A `Table` with one row a window: "start" and "end" (indices), "time" (datetime64[ns] of the first sample,
            where the signal knows civil time), then the statistics; int64 where they are exact, else float64 with NaN
            for a window without finite samples.

        Raises:
            PlanError: the plan is not complete, or `workers` is not 1.
        """
        from ._native import window_stats

        if workers != 1:
            raise PlanError(f"workers={workers!r} is refused: this version runs plans in one thread; leave it at 1")
        if self.window is None or not self.names:
            raise PlanError(f"{self} computes nothing; add rewindow(samples) and stats(names)")
        with ImportProgress("scanning", enabled=None if progress else False) as line:
            size = self.source.counts.dtype.itemsize if progress and hasattr(self.source.counts, "dtype") else 1
            columns: dict[str, Any] = window_stats(
                self.source,
                self.window,
                list(self.names),
                keep_tail=self.tail == "keep",
                anchor_at_range=self.anchor == "range",
                progress=(lambda done, total: line(done * size, total * size, 0, 0)) if progress else None,
            )
        times = self.source._times_of(columns["start"])
        if times is not None:
            rest = {name: column for name, column in columns.items() if name not in ("start", "end")}
            columns = {"start": columns["start"], "end": columns["end"], "time": times, **rest}
        return Table(columns, units=dict.fromkeys(set(self.names) - {"count"}, self.source.unit))

    def explain(self) -> str:
        """What the plan does, step by step, in words."""
        steps = [f"read {self.source!r}"]
        if self.window is not None:
            short = "drop" if self.tail == "drop" else "keep"
            begin = "the first sample after each gap" if self.anchor == "run" else "the first sample read"
            steps.append(f"cut windows of {self.window} samples from {begin}; {short} short last ones")
        if self.names:
            steps.append(f"compute {', '.join(self.names)} of each window, in one pass, in this thread")
        return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))

    def __str__(self) -> str:
        steps = [f"scan({self.source.name})"]
        if self.window is not None:
            tail = ', tail="keep"' if self.tail == "keep" else ""
            anchor = ', anchor="range"' if self.anchor == "range" else ""
            steps.append(f"rewindow({self.window}{tail}{anchor})")
        if self.names:
            steps.append(f"stats({', '.join(self.names)})")
        return " -> ".join(steps)


def scan(source: Signal | Selection) -> Plan:
    """A plan over a signal, or over a part of it.

    Parameters:
        source: ``store["name"]``, or ``signal[a:b]``.

    Raises:
        PlanError: anything else.
    """
    from ._native import Selection, Signal

    if not isinstance(source, Signal | Selection):
        raise PlanError(f"scan got {type(source).__name__}; give a signal or a selection of one")
    return Plan(source)
