"""What a function is, as text that is the same in every process: so that a run that goes on notices other functions.

A function is its code, its defaults and what it encloses; a `functools.partial` its arguments, too. Left out is what
has no stable text: functions and globals that it calls by name, objects of extension modules that show an address.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import re
import types
import weakref
from typing import Any

import numpy as np

__all__ = ["identity"]

# Versions of Python compile to other code: then tasklets are run again.
_CODE = ("co_code", "co_exceptiontable", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags")
_COUNTS = ("co_argcount", "co_posonlyargcount", "co_kwonlyargcount")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), range, slice, np.generic, np.dtype)

# Large arrays are read once, not once a tasklet: what is changed in one later is not noticed in this process.
_LARGE = 1 << 20
_large: dict[int, tuple[weakref.ref[Any], bytes]] = {}

# Code never changes, and thousands of tasklets have the same.
_codes: weakref.WeakKeyDictionary[types.CodeType, bytes] = weakref.WeakKeyDictionary()

# Of functions that are made of nothing but these, code included: what they were made of when they were looked at.
_FIXED = frozenset((types.CodeType, type(None), bool, int, float, complex, str, bytes))
_functions: weakref.WeakKeyDictionary[types.FunctionType, tuple[tuple[Any, ...], bytes, str]] = (
    weakref.WeakKeyDictionary()
)


def identity(work: object) -> str:
    """A number of 128 bits in hexadecimal digits; other functions, arguments or texts have others.

    >>> import functools
    >>> def scaled(inputs, outputs, by): ...
    >>> identity(functools.partial(scaled, by=2)) == identity(functools.partial(scaled, by=2))
    True
    >>> identity(functools.partial(scaled, by=2)) == identity(functools.partial(scaled, by=3))
    False
    """
    if type(work) is types.FunctionType:
        # Most tasklets have the function of the one before.
        known = _functions.get(work)
        if known is not None and _is_same(known[0], work):
            return known[2]
    return _Met().digest(work).hex()


class _Met:
    """Objects that were met on the way, each of which is looked at once: some hold half of all that there is."""

    _DEEPEST = 40

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, bytes]] = {}
        self._depth = 0

    def digest(self, value: Any) -> bytes:
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        if self._depth == self._DEEPEST:
            return _hashed("deep")
        # Kept with the object, whose number another might get otherwise; of a circle there is nothing more to say.
        self._known[id(value)] = (value, _hashed("circle"))
        self._depth += 1
        found = _of(value, self)
        self._depth -= 1
        self._known[id(value)] = (value, found)
        return found


def _of(value: Any, met: _Met) -> bytes:
    def parts(*several: Any) -> list[bytes]:
        return [met.digest(one) for one in several]

    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, _PLAIN):
        return _hashed(kind, repr(value).encode(errors="surrogatepass"))
    if isinstance(value, types.CodeType):
        found = _codes.get(value)
        if found is None:
            found = _hashed("code", *parts(*(getattr(value, one, 0) for one in (*_CODE, *_COUNTS)), value.co_consts))
            _codes[value] = found
        return found
    if isinstance(value, types.FunctionType):
        return _function(value, met)
    if isinstance(value, types.MethodType):
        return _hashed("method", *parts(value.__func__, value.__self__))
    if isinstance(value, functools.partial):
        return _hashed("partial", *parts(value.func, value.args, value.keywords))
    if isinstance(value, type | types.BuiltinFunctionType | types.ModuleType | np.ufunc):
        named = f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', value.__name__)}"
        return _hashed(kind, named.encode())
    if isinstance(value, np.ndarray):
        return _array(value, met)
    if isinstance(value, tuple | list):
        return _hashed(kind, *parts(*value))
    if isinstance(value, set | frozenset):
        return _hashed(kind, *sorted(parts(*value)))
    if isinstance(value, dict):
        return _hashed(kind, *sorted(_hashed("item", *parts(key, one)) for key, one in value.items()))
    return _object(kind, value, met)


def _function(value: types.FunctionType, met: _Met) -> bytes:
    known = _functions.get(value)
    if known is not None and _is_same(known[0], value):
        return known[1]
    enclosed = tuple(_cell(cell) for cell in value.__closure__ or ())
    parts = (value.__code__, value.__defaults__, value.__kwdefaults__, enclosed)
    found = _hashed("function", *(met.digest(one) for one in parts))
    made_of = _made_of(value)
    if not value.__kwdefaults__ and all(type(one) in _FIXED for one in made_of):
        _functions[value] = (made_of, found, found.hex())
    return found


def _made_of(value: types.FunctionType) -> tuple[Any, ...]:
    return (value.__code__, *(value.__defaults__ or ()), *map(_cell, value.__closure__ or ()))


def _is_same(before: tuple[Any, ...], value: types.FunctionType) -> bool:
    """Whether a function is still made of the same objects, none of which can change."""
    if value.__closure__ is None and value.__defaults__ is None and value.__kwdefaults__ is None:
        return len(before) == 1 and before[0] is value.__code__
    now = _made_of(value)
    return len(now) == len(before) and not value.__kwdefaults__ and all(map(operator.is_, now, before))


def _object(kind: str, value: Any, met: _Met) -> bytes:
    """Of its class what it does when it is called, and its attributes; else what it shows, without addresses."""
    called = getattr(type(value), "__call__", None)  # noqa: B004
    code = called if isinstance(called, types.FunctionType) else None
    slots = [one for each in type(value).__mro__ for one in _names(each.__dict__.get("__slots__", ()))]
    attributes = {one: getattr(value, one) for one in slots if hasattr(value, one)} | getattr(value, "__dict__", {})
    if attributes or code is not None:
        return _hashed(kind, met.digest(code), met.digest(attributes))
    if type(value).__module__.partition(".")[0] == "isochrony":
        # Signals and selections show how many samples they have, which runs change.
        shown = [str(getattr(value, one, "")) for one in ("name", "ranges", "uuid")]
        return _hashed(kind, *(one.encode() for one in shown))
    try:
        text = repr(value)
    except Exception:
        text = ""
    return _hashed(kind, _ADDRESS.sub("", text).encode(errors="surrogatepass"))


def _names(slots: Any) -> tuple[str, ...]:
    several = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(one for one in several if one not in ("__weakref__", "__dict__"))


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _array(value: np.ndarray[Any, Any], met: _Met) -> bytes:
    known = _large.get(id(value))
    if known is not None and known[0]() is value:
        return known[1]
    about = f"{value.dtype.str}{value.shape}".encode()
    if value.dtype.hasobject:
        return _hashed("array", about, met.digest(value.tolist()))
    found = _hashed("array", about, np.ascontiguousarray(value).tobytes())
    if value.nbytes >= _LARGE:
        key = id(value)
        _large[key] = (weakref.ref(value, lambda _: _large.pop(key, None)), found)
    return found


def _hashed(kind: str, *parts: bytes) -> bytes:
    """Each part with its length, so that no two sequences of parts are the same bytes."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in (kind.encode(), *parts):
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.digest()
