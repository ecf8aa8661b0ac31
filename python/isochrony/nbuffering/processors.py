"""Byte processors that other packages add, under names that `isochrony.nbuffer` and ``isochrony pipe`` take.

A package registers a `Processor` as an entry point of the group ``isochrony.processors``. Names of native processors
are tried first, so a run that names only those looks for no package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._native import makes_output as _makes_output
from ..errors.native import OptionError
from ..plugins import one_line, plugins

__all__ = ["BufferFunction", "Processor", "found_processors", "makes_output"]

_GROUP = "isochrony.processors"


@dataclass(frozen=True, slots=True)
class BufferFunction:
    """What a processor does with the bytes of a stream.

    Attributes:
        function: is called with the whole records of a buffer, as a read-only memoryview, and, if there is `initial`,
            with the buffer's accumulator; several threads call it at once. What it returns is output.
        initial: makes an accumulator for each buffer.
        combine: adds the second accumulator to the first and returns the sum; it is called in the order of the stream.
        finish: makes the result of the sum of all: text, or a mapping of fields. Default: the sum is the result.
        makes_output: whether `function` returns bytes, which become the output.
    """

    function: Callable[..., Any]
    initial: Callable[[], Any] | None = None
    combine: Callable[[Any, Any], Any] | None = None
    finish: Callable[[Any], Any] | None = None
    makes_output: bool = False

    def called(self, destinations: int) -> Callable[..., Any]:
        """The function, with the records themselves as output for each destination where it makes none."""
        if self.makes_output or not destinations:
            return self.function

        def copied(records: memoryview, *accumulator: Any) -> Any:
            self.function(records, *accumulator)
            return records if destinations == 1 else (records,) * destinations

        return copied

    def result(self, total: Any, buffers: int) -> Any:
        """What the report says, of the sum of the accumulators of so many buffers."""
        if not buffers and self.initial is not None:
            total = self.initial()
        return total if self.finish is None else self.finish(total)


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor of byte streams in Python, for ``NAME`` or ``NAME:ARGUMENT``; NAME is that of its entry point.

    Attributes:
        summary: one line for people.
        make: is given the argument, or None, and makes what a run calls. It raises `ValueError` or `TypeError` with
            what is wrong with an argument and what to give instead.
    """

    summary: str
    make: Callable[[str | None], BufferFunction]


def found_processors(names: Sequence[str]) -> tuple[list[str], tuple[str, BufferFunction] | None]:
    """The names of native processors among several, and what another package's name stands for.

    Raises:
        OptionError: a name stands for nothing, its argument is refused, or two are of other packages.
    """
    native: list[str] = []
    added: tuple[str, BufferFunction] | None = None
    for name in names:
        try:
            _makes_output([name])
            native.append(name)
        except OptionError as error:
            if error.code != "unknown_processor":
                # What is wrong with it may depend on the source, as a dtype does.
                native.append(name)
                continue
            made = _made(name, error)
            if added is not None:
                raise OptionError(
                    f"process names two processors in Python, {added[0]!r} and {name!r}; give one of them, and run the "
                    "other by itself"
                ) from None
            added = (name, made)
    return native, added


def makes_output(names: Sequence[str]) -> bool:
    """Whether one of several processors makes output of its own.

    Raises:
        OptionError: as `found_processors`, or two of them make output.
    """
    native, added = found_processors(names)
    makes = _makes_output(native)
    if makes and added is not None and added[1].makes_output:
        raise OptionError(f"{added[0]!r} and another processor both make output; leave out one of them")
    return makes or (added is not None and added[1].makes_output)


def _made(text: str, unknown: OptionError) -> BufferFunction:
    name, colon, argument = text.partition(":")
    known = {plugin.name: plugin for plugin in plugins(_GROUP, Processor)}
    plugin = known.get(name.strip())
    if plugin is None:
        if not known:
            raise unknown
        raise OptionError(f"{unknown}, or of other packages {', '.join(known)}") from None
    try:
        made = plugin.value.make(argument if colon else None)
    except OptionError:
        raise
    except Exception as error:
        said = str(error) if isinstance(error, ValueError | TypeError) else one_line(error)
        raise OptionError(f"processor {text!r} of package {plugin.package} is refused: {said}") from error
    if not isinstance(made, BufferFunction):
        raise OptionError(
            f"processor {name!r} of package {plugin.package} makes a {type(made).__name__}; its make() must return an "
            "isochrony.nbuffering.BufferFunction"
        )
    return made
