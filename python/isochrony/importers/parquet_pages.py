"""Sizes of the pages of a Parquet file, so that none is decoded that memory is not meant for.

A column of a row group is a sequence of pages, and pyarrow decodes a page as a whole. It tells the size of a column,
not of its pages: where a column is large, the headers of its pages are read here.

Source: the Parquet format's `parquet.thrift` (PageHeader), in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import BadSourceError

__all__ = ["MOST_PAGE_BYTES", "check_pages"]

# Writers make pages of 1 MiB by default; some make one page of a whole row group, tens of millions of values.
MOST_PAGE_BYTES = 512 << 20

_HEADER_BYTES = 1 << 10
# Statistics of long texts are part of a header.
_MOST_HEADER_BYTES = 16 << 20
_DEEPEST = 16

_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _MAP, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 11, 12
_UNCOMPRESSED_SIZE, _COMPRESSED_SIZE = 2, 3


def check_pages(path: Path, metadata: Any, columns: Container[str]) -> None:
    """Refuse a file with a page that is too large.

    Parameters:
        path: of the file.
        metadata: as pyarrow reads it.
        columns: names of those that will be read.

    Raises:
        BadSourceError: a page of one of the columns holds more than `MOST_PAGE_BYTES` once it is decompressed.
    """
    with path.open("rb") as file:
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for place in range(group.num_columns):
                chunk = group.column(place)
                name = chunk.path_in_schema.partition(".")[0]
                if name not in columns or chunk.total_uncompressed_size <= MOST_PAGE_BYTES:
                    continue
                for size in _page_sizes(file, chunk):
                    if size > MOST_PAGE_BYTES:
                        raise BadSourceError(
                            f"has a page of {size} bytes in column {name!r} of row group {number}, and at most "
                            f"{MOST_PAGE_BYTES} are decoded at once; write it again with smaller pages "
                            "(pyarrow: data_page_size=2**20)"
                        )


def _page_sizes(file: BinaryIO, chunk: Any) -> Iterator[int]:
    """Bytes of each page of a column of a row group once it is decompressed."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        at = min(at, chunk.dictionary_page_offset)
    end = at + chunk.total_compressed_size
    while at < end:
        size, compressed, length = _page_header(file, at)
        yield size
        at += length + max(compressed, 0)


def _page_header(file: BinaryIO, at: int) -> tuple[int, int, int]:
    """Uncompressed size and compressed size of a page, and the length of its header."""
    window = _HEADER_BYTES
    while window <= _MOST_HEADER_BYTES:
        file.seek(at)
        data = file.read(window)
        try:
            reader = _Compact(data)
            found = reader.integers()
            return found[_UNCOMPRESSED_SIZE], found[_COMPRESSED_SIZE], reader.at
        except IndexError:
            if len(data) < window:
                break
            window *= 16
        except (KeyError, ValueError):
            break
    raise BadSourceError(f"is damaged at byte {at}: no page begins there; fetch it again, or leave it out")


class _Compact:
    """A reader of Thrift's compact protocol. Data that end too early are an `IndexError`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def integers(self) -> dict[int, int]:
        """The integers of the structure that begins here, by field number; all else is passed over."""
        found: dict[int, int] = {}
        for number, kind in self._fields():
            if kind in _INTEGERS:
                found[number] = self._zigzag()
            else:
                self._skip(kind, 0)
        return found

    def _fields(self) -> Iterator[tuple[int, int]]:
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            yield number, head & 15

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("an integer has more than 64 bits")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _pass(self, length: int) -> None:
        self.at += length
        if self.at > len(self._data):
            raise IndexError

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError(f"values are nested deeper than {_DEEPEST}")
        if kind in _BOOLEANS:
            return
        if kind == _BYTE:
            self._pass(1)
        elif kind in _INTEGERS:
            self._varint()
        elif kind == _DOUBLE:
            self._pass(8)
        elif kind == _BINARY:
            self._pass(self._varint())
        elif kind in _LISTS:
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            for _ in range(count):
                # In a list a boolean is a byte.
                self._skip(_BYTE if head & 15 in _BOOLEANS else head & 15, depth + 1)
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip(kinds >> 4, depth + 1)
                self._skip(kinds & 15, depth + 1)
        else:
            raise ValueError(f"there is no type {kind}")
