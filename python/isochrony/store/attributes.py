"""User attributes of a store or a signal: a dict that writes itself back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from datetime import date
from typing import Any, Protocol

import numpy as np

from ..errors.native import StoreValueError

__all__ = ["Attributes", "to_json"]


class _Owner(Protocol):
    def _attributes(self) -> dict[str, Any]: ...

    def _set_attributes(self, attributes: Mapping[str, Any]) -> None: ...


class Attributes(MutableMapping[str, Any]):
    """Metadata as key and JSON value, kept beside the samples in ``zarr.json``.

    Reading shows the newest state. Setting or deleting a key needs a store that is
    open for writing; those of a signal are durable with the next commit, those of
    a store at once.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: _Owner) -> None:
        self._owner = owner

    def __getitem__(self, key: str) -> Any:
        return self._owner._attributes()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._owner._set_attributes({**self._owner._attributes(), key: value})

    def __delitem__(self, key: str) -> None:
        have = self._owner._attributes()
        del have[key]
        self._owner._set_attributes(have)

    def update(self, *others: Any, **more: Any) -> None:
        """Set several keys in one step."""
        self._owner._set_attributes({**self._owner._attributes(), **dict(*others, **more)})

    def __iter__(self) -> Iterator[str]:
        return iter(self._owner._attributes())

    def __len__(self) -> int:
        return len(self._owner._attributes())

    def __repr__(self) -> str:
        return repr(self._owner._attributes())


def to_json(value: Any) -> str:
    """JSON text; NumPy numbers and arrays become lists and numbers, times ISO 8601 text.

    Raises:
        StoreValueError: anything that JSON has no form for, NaN included.
    """
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as cause:
        raise StoreValueError(
            f"attributes are refused: {cause}; give text, numbers, booleans, None, lists and dicts of them"
        ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if type(value).__name__ == "Time":
        return value.isoformat()
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON")
