"""Column files, written while a plan is executed (Parquet, Arrow IPC), and the same columns in memory."""

from __future__ import annotations

import contextlib
import json
import secrets
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors.native import OptionError
from ..extras import require
from ..output.files import OutputFile
from .columns import Column, join
from .table import Table

if TYPE_CHECKING:
    from .._native import NativeTable

__all__ = ["TableBuffer", "TableFile"]

# Most bytes that wait to be written as one row group: it bounds memory, and larger groups are read faster.
_BYTES = 64 << 20


class TableBuffer:
    """The columns of a file, in memory: `NativePlan.table_file` takes its `options`.

    Parameters:
        select: the columns that are kept of a batch, or rows of them; default: all.
    """

    #: Buffers by the random key in their options, so that no saved plan can name one.
    _BY_KEY: ClassVar[weakref.WeakValueDictionary[str, TableBuffer]] = weakref.WeakValueDictionary()

    def __init__(self, select: Callable[[NativeTable], dict[str, Column]] | None = None) -> None:
        self._select = select or (lambda batch: {name: batch.column(name) for name in batch.names})
        self._parts: dict[str, list[Column]] = {}
        self._units: dict[str, str] = {}
        self._key = secrets.token_hex(16)
        self._BY_KEY[self._key] = self

    @property
    def options(self) -> dict[str, str]:
        """Options of the operator that fills it."""
        return {"path": "memory", "gathered": self._key}

    @classmethod
    def of(cls, options: dict[str, Any], empty: NativeTable) -> TableBuffer:
        """The buffer that options name, emptied for an execution."""
        buffer = cls._BY_KEY.get(str(options["gathered"]))
        if buffer is None:
            raise OptionError(f"gathered={options['gathered']!r} is refused; leave out gathered= and give only path=")
        buffer._parts, buffer._units = {}, empty.units
        buffer.write(empty)
        return buffer

    def write(self, batch: NativeTable) -> None:
        """Add rows."""
        for name, column in self._select(batch).items():
            self._parts.setdefault(name, []).append(column)

    def finish(self) -> None:
        """The execution is complete."""

    def abandon(self) -> None:
        """The execution failed: drop the rows."""
        self._parts = {}

    def table(self) -> Table:
        """All rows as a table; the buffer is empty afterwards."""
        parts, self._parts = self._parts, {}
        return Table._with({name: join(some) for name, some in parts.items()}, self._units)


class TableFile:
    """A file that gets its name once all rows are written.

    Parameters:
        kind: ``"sink_parquet"`` or ``"sink_ipc"``.
        options: a JSON object: path, compression, row_group_size, keep_partial.
        empty: no rows, of the schema that the batches will have.
    """

    def __new__(cls, _kind: str, options: str, empty: NativeTable) -> Any:
        """Returns the buffer that the options name, if any: native code finds this class by name and calls it."""
        asked = json.loads(options)
        return TableBuffer.of(asked, empty) if "gathered" in asked else super().__new__(cls)

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
        # Two executions may write files of one name: each has its own until it is done.
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
        """Add rows; they are written in groups."""
        for one in self._pyarrow.table(batch).to_batches():
            self._waiting.append(one)
            self._rows += one.num_rows
            self._bytes += one.nbytes
        if self._rows >= self._rows_a_group or self._bytes >= _BYTES:
            self._flush()

    def finish(self) -> None:
        """The execution is complete: give the file its name."""
        self._end(self._path)

    def abandon(self) -> None:
        """The execution failed: remove the file, or keep it as ``NAME.partial.SUFFIX``."""
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
            # Arrow raises its own error; raise that of the file instead.
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
