"""Tables: named columns of equal length, as plans whose results are rows return them."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
import numpy.typing as npt

from ..errors.native import OptionError
from ..extras import require
from ..options import flag, whole
from .arrow import arrow_array
from .columns import (
    Column,
    checked_columns,
    checked_slice,
    checked_units,
    column_names,
    equal_columns,
    read_only,
    sort_order,
)
from .text import as_html, as_text

if TYPE_CHECKING:
    from .._native import NativeTable

__all__ = ["Table", "TableIndexError", "TableKeyError"]


class TableKeyError(OptionError, KeyError):
    """The table has no column of that name."""

    code = "unknown_column"

    # KeyError prints the repr of its argument, which would quote a whole sentence.
    __str__ = Exception.__str__


class TableIndexError(OptionError, IndexError):
    """A row outside the table, or a mask that is not as long as the table."""

    code = "row_out_of_range"


class Table:
    """Named columns of equal length: ``t["max"]`` is a column, ``t[5]``, ``t[:5]`` and ``t[mask]`` are rows.

    Columns are NumPy arrays, shape (rows,), or (rows, values) for several values per row; times are datetime64[ns],
    UTC. A table does not change: its columns are read-only, and selecting or sorting returns a new one. Tables share
    memory, without a copy: those of plans with the engine, others with the arrays that they were made of, so do not
    change these afterwards.

    Tables are equal if they have the same columns, units and values in the same order; NaN equals NaN, NaT equals NaT.

    ``"max" in t``, `keys`, `items`, `values`, `get` and ``dict(t)`` are about columns; iteration gives rows as dicts.

    ``pandas.DataFrame(t)``, ``polars.DataFrame(t)``, ``pyarrow.table(t)`` and DuckDB accept a table; NumPy makes a
    structured array of it, a copy. The last three use Arrow's stream interface: times are timestamps with time zone
    UTC, complex numbers lists of two. For a plan's result this needs neither a copy nor pyarrow; for other tables it
    needs pyarrow. DuckDB needs pytz to return times as Python objects, as ``fetchall`` does. pandas reads row by row,
    so a table without rows gives a frame without columns; `to_pandas` is many times faster and keeps them.

    Parameters:
        columns: arrays of equal length by name. Times of other units are converted to nanoseconds.
        units: units by name of column, for columns that have one.

    Raises:
        OptionError: columns of different lengths, without a length, or with masked values; times that 64-bit
            nanoseconds cannot hold; a unit of a column that does not exist.

    >>> import numpy as np
    >>> from isochrony import Table
    >>> table = Table({"start": np.array([0, 4, 8]), "mean": np.array([1.5, 2.25, 0.5])}, units={"mean": "kPa"})
    >>> table
     start  mean (kPa)
         0         1.5
         4        2.25
         8         0.5
    [3 rows]
    >>> len(table), table.shape
    (3, (3, 2))
    >>> table["mean"].max()
    np.float64(2.25)
    >>> table[table["mean"] > 1]
     start  mean (kPa)
         0         1.5
         4        2.25
    [2 rows]
    >>> table.sort("mean", descending=True).head(1)["start"]
    array([4])
    >>> [int(row["start"]) for row in table]
    [0, 4, 8]
    """

    # Of a plan's result `_native` has the rows, nulls and types that NumPy does not have among them, and `_native_rows`
    # says which of them these are; None: all, in order.
    __slots__ = ("_columns", "_native", "_native_rows", "_units")

    def __init__(self, columns: Mapping[str, Column], units: Mapping[str, str] | None = None) -> None:
        self._columns = checked_columns(columns)
        self._units = checked_units(units, self._columns)
        self._native: NativeTable | None = None
        self._native_rows: npt.NDArray[np.int64] | None = None

    @classmethod
    def _of(cls, native: NativeTable) -> Self:
        """The result of a plan."""
        return cls._with({name: native.column(name) for name in native.names}, native.units, native)

    @classmethod
    def _with(
        cls,
        columns: Mapping[str, Column],
        units: Mapping[str, str],
        native: NativeTable | None = None,
        native_rows: npt.NDArray[np.int64] | None = None,
    ) -> Self:
        """A table of columns that need no check."""
        table = cls.__new__(cls)
        # A column that could be written would differ from what Arrow reads of the native rows.
        table._columns = {name: read_only(column) for name, column in columns.items()}
        table._units = {name: units[name] for name in columns if units.get(name)}
        table._native, table._native_rows = native, native_rows
        return table

    def _take(self, rows: slice | npt.NDArray[np.int64]) -> Self:
        """These rows, in this order."""
        native_rows = None
        if self._native is not None:
            native_rows = (np.arange(len(self)) if self._native_rows is None else self._native_rows)[rows]
        columns = {name: column[rows] for name, column in self._columns.items()}
        return self._with(columns, self._units, self._native, native_rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order: a tuple of str.

        >>> from isochrony import Table
        >>> table = Table({"start": [0, 4, 8], "mean": [1.5, 2.25, 0.5]}, units={"mean": "kPa"})
        >>> table.columns
        ('start', 'mean')
        """
        return tuple(self._columns)

    @property
    def units(self) -> dict[str, str]:
        """Units by name of column, for columns that have one.

        >>> from isochrony import Table
        >>> table = Table({"start": [0, 4, 8], "mean": [1.5, 2.25, 0.5]}, units={"mean": "kPa"})
        >>> table.units
        {'mean': 'kPa'}
        """
        return dict(self._units)

    @property
    def num_rows(self) -> int:
        """Number of rows, as ``len(table)``.

        >>> from isochrony import Table
        >>> table = Table({"start": [0, 4, 8], "mean": [1.5, 2.25, 0.5]}, units={"mean": "kPa"})
        >>> table.num_rows
        3
        """
        return len(self)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns.

        >>> from isochrony import Table
        >>> table = Table({"start": [0, 4, 8], "mean": [1.5, 2.25, 0.5]}, units={"mean": "kPa"})
        >>> table.shape
        (3, 2)
        """
        return len(self), len(self._columns)

    def keys(self) -> KeysView[str]:
        """Names of the columns.

        Returns:
            A view of the names, in order, as of `dict.keys`.

        >>> import numpy as np, isochrony as iso
        >>> table = iso.Table({"start": np.array([0, 4]), "max": np.array([3, 7])})
        >>> list(table.keys())
        ['start', 'max']
        """
        return self._columns.keys()

    def values(self) -> ValuesView[Column]:
        """Arrays of the columns.

        Returns:
            A view of the arrays, in order, as of `dict.values`: shape (rows,), or (rows, values) for several values per
            row; read-only.

        >>> import numpy as np, isochrony as iso
        >>> table = iso.Table({"start": np.array([0, 4]), "max": np.array([3, 7])})
        >>> [len(column) for column in table.values()]
        [2, 2]
        """
        return self._columns.values()

    def items(self) -> ItemsView[str, Column]:
        """Names and arrays of the columns.

        Returns:
            A view of pairs, in order, as of `dict.items`.

        >>> import numpy as np, isochrony as iso
        >>> table = iso.Table({"start": np.array([0, 4]), "max": np.array([3, 7])})
        >>> {name: column.max() for name, column in table.items()}
        {'start': np.int64(4), 'max': np.int64(7)}
        """
        return self._columns.items()

    def get(self, name: str, default: Any = None) -> Any:
        """The column of a name, without an error if there is none.

        Parameters:
            name: name of the column.
            default: result if there is no such column.

        Returns:
            An array, shape (rows,) or (rows, values), read-only; or `default`.

        >>> import numpy as np, isochrony as iso
        >>> table = iso.Table({"start": np.array([0, 4]), "max": np.array([3, 7])})
        >>> table.get("max"), table.get("min")
        (array([3, 7]), None)
        """
        return self._columns[name] if name in self else default

    def head(self, count: int = 5) -> Self:
        """The first rows: ``table[:count]``.

        Returns:
            A table of `count` rows, or of all if there are fewer; its columns are views.

        Parameters:
            count: number of rows, from 0.

        Raises:
            OptionError: `count` is not a whole number from 0.

        >>> import numpy as np, isochrony as iso
        >>> iso.Table({"start": np.arange(0, 800, 8)}).head(2)
         start
             0
             8
        [2 rows]
        """
        return self[: whole("head count=", count, "rows", 0)]

    def sort(self, *names: str, descending: bool = False) -> Self:
        """Sort rows by one column, or by several: rows with equal values in the first are sorted by the next.

        Returns:
            A table of the same rows. Rows with equal values keep their order; NaN and NaT are last in either direction.

        Parameters:
            names: names of columns with one value per row.
            descending: largest values first.

        Raises:
            OptionError: no name, a column with several values per row or with values that cannot be compared, or
                `descending` is neither True nor False.
            TableKeyError: no column of that name.

        >>> import numpy as np, isochrony as iso
        >>> table = iso.Table({"start": np.array([0, 4, 8]), "max": np.array([3, 7, 7])})
        >>> table.sort("max", descending=True)
         start  max
             4    7
             8    7
             0    3
        [3 rows]
        """
        flag("sort descending", descending)
        if not names:
            raise OptionError(f"sort() needs a column; give one of {self._named()}")
        order = np.arange(len(self))
        for name in reversed(names):
            column = self._column(name)
            if column.ndim != 1:
                raise OptionError(
                    f"sort({name!r}) is refused: a row has {column.shape[1:]} values; compute one, and sort by that"
                )
            try:
                order = order[sort_order(column[order], descending)]
            except TypeError as error:
                raise OptionError(f"sort({name!r}) is refused: {error}; give a column of comparable values") from error
        return self._take(order)

    def to_numpy(self) -> npt.NDArray[np.void]:
        """Convert the table to a structured array.

        Returns:
            A new array, shape (rows,), with a field per column; a field of several values per row is a subarray.

        >>> import numpy as np, isochrony as iso
        >>> table = iso.Table({"start": np.array([0, 4]), "max": np.array([3, 7])})
        >>> table.to_numpy()["max"]
        array([3, 7])
        """
        out = np.empty(len(self), [(name, column.dtype, column.shape[1:]) for name, column in self._columns.items()])
        for name, column in self._columns.items():
            out[name] = column
        return out

    def to_pandas(self) -> Any:
        """Convert the table to a pandas `DataFrame`.

        Returns:
            A `pandas.DataFrame` with the columns' dtypes. Times are datetime64[ns] in UTC, without a time zone. Columns
            with several values per row have dtype object, an array per row.

        Raises:
            MissingExtraError: pandas is not installed.

        >>> import numpy as np, isochrony as iso
        >>> table = iso.Table({"start": np.array([0, 4]), "max": np.array([3, 7])})
        >>> table.to_pandas()["max"].sum()
        np.int64(10)
        """
        columns = {name: column if column.ndim == 1 else list(column) for name, column in self._columns.items()}
        return require("pandas", "a pandas DataFrame").DataFrame(columns)

    def to_arrow(self) -> Any:
        """Convert the table to a `pyarrow.Table`. Numbers of a plan's result, and of tables of NumPy arrays, are not
        copied.

        Returns:
            A `pyarrow.Table` with columns of the same types. Times are ``timestamp[ns, UTC]``; NaT is null. Complex
            numbers and several values per row are lists of fixed size. Metadata of a field has its ``unit``.

        Raises:
            MissingExtraError: pyarrow is not installed (extra `table`).
            OptionError: a column has a dtype that Arrow lacks, such as complex256, or no values per row.

        >>> import numpy as np, isochrony as iso
        >>> table = iso.Table({"start": np.array([0, 4]), "max": np.array([3, 7])})
        >>> table.to_arrow().column_names
        ['start', 'max']
        """
        pyarrow = require("pyarrow", "an Arrow table")
        if self._native is not None:
            whole_table = pyarrow.table(self._native).select(list(self._columns))
            return whole_table if self._native_rows is None else whole_table.take(pyarrow.array(self._native_rows))
        arrays = [arrow_array(pyarrow, name, column) for name, column in self._columns.items()]
        fields = [
            pyarrow.field(name, array.type, metadata={"unit": self._units[name]} if name in self._units else None)
            for name, array in zip(self._columns, arrays, strict=True)
        ]
        return pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))

    def _arrow(self) -> Any:
        """An object with Arrow's interfaces: the native rows where these are all of them, or a `pyarrow.Table`."""
        is_whole = self._native is not None and self._native_rows is None and list(self._columns) == self._native.names
        return self._native if is_whole else self.to_arrow()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's stream interface: of a plan's result directly, of other tables by pyarrow."""
        return self._arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """Arrow's schema interface."""
        arrow = self._arrow()
        return getattr(arrow, "schema", arrow).__arrow_c_schema__()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface: the structured array of `to_numpy`, a new copy at each access."""
        # With `__array__` instead, pandas.DataFrame(table) would have one column of whole rows.
        rows = self.to_numpy()
        return {**rows.__array_interface__, "data": rows.view(np.uint8) if rows.size and rows.itemsize else b""}

    @overload
    def __getitem__(self, key: str) -> Column: ...
    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice | npt.NDArray[Any] | list[str] | list[int] | list[bool]) -> Self: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._column(key)
        if isinstance(key, slice):
            return self._take(checked_slice(key))
        names = column_names(key)
        if names is not None:
            return self._only(names)
        try:
            rows = np.asarray(key)
        except ValueError:
            # Lists of unequal length: refused below.
            rows = np.empty((0, 0))
        if rows.ndim == 0 and rows.dtype.kind in "iu":
            return {name: column[self._row(int(rows))] for name, column in self._columns.items()}
        is_masked = isinstance(key, np.ma.MaskedArray) and np.ma.is_masked(key)
        is_row_key = rows.ndim == 1 and (rows.dtype.kind in "biu" or not rows.size)
        if isinstance(key, tuple) or is_masked or not is_row_key:
            masked = " with masked values" if is_masked else ""
            shown = f"array of dtype {rows.dtype}, shape {rows.shape}{masked}" if hasattr(key, "dtype") else repr(key)
            raise OptionError(
                f"a table has no {shown}; give a column's name or a list of them, a row's number, a slice, an array of "
                "dtype bool with one value a row, or an array of rows' numbers of an integer dtype"
            )
        if rows.dtype.kind == "b":
            if len(rows) != len(self):
                raise TableIndexError(
                    f"the mask has {len(rows)} values, but the table has {len(self)} rows; give one True or False for "
                    "each row"
                )
            return self._take(np.flatnonzero(rows))
        for row in (rows.min(), rows.max()) if rows.size else ():
            self._row(int(row))
        return self._take(rows.astype(np.int64))

    def _column(self, name: object) -> Column:
        if not isinstance(name, str) or name not in self._columns:
            raise TableKeyError(f"the table has no column {name!r}; it has {self._named()}")
        return self._columns[name]

    def _only(self, names: list[str]) -> Self:
        """A table of some columns."""
        columns = {name: self._column(name) for name in names}
        if len(columns) < len(names):
            raise OptionError(f"columns {list(names)} repeat a name; give each name once")
        return self._with(columns, self._units, self._native, self._native_rows)

    def _row(self, row: int) -> int:
        if not -len(self) <= row < len(self):
            raise TableIndexError(f"row {row} is outside a table of {len(self)} rows")
        return row

    def _named(self) -> str:
        return ", ".join(self._columns) or "none"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in range(len(self)):
            yield {name: column[row] for name, column in self._columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._columns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return (
            self.columns == other.columns
            and self._units == other._units
            and all(equal_columns(self[name], other[name]) for name in self.columns)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The engine's rows cannot be pickled: what has no NumPy type, as null, arrives as NaN.
        return type(self), (dict(self._columns), dict(self._units))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return as_text(self._columns, self._units)

    def _repr_html_(self) -> str:
        return as_html(self._columns, self._units)
