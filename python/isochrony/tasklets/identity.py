"""What a function is, as text that is the same in every process: so that a continued run notices other functions.

A function is its code, its defaults, its attributes and what it captures; a `functools.partial` its arguments, too. An
object is its attributes, or what its pickle is made of. Left out are functions and globals that a function calls by
name. What has neither attributes nor a pickle has no identity, and neither has a function that captures it.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import io
import operator
import re
import threading
import types
import weakref
from typing import Any

import numpy as np

from .._former_paths import former_path
from ..steps.chain import Chain
from ..tables.table import Table
from .plans import known as known_plan

__all__ = ["NoIdentityError", "forget", "identity"]

# Versions of Python compile to other code: then tasklets are run again.
_CODE = ("co_code", "co_exceptiontable", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags")
_COUNTS = ("co_argcount", "co_posonlyargcount", "co_kwonlyargcount")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), range, np.generic, np.dtype)
_BUILT_IN = (tuple, list, set, frozenset, dict)
_NUMBERS = (bool, int, float, complex)
# They say who waits, which is nothing that a function computes with.
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_PICKLED_BY = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__")

# Large arrays and tables are read once a run, not once a tasklet: between runs they may be changed in place.
_LARGE = 1 << 20
_large: dict[int, tuple[weakref.ref[Any], bytes]] = {}

# Code never changes, and thousands of tasklets have the same.
_codes: weakref.WeakKeyDictionary[types.CodeType, bytes] = weakref.WeakKeyDictionary()

# Of functions that are made of nothing but these, code included: what they were made of when they were looked at.
_FIXED = frozenset((types.CodeType, type(None), bool, int, float, complex, str, bytes))
_functions: weakref.WeakKeyDictionary[types.FunctionType, tuple[tuple[Any, ...], bytes, str]] = (
    weakref.WeakKeyDictionary()
)


class NoIdentityError(Exception):
    """Something has no text that is the same in every process; the message says what."""


def identity(work: object) -> str:
    """A number of 128 bits in hexadecimal digits; other functions, arguments or texts have others.

    Raises:
        NoIdentityError: something in it has no text that is the same in every process.

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
    try:
        return _Met().digest(work).hex()
    except RecursionError:
        raise NoIdentityError("an argument with values that are nested too deeply") from None


def forget() -> None:
    """Large arrays and tables are looked at anew."""
    _large.clear()


class _Met:
    """Objects that were met on the way, each of which is looked at once: some hold half of all that there is."""

    _DEEPEST = 100

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, bytes]] = {}
        self._depth = 0
        self.bytes = 0

    def digest(self, value: Any) -> bytes:
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        large = _large.get(id(value))
        if large is not None and large[0]() is value:
            return large[1]
        if self._depth == self._DEEPEST:
            raise NoIdentityError(f"an argument with values that are nested deeper than {self._DEEPEST}")
        # Kept with the object, whose number another might get otherwise; of a circle there is nothing more to say.
        self._known[id(value)] = (value, _hashed("circle"))
        self._depth += 1
        found = _of(value, self)
        self._depth -= 1
        self._known[id(value)] = (value, found)
        return found

    def remember(self, value: Any, found: bytes, before: int) -> bytes:
        """For the tasklets that follow, if it is large: `before` says how many bytes were read before it."""
        if self.bytes - before >= _LARGE:
            key = id(value)
            try:
                _large[key] = (weakref.ref(value, lambda _: _large.pop(key, None)), found)
            except TypeError:
                return found
        return found


def _of(value: Any, met: _Met) -> bytes:
    def parts(*several: Any) -> list[bytes]:
        return [met.digest(one) for one in several]

    kind = f"{former_path(type(value).__module__)}.{type(value).__qualname__}"
    if isinstance(value, _PLAIN):
        return _plain(kind, value, met)
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
        return _hashed("partial", *parts(value.func, value.args, value.keywords, value.__dict__))
    if isinstance(value, type | types.BuiltinFunctionType | types.ModuleType | np.ufunc):
        if isinstance(value, np.ufunc) and value.__name__.endswith("(vectorized)"):
            raise NoIdentityError("a function made by numpy.frompyfunc, which cannot be compared")
        module = getattr(value, "__module__", None)
        named = f"{module and former_path(module)}.{getattr(value, '__qualname__', value.__name__)}"
        of = getattr(value, "__self__", None) if isinstance(value, types.BuiltinFunctionType) else None
        return _hashed(kind, named.encode(), *([] if isinstance(of, types.ModuleType) else parts(of)))
    if isinstance(value, np.ndarray):
        return _array(kind, value, met)
    is_own_class = type(value) not in _BUILT_IN and isinstance(value, _BUILT_IN)
    own = parts(_attributes(value), getattr(value, "default_factory", None)) if is_own_class else []
    if isinstance(value, tuple | list):
        return _hashed(kind, *own, *parts(*value))
    if isinstance(value, set | frozenset):
        return _hashed(kind, *own, *sorted(parts(*value)))
    if isinstance(value, dict):
        return _hashed(kind, *own, *sorted(_hashed("item", *parts(key, one)) for key, one in value.items()))
    if isinstance(value, slice):
        return _hashed(kind, *parts(value.start, value.stop, value.step))
    if isinstance(value, types.MappingProxyType):
        return _hashed(kind, *parts(dict(value)))
    if isinstance(value, weakref.ReferenceType):
        return _hashed(kind, *parts(value()))
    if isinstance(value, memoryview):
        met.bytes += value.nbytes
        return _hashed(kind, f"{value.format}{value.shape}".encode(), value.tobytes())
    return _object(kind, value, met)


def _plain(kind: str, value: Any, met: _Met) -> bytes:
    if isinstance(value, np.void):
        return _array(kind, np.asarray(value), met)
    if isinstance(value, bytes):
        met.bytes += len(value)
        text = b"".join((value,))
    elif isinstance(value, str):
        text = str.encode(value, errors="surrogatepass")
    else:
        # As the numbers are that they are made of, whatever a class of its own shows.
        made_of = None if isinstance(value, np.generic) else next((t for t in _NUMBERS if isinstance(value, t)), None)
        text = (made_of.__repr__(value) if made_of else repr(value)).encode()
    own = getattr(value, "__dict__", None)
    return _hashed(kind, text, *([met.digest(own)] if own else []))


def _function(value: types.FunctionType, met: _Met) -> bytes:
    known = _functions.get(value)
    if known is not None and _is_same(known[0], value):
        return known[1]
    enclosed = tuple(_cell(cell) for cell in value.__closure__ or ())
    parts = (value.__code__, value.__defaults__, value.__kwdefaults__, enclosed, value.__dict__)
    found = _hashed("function", *(met.digest(one) for one in parts))
    made_of = _made_of(value)
    if not value.__kwdefaults__ and not value.__dict__ and all(type(one) in _FIXED for one in made_of):
        _functions[value] = (made_of, found, found.hex())
    return found


def _made_of(value: types.FunctionType) -> tuple[Any, ...]:
    return (value.__code__, *(value.__defaults__ or ()), *map(_cell, value.__closure__ or ()))


def _is_same(before: tuple[Any, ...], value: types.FunctionType) -> bool:
    """Whether a function is still made of the same objects, none of which can change."""
    if value.__kwdefaults__ or value.__dict__:
        return False
    if value.__closure__ is None and value.__defaults__ is None:
        return len(before) == 1 and before[0] is value.__code__
    now = _made_of(value)
    return len(now) == len(before) and all(map(operator.is_, now, before))


def _object(kind: str, value: Any, met: _Met) -> bytes:
    """Of its class what it does when it is called, and its attributes, or what its pickle is made of."""
    if isinstance(value, Chain):
        text = known_plan(value).text
        if text is None:
            raise NoIdentityError("a plan that scans an array in memory, which cannot be saved")
        return _hashed(kind, text.encode(errors="surrogatepass"))
    if kind in ("isochrony.Signal", "isochrony.Selection", "isochrony.Store"):
        # They show how many samples they have, which runs change.
        shown = [str(getattr(value, one, "")) for one in ("name", "ranges", "uuid")]
        return _hashed(kind, *(one.encode() for one in shown))
    if kind == "isochrony.Event":
        # Its pickle says which process made it.
        return _hashed(kind, *(met.digest(getattr(value, one)) for one in ("id", "kind", "start", "end", "fields")))
    if isinstance(value, Table):
        return _hashed(kind, met.digest(dict(value.items())), met.digest(value.units))
    if isinstance(value, _LOCKS):
        return _hashed(kind)
    if kind.startswith("numba.") and isinstance(getattr(value, "py_func", None), types.FunctionType):
        # What it was compiled to differs from process to process.
        return _hashed(kind, met.digest(value.py_func), met.digest(getattr(value, "targetoptions", None)))
    called = getattr(type(value), "__call__", None)  # noqa: B004
    code = met.digest(called if isinstance(called, types.FunctionType) else None)
    attributes = _attributes(value)
    is_custom, before = _is_pickled_otherwise(type(value)), met.bytes
    try:
        make = copyreg.dispatch_table.get(type(value))
        reduced: Any = value.__reduce_ex__(4) if make is None else make(value)
    except Exception:
        if isinstance(value, io.IOBase):
            about = f"{getattr(value, 'name', None)!r} {getattr(value, 'mode', None)!r}"
            return _hashed(kind, _ADDRESS.sub("", about).encode(errors="surrogatepass"))
        if attributes and is_custom:
            # One that refuses to travel; what it is made of can be seen all the same.
            return _hashed(kind, code, met.digest(attributes))
        raise NoIdentityError(f"an object of {kind}, which cannot be pickled") from None
    if isinstance(reduced, str):
        return _hashed(kind, code, reduced.encode(), met.digest(attributes))
    if not is_custom:
        return _hashed(kind, code, met.digest(attributes))
    # The items of lists and dicts come as iterators.
    parts = [list(one) if at in (3, 4) and one is not None else one for at, one in enumerate(reduced)]
    if kind.startswith("pandas."):
        parts = [_without_cache(one) for one in parts]
    found = _hashed(kind, code, *(met.digest(one) for one in parts))
    return found if attributes else met.remember(value, found, before)


def _without_cache(part: Any) -> Any:
    """A pickle of pandas without what it has looked up so far."""
    if type(part) is tuple:
        return tuple(_without_cache(one) for one in part)
    return {key: one for key, one in part.items() if key != "_cache"} if type(part) is dict else part


def _is_pickled_otherwise(kind: type) -> bool:
    """Whether objects are pickled by more than their attributes."""
    return kind in copyreg.dispatch_table or any(
        getattr(kind, one, None) is not getattr(object, one, None) for one in _PICKLED_BY
    )


def _attributes(value: Any) -> dict[str, Any]:
    slots = [one for each in type(value).__mro__ for one in _names(each.__dict__.get("__slots__", ()))]
    return {one: getattr(value, one) for one in slots if hasattr(value, one)} | getattr(value, "__dict__", {})


def _names(slots: Any) -> tuple[str, ...]:
    several = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(one for one in several if one not in ("__weakref__", "__dict__"))


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _array(kind: str, value: np.ndarray[Any, Any], met: _Met) -> bytes:
    before = met.bytes
    about = f"{kind}{value.dtype!r}{value.shape}".encode()
    if isinstance(value, np.ma.MaskedArray):
        parts = [met.digest(one) for one in (value.data, np.ma.getmaskarray(value), value.fill_value)]
        return met.remember(value, _hashed("masked", about, *parts), before)
    own = {} if isinstance(value, np.memmap) else getattr(value, "__dict__", {})
    parts = [met.digest(own)] if own else []
    if value.dtype.hasobject:
        return _hashed("array", about, met.digest(value.tolist()), *parts)
    met.bytes += value.nbytes
    found = _hashed("array", about, np.ascontiguousarray(value).tobytes(), *parts)
    return found if own else met.remember(value, found, before)


def _hashed(kind: str, *parts: bytes) -> bytes:
    """Each part with its length, so that no two sequences of parts are the same bytes."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in (kind.encode(), *parts):
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.digest()
