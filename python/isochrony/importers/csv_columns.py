"""Types of the value columns of delimited text, decided by all of their rows.

A column is of whole numbers if all of its values are, of booleans likewise, else of floats, also where the first value
with a point comes after a million without. No number is changed by that: whole numbers that neither 64 bits nor a
double can hold are refused with their row. Missing values are the texts of `MISSING`, also with
blanks around them; a column of whole numbers that has any is one of floats, which have NaN for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import BadSourceError
from ..extras import require
from .columns import shown_value

__all__ = ["MISSING", "ColumnKind", "Kinds", "convert"]

# Of what Arrow takes for missing, all that is no float.
MISSING = ["", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "NULL", "n/a", "null", "None"]
# Above, a double does not hold every whole number.
_EXACT = 1 << 53
_LONGEST = 1 << 63
_MOST_DIGITS = 60
# Types that hold the values of a type, the narrowest first; of a column without values yet, too.
_WIDER = {"": ("int64", "bool", "double"), "int64": ("int64", "double"), "bool": ("bool",), "double": ("double",)}
_WHOLE = re.compile(r"[+-]?\d+")


def convert(pyarrow: Any, texts: Any, kind: str) -> Any:
    """A column of text as numbers; `kind` is ``int64``, ``bool`` or ``double``.

    Raises:
        pyarrow.ArrowInvalid: a text that is none.
    """
    compute = require("pyarrow.compute", "reading tables")
    texts = compute.utf8_trim_whitespace(texts)
    missing = compute.is_in(texts, value_set=pyarrow.array(MISSING))
    texts = compute.if_else(missing, pyarrow.scalar(None, pyarrow.string()), texts)
    # Arrow takes no sign in front of positive numbers, and 0x1F for 31, which no table of measurements says.
    texts = compute.replace_substring_regex(texts, r"^\+([^+-])", r"\1")
    if kind == "int64" and compute.any(compute.match_substring(texts, "x", ignore_case=True)).as_py():
        raise pyarrow.ArrowInvalid("a number with other digits than decimal ones")
    return texts.cast({"int64": pyarrow.int64(), "bool": pyarrow.bool_(), "double": pyarrow.float64()}[kind])


def _converts(pyarrow: Any, texts: Any, kind: str) -> bool:
    """Whether all of these texts are values of a kind."""
    try:
        convert(pyarrow, texts, kind)
    except pyarrow.ArrowInvalid:
        return False
    return True


class ColumnKind:
    """The type of one column so far."""

    __slots__ = ("_large", "_last", "has_missing", "jump", "kind", "name", "rises")

    def __init__(self, name: str) -> None:
        self.name = name
        # Empty: no value yet.
        self.kind = ""
        # Whole numbers that a double does not hold: the row of the first one, and its text.
        self._large: tuple[int, str] | None = None
        self.has_missing = False
        # For a column of sample numbers.
        self.rises = True
        self.jump: int | None = None
        self._last: int | None = None

    def take(self, pyarrow: Any, texts: Any, row: int) -> None:
        """Take in the rows from `row` on.

        Raises:
            BadSourceError: a text that is no number, or a number that no type holds.
        """
        self.has_missing = self.has_missing or texts.null_count > 0
        if texts.null_count == len(texts):
            return
        for kind in _WIDER[self.kind]:
            try:
                values = convert(pyarrow, texts, kind)
            except pyarrow.ArrowInvalid:
                continue
            break
        else:
            raise self._mixed(pyarrow, texts, row)
        self.has_missing = self.has_missing or values.null_count > 0
        if kind == "bool" or (kind == "int64" and values.null_count == len(values)):
            self.kind = kind if kind == "bool" else self.kind
            return
        self._look_for_large(texts, values, row)
        if kind == "int64":
            self._look_for_steps(values, row)
        self.kind = kind
        if kind == "double":
            self.rises = False
            self._refuse_large("numbers with a decimal point")

    def finish(self) -> None:
        """No more rows come.

        Raises:
            BadSourceError: whole numbers beside missing values that no float holds.
        """
        if self.kind == "int64" and self.has_missing:
            self._refuse_large("missing values")
            self.kind = "double"

    def _refuse_large(self, beside: str) -> None:
        if self._large is not None:
            at, text = self._large
            raise BadSourceError(
                f"column {self.name!r} has {beside}, so it is stored as 64-bit floats, which cannot hold the number in "
                f"row {at} exactly ({text}); round that number, or leave out this column by listing the others in "
                "columns="
            )

    def _mixed(self, pyarrow: Any, texts: Any, row: int) -> BadSourceError:
        """The error of a column with a value that is none of its type, which names the first such value."""
        given = next(text.strip() for text in texts.to_pylist() if text is not None and text.strip() not in MISSING)
        of_booleans = self.kind == "bool" or (not self.kind and given.lower() in ("true", "false"))
        kind = "bool" if of_booleans else "double"
        # As many rows as convert: one row more does not.
        low, high = 0, len(texts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _converts(pyarrow, texts.slice(0, middle), kind) else (low, middle)
        what = "holds booleans, and another value" if of_booleans else "holds text, not numbers"
        return BadSourceError(
            f"column {self.name!r} {what} (row {row + low}: {shown_value(texts[low].as_py())}); correct it, or leave "
            "out this column by listing the others in columns="
        )

    def _look_for_large(self, texts: Any, values: Any, row: int) -> None:
        compute = require("pyarrow.compute", "reading tables")
        limit = float(_EXACT) if str(values.type) == "double" else _EXACT
        magnitude = compute.abs(values) if str(values.type) == "double" else values
        beyond = compute.or_kleene(compute.greater_equal(magnitude, limit), compute.less_equal(magnitude, -limit))
        if not compute.any(beyond).as_py():
            return
        for at in compute.indices_nonzero(beyond.fill_null(False)).to_pylist():
            text = str(texts[at]).strip()
            if not _WHOLE.fullmatch(text):
                continue
            # Python refuses to read thousands of digits.
            if len(text) > _MOST_DIGITS or not -_LONGEST <= int(text) < _LONGEST:
                shown = text if len(text) <= _MOST_DIGITS else shown_value(text)
                as_float = (
                    f"write it as a float, such as {float(text):.6e}" if np.isfinite(float(text)) else "correct it"
                )
                raise BadSourceError(
                    f"column {self.name!r} has a whole number beyond the 64 bits that a store holds (row {row + at}: "
                    f"{shown}); {as_float}, or drop the column"
                )
            if self._large is None and int(float(text)) != int(text):
                self._large = (row + at, text)

    def _look_for_steps(self, values: Any, row: int) -> None:
        if not self.rises:
            return
        if values.null_count:
            self.rises = False
            return
        numbers = values.to_numpy()
        second = row + 1
        if self._last is not None:
            numbers, second = np.concatenate(([self._last], numbers)), row
        # Compared, since the difference of two numbers may be beyond 64 bits.
        self.rises = bool((numbers[1:] > numbers[:-1]).all())
        jumps = np.flatnonzero(numbers[1:] != numbers[:-1] + 1)
        if self.jump is None and len(jumps):
            self.jump = second + int(jumps[0])
        self._last = int(numbers[-1])


class Kinds:
    """The types of all value columns of a file."""

    def __init__(self, names: list[str]) -> None:
        self._columns = {name: ColumnKind(name) for name in names}

    def take(self, pyarrow: Any, batches: Iterator[tuple[int, Any]], places: dict[str, int]) -> None:
        """Look at all rows: batches with the number of their first row."""
        for row, table in batches:
            for name, column in self._columns.items():
                column.take(pyarrow, table.column(places[name]), row)
        for column in self._columns.values():
            column.finish()

    def of(self, name: str) -> str:
        """Type of a column: ``int64``, ``bool``, ``double``, or empty for a column without values."""
        return self._columns[name].kind

    def jump(self, name: str) -> int | None:
        """The first row whose whole number is not one more than that of the row before; None if there is none."""
        return self._columns[name].jump

    def rises(self, name: str) -> bool:
        """Whether a column is of whole numbers of which each is greater than the one before."""
        return self._columns[name].kind == "int64" and self._columns[name].rises
