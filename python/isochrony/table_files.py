"""Files of columns, written while a plan runs: Parquet and Arrow IPC; and the same columns, gathered in memory."""

from __future__ import annotations

import contextlib
import json
import secrets
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .extras import require
from .native_errors import OptionError
from .table import Table
from .writing import OutputFile

if TYPE_CHECKING:
    from ._native import NativeTable

__all__ = ["GatheredTable", "TableFile"]

# What waits to be written together: memory stays below it, and groups of rows become no smaller than need be.
_BYTES = 64 << 20


class GatheredTable:
    """What a run would write to a file, gathered in memory: `NativePlan.table_file` takes its `options`."""

    #: Those that exist, by what their options name them. Nothing else can name one: a saved plan least of all.
    _WAITING: ClassVar[weakref.WeakValueDictionary[str, GatheredTable]] = weakref.WeakValueDictionary()

    def __init__(self) -> None:
        self._batches: list[NativeTable] = []
        self._key = secrets.token_hex(16)
        self._WAITING[self._key] = self

    @property
    def options(self) -> dict[str, str]:
        """The options of the operator that fills it."""
        return {"path": "memory", "gathered": self._key}

    @classmethod
    def of(cls, options: dict[str, Any], empty: NativeTable) -> GatheredTable:
        """The one that options name, at the beginning of a run."""
        table = cls._WAITING.get(str(options["gathered"]))
        if table is None:
            raise OptionError(f"gathered={options['gathered']!r} is refused; give a path alone")
        table._batches = [empty]
        return table

    def write(self, batch: NativeTable) -> None:
        """Take rows."""
        self._batches.append(batch)

    def finish(self) -> None:
        """All came."""

    def abandon(self) -> None:
        """The run failed: forget what came."""
        self._batches = []

    def table(self) -> Table:
        """All rows as a table; the batches are given up."""
        first = self._batches[0]
        columns = {name: np.concatenate([one.column(name) for one in self._batches]) for name in first.names}
        self._batches = []
        for column in columns.values():
            column.flags.writeable = False
        return Table(columns, first.units)


class TableFile:
    """A file that a run writes; it has its name once all is written.

    Parameters:
        kind: ``"sink_parquet"`` or ``"sink_ipc"``.
        options: a JSON object: path, compression, row_group_size, keep_partial.
        empty: no rows, of the schema that the batches will have.
    """

    def __new__(cls, _kind: str, options: str, empty: NativeTable) -> Any:
        """The native half asks for a file; where the options name a table in memory, that is what it gets."""
        asked = json.loads(options)
        return GatheredTable.of(asked, empty) if "gathered" in asked else super().__new__(cls)

    def __init__(self, kind: str, options: str, empty: NativeTable) -> None:
        self._pyarrow = require("pyarrow", "writing Parquet and Arrow files")
        asked = json.loads(options)
        self._path = Path(asked["path"])
        self._rows_a_group = int(asked.get("row_group_size") or 1 << 20)
        self._keep_partial = bool(asked.get("keep_partial"))
        self._waiting: list[Any] = []
        self._rows = self._bytes = self._written = 0
        self._schema = self._pyarrow.table(empty).schema
        compression = asked.get("compression") or "none"
        # Two runs may write files of one name: each has its own until it is done.
        self._file = OutputFile(self._path, replace=True)
        try:
            if kind == "sink_parquet":
                parquet = require("pyarrow.parquet", "writing Parquet")
                self._writer = parquet.ParquetWriter(self._file, self._schema, compression=compression)
            else:
                ipc = require("pyarrow.ipc", "writing Arrow files")
                how = ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
                self._writer = ipc.new_file(self._file, self._schema, options=how)
        except BaseException:
            self._drop()
            raise

    def write(self, batch: NativeTable) -> None:
        """Take rows; they are written in groups."""
        for one in self._pyarrow.table(batch).to_batches():
            self._waiting.append(one)
            self._rows += one.num_rows
            self._bytes += one.nbytes
        if self._rows >= self._rows_a_group or self._bytes >= _BYTES:
            self._flush()

    def finish(self) -> None:
        """All came: give the file its name."""
        self._end(self._path)

    def abandon(self) -> None:
        """The run failed: remove what was written, or leave it under a name that says what it is."""
        if self._keep_partial and self._written + self._rows > 0:
            # A full disk cannot hold the end of the file either; then nothing is left.
            with contextlib.suppress(OSError):
                self._end(self._path.with_name(f"{self._path.stem}.partial{self._path.suffix}"))
                return
        self._drop()

    def _flush(self) -> None:
        if not self._rows:
            return
        table = self._pyarrow.Table.from_batches(self._waiting, self._schema)
        self._written += self._rows
        self._waiting, self._rows, self._bytes = [], 0, 0
        try:
            self._writer.write_table(table)
        except Exception as error:
            # Arrow says it in words of its own.
            if self._file.failure is not None:
                raise self._file.failure from error
            raise

    def _end(self, name: Path) -> None:
        try:
            self._flush()
            self._writer.close()
            self._file.commit(name)
        except BaseException as error:
            failure = self._file.failure
            self._drop()
            if failure is not None and not isinstance(error, KeyboardInterrupt):
                raise failure from error
            raise

    def _drop(self) -> None:
        # Closing the writer would write the end of the file, for which a full disk has no room.
        self._file.discard()
        with contextlib.suppress(Exception):
            self._writer.close()
