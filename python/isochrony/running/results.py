"""Other forms of a plan's result, with index, time and gaps: ``collect(as_=...)``.

Only the engine knows the times of results, since operators change rates and delays. It writes them to column files, so
the columns of such a file are collected in memory and converted to the form.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors.native import PlanError
from ..extras import require
from ..functions.operators import Block, Break, Emitter, Factory, Operator, Port
from ..tables.columns import Column, join, read_only
from ..tables.files import TableBuffer
from ..tables.table import Table

if TYPE_CHECKING:
    from .._native import NativePlan, NativeTable
    from ..plan.plan import Plan

__all__ = ["FORMS", "Form", "LabelledResult"]

Form = Literal["numpy", "table", "xarray", "segments"]

FORMS = ("numpy", "table", "xarray", "segments")

# Columns with the position of a row, which come first, and the kinds of their dtypes.
_POSITION_COLUMNS = {"start": "i", "end": "i", "time": "M"}


class _Observer(Operator):
    """Records values, and where they are not contiguous."""

    def __init__(self, of: LabelledResult) -> None:
        self._of = of
        self.counts = of.counts
        self._rows = 0
        self._end: int | None = None

    def outputs(self, *inputs: Port) -> tuple[Port, ...]:
        self._of.port, self._of.ranges, self._of.begins = inputs[0], [], []
        self._of.rows_seen = 0
        return ()

    def process(self, block: Block, _emit: Emitter) -> None:
        if block.start != self._end:
            self._of.ranges.append([])
            self._of.begins.append(self._rows)
        self._of.ranges[-1].append(block.values)
        self._rows, self._end = self._rows + len(block.values), block.end

    def on_break(self, _why: Break, _emit: Emitter) -> None:
        self._end = None


class LabelledResult:
    """The result of a plan with labels: its index, time and gaps.

    Parameters:
        plan: whose result is wanted.
        form: "table", "xarray" or "segments".
        counts: samples as stored instead of values in their unit.

    Raises:
        PlanError: the plan gives a count, or "segments" of what is not samples; or a field has the name of a dimension
            of the `Dataset`.
    """

    def __init__(self, plan: Plan, form: str, *, counts: bool = False) -> None:
        self._plan, self._form, self.counts = plan, form, counts
        self.port: Port | None = None
        #: Values of each contiguous range, in blocks, and the number of the row at which it begins.
        self.ranges: list[list[Column]] = []
        self.begins: list[int] = []
        # Name of the column of values, and shape of a row's.
        self._value: tuple[str, tuple[int, ...]] | None = None
        #: Rows that the buffer was given.
        self.rows_seen = 0
        is_observed = plan.kind in ("samples", "frames")
        select = self._first_rows if form == "segments" else self._position_columns if is_observed else None
        self._buffer = TableBuffer(select)
        if plan.kind == "count":
            raise PlanError(f'collect(as_="{form}") is refused: a count is one number; leave out as_')
        if form == "segments" and plan.kind != "samples":
            kind = "windows" if plan.kind == "frames" else plan.kind
            raise PlanError(
                f'collect(as_="segments") is refused: segments are of samples, and the plan gives {kind}; give '
                'as_="table" or as_="xarray"'
            )
        if form == "xarray":
            require("xarray", "an xarray object")
            _check_dimensions(plan)

    def native(self) -> NativePlan:
        """The plan to execute: it fills the buffer; rows are collected as they are."""
        native = self._plan._native
        if self._plan.kind == "rows":
            return native
        if self._plan.kind != "ranges":
            native = native.operator(Factory(_Observer, {"of": self}), "values in their unit")
        return native.table_file("sink_parquet", json.dumps(self._buffer.options)).then("count")

    def _position_columns(self, batch: NativeTable) -> dict[str, Column]:
        """All columns but the last one, the stored values: the observer has them in their unit."""
        if self._value is None:
            self._value = batch.names[-1], batch.column(batch.names[-1]).shape[1:]
        return {name: batch.column(name) for name in batch.names[:-1]}

    def _first_rows(self, batch: NativeTable) -> dict[str, Column]:
        """Index and time of the samples at which segments begin: 16 bytes of each sample would outweigh the values."""
        begin, self.rows_seen = self.rows_seen, self.rows_seen + batch.num_rows
        # The observer comes before the buffer, so it knows all that begin in this batch.
        known = slice(bisect_left(self.begins, begin), bisect_left(self.begins, self.rows_seen))
        rows = np.array(self.begins[known], np.int64) - begin
        return {name: column[rows] for name, column in self._position_columns(batch).items()}

    def result(self, collected: Any) -> Any:
        """The form, from what the execution of `native` collected."""
        table = Table._of(collected) if self._plan.kind == "rows" else self._buffer.table()
        if self._form == "segments":
            return self._segments(table)
        if self.port is not None:
            table = self._with_values(table, self.port)
        return table if self._form == "table" else self._xarray(table)

    def _with_values(self, table: Table, port: Port) -> Table:
        """Positions, and the values in their unit."""
        assert self._value is not None
        name, shape = self._value
        parts = [np.empty((0, *shape), port.dtype)]
        parts += (part.reshape(-1, *shape) for some in self.ranges for part in some)
        self.ranges = []
        return Table._with({**dict(table), name: join(parts)}, {name: port.unit})

    def _segments(self, table: Table) -> list[Any]:
        from .._native import Segment, Time

        assert self.port is not None
        rate, name, unit = self._plan._native.rate, self.port.name or "", self.port.unit
        ranges, self.ranges = self.ranges, []
        segments = []
        for number, parts in enumerate(ranges):
            segment = Segment(read_only(join(parts)), int(table["index"][number]), rate=rate, name=name, unit=unit)
            segments.append(segment._with_time(Time(table["time"][number])) if "time" in table else segment)
        return segments

    def _xarray(self, table: Table) -> Any:
        if self.port is None:
            return self._dataset(table)
        xarray = require("xarray", "an xarray DataArray")
        values = table[table.columns[-1]]
        dims = ["time"]
        coords: dict[str, tuple[Any, ...]] = {name: ("time", table[name]) for name in table.columns[:-1]}
        if values.ndim == 2:
            frequencies = self._plan._native.frequencies
            is_spectrum = frequencies is not None and len(frequencies) == values.shape[1]
            dims.append("frequency" if is_spectrum else "value")
            if is_spectrum:
                coords["frequency"] = ("frequency", np.asarray(frequencies), {"units": "Hz"})
        attrs: dict[str, Any] = {"units": self.port.unit}
        if self._plan.kind == "samples":
            attrs["rate_hz"] = self.port.rate
        return xarray.DataArray(values, dims=dims, coords=coords, name=self.port.name, attrs=attrs)

    def _dataset(self, table: Table) -> Any:
        """Rows or ranges: a variable for each column, and their positions as coordinates."""
        xarray = require("xarray", "an xarray Dataset")
        variables: dict[str, tuple[Any, ...]] = {}
        for name, column in table.items():
            dims = ("row", *(f"{name}_value" for _ in column.shape[1:]))
            variables[name] = (dims, column, {"units": table.units[name]} if name in table.units else {})
        coords = {name: variables.pop(name) for name in _positions(table)}
        return xarray.Dataset(variables, coords=coords)


def _positions(table: Table) -> list[str]:
    """Leading columns with positions; a field of the user's that has such a name comes later, or is of another kind."""
    kinds = {name: column.dtype.kind for name, column in table.items() if column.ndim == 1}
    return list(takewhile(lambda name: kinds.get(name) == _POSITION_COLUMNS.get(name, "none"), table.columns))


def _check_dimensions(plan: Plan) -> None:
    # xarray would make an index of a field that has the name of a dimension.
    fields = plan._native.fields() or []
    dims = {"row", *(f"{name}_value" for name, _, width in fields if width is not None)}
    for name, _, _ in fields:
        if name in dims:
            raise PlanError(
                f'collect(as_="xarray") is refused: field {name!r} has the name of a dimension of the Dataset; rename '
                'it, or give as_="table"'
            )
