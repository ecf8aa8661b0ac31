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
    """Attributes of a store or a signal: a mapping of text to JSON values, stored in ``zarr.json`` beside the samples.

    Reading shows the newest state. Values may be text, numbers, booleans, None, lists and dicts of them; NumPy arrays
    and numbers are stored as lists and numbers, dates and times as ISO 8601 text. Changes of a signal's attributes are
    durable with the next commit, those of a store's at once.

    Raises:
        KeyError: when a key is read or deleted that does not exist.
        StoreError: when a key is set or deleted: the store is open for reading, the value has no JSON form (NaN
            included), or the key is reserved.

    >>> import isochrony as iso, tempfile
    >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    >>> store.attrs["operator"] = "city water works"
    >>> store.attrs["operator"], "campaign" in store.attrs
    ('city water works', False)
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
        """Set several keys in one step: either all are stored, or none.

        Parameters:
            others: at most one mapping, or iterable of pairs of key and value.
            more: further keys, by keyword.

        Raises:
            StoreError: the store is open for reading, a value has no JSON form (NaN included), or a key is reserved.

        >>> import isochrony as iso, tempfile
        >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
        >>> store.attrs.update({"campaign": 2010}, contact=None)
        >>> dict(store.attrs)
        {'campaign': 2010, 'contact': None}
        """
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
