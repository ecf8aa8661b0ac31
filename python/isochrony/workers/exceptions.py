"""Exceptions on their way from one process to another: as themselves, where that can be.

Pickled as Python does it, an exception is made anew by calling its class with its `args`. That fails, or says something
else, where the class has an `__init__` of its own that takes other arguments than it hands on. Such a one is made
without that call: by the built-in class that it derives from, with its `args` and attributes as they were.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import pickle
from collections.abc import Callable
from typing import Any

__all__ = ["dumps", "pickled", "said"]


def said(error: BaseException) -> str:
    """Its message; nothing if it cannot say it."""
    try:
        return str(error)
    except Exception:
        return ""


def pickled(error: BaseException) -> bytes:
    """An exception as bytes that it comes back from, without where it was raised and what led to it; or nothing."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    own, other = said(error), b""
    for how in (dumps, _dumps_uncalled):
        with contextlib.suppress(Exception):
            data = how(error)
            back = pickle.loads(data)
            if isinstance(back, BaseException) and said(back) == own:
                return data
            # As where its message says at which address something lies.
            other = data if how is dumps else other
    return other


def dumps(value: Any) -> bytes:
    """A value pickled; a class that travelled here by value goes back as the one that it was."""
    return _by(_pickler(), value)


def _dumps_uncalled(error: BaseException) -> bytes:
    """With all exceptions in it made without a call of their classes."""
    pickler = _pickler()

    class Uncalled(pickler):  # type: ignore[misc, valid-type]
        def reducer_override(self, one: Any) -> Any:
            if isinstance(one, BaseException):
                cls, arguments, *state = _built_in(type(one)).__reduce__(one)
                return _made, (cls, arguments), *state
            inherited: Callable[[Any], Any] | None = getattr(super(), "reducer_override", None)
            return NotImplemented if inherited is None else inherited(one)

    return _by(Uncalled, error)


def _pickler() -> Any:
    try:
        import cloudpickle
    except ImportError:
        return pickle.Pickler
    return cloudpickle.Pickler


def _by(pickler: Any, value: Any) -> bytes:
    into = io.BytesIO()
    pickler(into).dump(value)
    return into.getvalue()


def _built_in(cls: type[BaseException]) -> Any:
    """The class of Python's own that says how such an exception lies in memory."""
    found: Any = cls
    while getattr(builtins, found.__name__, None) is not found:
        found = found.__base__
    return found


def _made(cls: type[BaseException], arguments: tuple[Any, ...]) -> BaseException:
    own = _built_in(cls)
    made: BaseException = own.__new__(cls, *arguments)
    own.__init__(made, *arguments)
    return made
