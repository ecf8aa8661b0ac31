"""Options of an import that have no effect on a file: nothing that a user states is ignored in silence."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from .block import Options, Remark
from .columns import TIME_UNITS
from .keywords import OPTIONS
from .sources import Source

__all__ = [
    "SignalNames",
    "rates_differ",
    "raw_stored_otherwise",
    "recorded_options",
    "stored_otherwise",
    "table_remarks",
    "time_remarks",
    "unused_options",
]

# Rates that differ by less are the same clock's, as in the session.
_SAME_RATE = Fraction(1, 1000)
_LACKS_ZONE = "its times state no zone and were taken as UTC; if they are local ones, import it with zone="


class SignalNames:
    """The names of the signals of a store, as they were when first asked for, and the files whose samples they have."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._names: list[str] | None = None
        self._files: dict[str, frozenset[str]] = {}

    def hold(self, name: str, key: str) -> bool:
        """Whether signals of that name, or below it, have samples of a file, by how provenance names it."""
        return any(self._holds(one, key) for one in self._of(name))

    def holders(self, key: str, name: str | None) -> list[str]:
        """Signals that have samples of a file; of `name` or below it, if one is given."""
        return [one for one in self._of(name) if self._holds(one, key)]

    def _holds(self, signal: str, key: str) -> bool:
        if signal not in self._files:
            of_imports = [event.fields for event in self._store[signal].events.find(kind="import")]
            self._files[signal] = frozenset(f"{one['folder']}/{file[0]}" for one in of_imports for file in one["files"])
        return key in self._files[signal]

    def _of(self, name: str | None) -> list[str]:
        """Signals of that name, or below it; all without one."""
        if self._names is None:
            self._names = sorted(self._store.keys())
        if name is None:
            return self._names
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


def table_remarks(
    options: Options, units: Mapping[str, str | None], *, has_times: bool, elapsed: bool
) -> Iterator[Remark]:
    """Remarks on options without effect on a table, and on those that replace what it states.

    Parameters:
        options: all of them.
        units: what the titles of the columns of values state.
        has_times: it has a column of times.
        elapsed: which count from the start of the file.
    """
    if not has_times:
        for option in ("time_unit", "zone", "ignore_times"):
            if getattr(options, option):
                yield Remark(f"has no time column, and {option}= was not used")
    elif options.start is not None and not elapsed:
        yield Remark("has times of its own, and the stated start was not used")
    for name, unit in units.items():
        if options.unit is not None and unit not in (None, options.unit):
            yield Remark(f"its column {name!r} states the unit {unit}, which unit= replaced by {options.unit}")


def rates_differ(stated: Fraction, stored: Fraction) -> bool:
    """Whether two rates are not those of one clock."""
    return abs(stated / stored - 1) > _SAME_RATE


def recorded_options(source: Source, options: Options) -> dict[str, str]:
    """What is kept with a signal of the options that a file was imported with: those that the signal does not show."""
    assert source.format is not None
    given = {name: getattr(options, name) for name, option in OPTIONS.items() if option.is_recorded}
    return {
        name: str(value) for name, value in given.items() if value not in (None, False) and source.format.takes(name)
    }


def stored_otherwise(store: Any, names: SignalNames, source: Source, key: str, options: Options) -> Iterator[str]:
    """A remark for each option that would make of a source that is known something else than what is stored of it."""
    assert source.format is not None
    compared = (*recorded_options(source, options).items(), options.rate, options.unit, options.start, options.columns)
    if not any(compared):
        return
    is_named = source.format.takes("signal")
    remedy = (
        "import it as another signal with signal=, or delete that signal first"
        if is_named
        else ("import it into another store")
    )
    columns = set()
    # Files may name their signals themselves.
    holders = names.holders(key, options.signal or source.signal) or names.holders(key, None)
    for name in holders:
        signal = store[name]
        columns.add(signal.attrs.get("column"))
        for option, stored, differs in (*_compared(signal, options), *_recorded(signal, source, options)):
            if differs and source.format.takes(option):
                yield f"is stored already in signal {name!r}, {stored}, and {option}= does not change that; {remedy}"
    missing = [one for one in options.columns or () if one not in columns]
    if holders and missing and source.format.takes("columns"):
        yield (
            f"is stored already in signal {holders[0]!r} without column {missing[0]!r}, and columns= does not change "
            f"that; {remedy}"
        )


def raw_stored_otherwise(store: Any, summary: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    """A remark for each option that would make something else of a signal whose raw recordings were all known.

    Parameters:
        store: that they are in.
        summary: of the import.
        given: a value for each option of imports.
    """
    options = Options(rate=given["rate"], unit=given["unit"])
    for name in (one["name"] for one in summary["signals"] if summary["skipped"] and not one["added"]):
        for option, stored, differs in _compared(store[name], options):
            if differs:
                yield (
                    f"is stored already in signal {name!r}, {stored}, and {option}= does not change that; import it "
                    "into another store, or delete that signal first"
                )


def _recorded(signal: Any, source: Source, options: Options) -> Iterator[tuple[str, str, bool]]:
    """What a stored signal was created with, and whether it differs, for each recorded option that is given."""
    stored = signal.attrs.get("import_options", {})
    for name, value in recorded_options(source, options).items():
        # Times without a zone are UTC.
        before = stored.get(name, "UTC" if name == "zone" else None)
        how = f"with {name}={before}" if name in stored else f"without {name}="
        yield name, f"which was created {how}", before != value


def _compared(signal: Any, options: Options) -> Iterator[tuple[str, str, bool]]:
    """What a stored signal has, and whether it differs, for each option that is given."""
    if options.rate is not None:
        stored = signal.rate.fraction
        yield "rate", f"with {float(stored):.9g} Hz", rates_differ(options.rate, stored)
    if options.unit is not None:
        unit = signal.unit
        yield "unit", f"with unit {unit}" if unit else "with no unit", options.unit != unit
    if options.start is not None:
        half_ns = 500_000_000 / float(signal.rate)
        starts = [run.start_time for run in signal.runs() if run.start_time is not None]
        is_near = any(abs(start.ns - options.start.ns) <= half_ns for start in starts)
        yield "start", f"with start {min(starts).isoformat()}" if starts else "with no civil time", not is_near
