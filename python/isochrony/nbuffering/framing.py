"""How a byte stream divides into records: options of `isochrony.nbuffer`, checked and as native code takes them."""

from __future__ import annotations

import re
from typing import Any

from ..errors.native import OptionError
from ..options import byte_count, number

__all__ = ["framing_options"]


def framing_options(stride: object, delimiter: object, prefix: object, max_length: object) -> dict[str, Any]:
    """The framing that the options state.

    Raises:
        OptionError: an option is illegal, or two contradict each other.
    """
    if delimiter is not None and prefix is not None:
        raise OptionError(
            "delimiter= and prefix= are two ways to tell where a record ends, and only one can be used; leave one of "
            "them out"
        )
    if max_length is not None and prefix is None:
        raise OptionError("max_length= limits the lengths of prefixes, and there is no prefix=; leave max_length= out")
    return {
        "stride": number("stride", stride, 1, "a whole number of bytes, from 1"),
        "delimiter": None if delimiter is None else _delimiter(delimiter),
        "prefix": None if prefix is None else _prefix(prefix),
        "max_length": None if max_length is None else byte_count("max_length", max_length, 0),
    }


def _delimiter(value: object) -> list[int]:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise OptionError(f'delimiter={value!r} is refused; give bytes, such as b"\\n" or b"\\r\\n"')
    return list(bytes(value))


def _prefix(text: object) -> tuple[int, bool]:
    """Bytes, and whether the most significant comes first; 0 bytes: a varint."""
    if text == "varint":
        return 0, False
    found = re.fullmatch(r"([<>]?)u([1248])", text) if isinstance(text, str) else None
    if not found or (not found[1] and found[2] != "1"):
        raise OptionError(
            f'prefix={text!r} is refused; give "u1", "<u2", ">u2", "<u4", ">u4", "<u8", ">u8" or "varint"'
        )
    return int(found[2]), found[1] == ">"
