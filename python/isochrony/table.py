"""Tables: named columns of equal length, as plans whose results are rows return them."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from .extras import require
from .native_errors import OptionError

if TYPE_CHECKING:
    from ._native import NativeTable

__all__ = ["Table"]

Column = npt.NDArray[Any]

# Rows that are printed before and after the dots.
_EDGE = 5


class Table(Mapping[str, Column]):
    """Named columns, each a 1-D NumPy array; read by name, converted where you need it.

    ``pyarrow.table(table)``, ``polars.DataFrame(table)`` and DuckDB take it as it is, by
    Arrow's stream interface; what a plan gathered crosses without a copy and needs no pyarrow
    on our side. Its columns are read-only, since they are shared. `to_pandas` and `to_numpy`
    convert.

    Parameters:
        columns: arrays of equal length by name.
        units: unit of a column, where it has one.

    >>> import numpy as np
    >>> table = Table({"start": np.array([0, 4]), "mean": np.array([1.5, 2.25])}, units={"mean": "kPa"})
    >>> table
     start  mean (kPa)
         0         1.5
         4        2.25
    [2 rows]
    >>> table["mean"].max()
    np.float64(2.25)
    """

    __slots__ = ("_columns", "_native", "_units")

    def __init__(self, columns: Mapping[str, Column], units: Mapping[str, str] | None = None) -> None:
        self._columns = {name: np.asarray(column) for name, column in columns.items()}
        self._units = {name: unit for name, unit in (units or {}).items() if unit}
        self._native: NativeTable | None = None
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise OptionError(f"columns of a table must be equally long, got {lengths}")

    @classmethod
    def _of(cls, native: NativeTable) -> Self:
        """The rows that a plan gathered."""
        table = cls({name: native.column(name) for name in native.names}, native.units)
        table._native = native
        return table

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self._columns)

    @property
    def units(self) -> dict[str, str]:
        """Unit of each column that has one."""
        return dict(self._units)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self._columns.values()), ()))

    def to_numpy(self) -> npt.NDArray[np.void]:
        """The table as one structured array, a copy."""
        out = np.empty(
            self.num_rows, [(name, column.dtype, column.shape[1:]) for name, column in self._columns.items()]
        )
        for name, column in self._columns.items():
            out[name] = column
        return out

    def to_pandas(self) -> Any:
        """The table as a pandas `DataFrame`.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        columns = {name: column if column.ndim == 1 else list(column) for name, column in self._columns.items()}
        return require("pandas", "a pandas DataFrame").DataFrame(columns)

    def to_arrow(self) -> Any:
        """The table as a `pyarrow.Table`; numbers are not copied.

        Raises:
            MissingExtraError: pyarrow is not installed (extra `table`).
        """
        pyarrow = require("pyarrow", "an Arrow table")
        if self._native is not None:
            return pyarrow.table(self._native)
        fields = [
            pyarrow.field(
                name,
                pyarrow.from_numpy_dtype(column.dtype),
                metadata={"unit": self._units[name]} if name in self._units else None,
            )
            for name, column in self._columns.items()
        ]
        arrays = [pyarrow.array(column) for column in self._columns.values()]
        return pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's stream interface: of gathered rows directly, of other tables by pyarrow."""
        if self._native is not None:
            return self._native.__arrow_c_stream__(requested_schema)
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """Arrow's schema interface."""
        if self._native is not None:
            return self._native.__arrow_c_schema__()
        return self.to_arrow().schema.__arrow_c_schema__()

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self.columns == other.columns and all(
            np.array_equal(self[name], other[name], equal_nan=self[name].dtype.kind == "f") for name in self.columns
        )

    __hash__ = None  # type: ignore[assignment]

    def _head(self) -> list[str]:
        return [f"{name} ({self._units[name]})" if name in self._units else name for name in self]

    def _rows(self) -> tuple[list[list[str]], bool]:
        """The cells that are shown, and whether rows in the middle are left out."""
        count = self.num_rows
        cut = count > 2 * _EDGE + 1
        shown = [*range(_EDGE), *range(count - _EDGE, count)] if cut else range(count)
        return [[_cell(column[row]) for column in self._columns.values()] for row in shown], cut

    def __repr__(self) -> str:
        head = self._head()
        rows, cut = self._rows()
        widths = [max(map(len, cells)) for cells in zip(head, *rows, strict=True)]
        lines = [" " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in (head, *rows)]
        if cut:
            lines.insert(1 + _EDGE, " " + "  ".join("...".rjust(w) for w in widths))
        return "\n".join([*lines, f"[{self.num_rows} rows]"])

    def _repr_html_(self) -> str:
        rows, cut = self._rows()
        body = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
        if cut:
            body.insert(_EDGE, "<td>…</td>" * len(self))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._head())
        lines = "".join(f"<tr>{line}</tr>" for line in body)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table><p>{self.num_rows:,} rows</p>"


def _cell(value: Any) -> str:
    if isinstance(value, np.floating):
        return f"{value:.6g}"
    return str(value)
