"""Options of an import that have no effect on a file: nothing that a user states is ignored in silence."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction
from typing import Any

from .block import Options, Remark
from .columns import TIME_UNITS
from .sources import Source

__all__ = ["SignalNames", "rates_differ", "stored_otherwise", "time_remarks", "unused_options"]

# Rates that differ by less are the same clock's, as in the session.
_SAME_RATE = Fraction(1, 1000)
_LACKS_ZONE = "its times state no zone and were taken as UTC; if they are local ones, import it with zone="


class SignalNames:
    """The names of the signals of a store, as they were when first asked for."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._names: list[str] | None = None
        self._files: dict[str, frozenset[str]] = {}

    def hold(self, name: str, key: str) -> bool:
        """Whether signals of that name, or below it, have samples of a file, by how provenance names it."""
        if name not in self._files:
            events = (event for one in self.of(name) for event in self._store[one].events.find(kind="import"))
            self._files[name] = frozenset(
                f"{fields['folder']}/{file[0]}"
                for event in events
                for fields in [event.fields]
                for file in fields["files"]
            )
        return key in self._files[name]

    def of(self, name: str) -> list[str]:
        """Signals of that name, or below it."""
        if self._names is None:
            self._names = sorted(self._store.keys())
        first = bisect.bisect_left(self._names, f"{name}/")
        # The character behind the slash.
        end = bisect.bisect_left(self._names, f"{name}0")
        at = bisect.bisect_left(self._names, name)
        exact = self._names[at : at + 1]
        return [one for one in exact if one == name] + self._names[first:end]


def unused_options(source: Source, options: Options) -> Iterator[str]:
    """A remark for each option that does not apply to files of the source's format."""
    assert source.format is not None
    for option in fields(Options):
        if getattr(options, option.name) not in (None, False) and not source.format.takes(option.name):
            yield f"{option.name}= does not apply to {source.format.name} files and was not used"


def time_remarks(
    name: str, options: Options, *, unit_ns: int | None, is_number: bool, lacks_zone: bool
) -> Iterator[Remark]:
    """Remarks on options that do not fit the times of a table, and on what was assumed of them.

    Parameters:
        name: of the time column.
        options: `zone` and `time_unit` matter.
        unit_ns: the unit that the column's name states.
        is_number: its times are numbers, rather than dates.
        lacks_zone: they are dates that state no zone.
    """
    if lacks_zone and options.zone is None and "utc" not in name.lower():
        yield Remark(_LACKS_ZONE)
    if options.zone is not None and not lacks_zone:
        why = "are numbers" if is_number else "state their time zone"
        yield Remark(f"its times {why}, and zone= was not used")
    if options.time_unit is not None and not is_number:
        yield Remark("its times are dates, and time_unit= was not used")
    elif options.time_unit is not None and unit_ns not in (None, TIME_UNITS[options.time_unit]):
        yield Remark(f"its time column {name!r} states another unit, which time_unit= replaced by {options.time_unit}")


def rates_differ(stated: Fraction, stored: Fraction) -> bool:
    """Whether two rates are not those of one clock."""
    return abs(stated / stored - 1) > _SAME_RATE


def stored_otherwise(store: Any, names: SignalNames, source: Source, options: Options) -> Iterator[str]:
    """A remark for each option that would make of a source that is known something else than what is stored of it."""
    assert source.format is not None
    if options.rate is None and options.unit is None and options.start is None:
        return
    for name in names.of(options.signal or source.signal):
        for option, stored, differs in _compared(store[name], options):
            if differs and source.format.takes(option):
                yield (
                    f"is stored already in signal {name!r}, with {stored}, and {option}= does not change that; "
                    "import it as another signal with signal=, or delete that signal first"
                )


def _compared(signal: Any, options: Options) -> Iterator[tuple[str, str, bool]]:
    """What a stored signal has, and whether it differs, for each option that is given."""
    if options.rate is not None:
        stored = signal.rate.fraction
        yield "rate", f"{float(stored):.9g} Hz", rates_differ(options.rate, stored)
    if options.unit is not None:
        unit = signal.unit
        yield "unit", f"unit {unit}" if unit else "no unit", options.unit != unit
    if options.start is not None:
        half_ns = 500_000_000 / float(signal.rate)
        starts = [run.start_time for run in signal.runs() if run.start_time is not None]
        is_near = any(abs(start.ns - options.start.ns) <= half_ns for start in starts)
        yield "start", f"start {min(starts).isoformat()}" if starts else "no civil time", not is_near
