"""N-buffering: read, process and write any stream of bytes on all cores, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from .._native import nbuffer as _nbuffer
from ..errors.native import NBufferError, OptionError
from ..functions.python import shown
from ..options import byte_count, choice, flag, function_or_none, is_auto, number, seconds
from ..output.progress import bytes_text
from ..pool_tuning import PoolTuningRequest
from ..tuning import Configuration, TuningReport
from .framing import framing_options
from .processors import BufferFunction, found_processors
from .progress import ProgressEvents, StreamProgress
from .record_calls import AccumulatingFunction
from .streams import Opened, open_destination, open_sources

__all__ = ["NBufferReport", "Result", "StreamProgress", "StreamReport", "WorkerReport", "nbuffer"]


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What one worker did.

    Attributes:
        buffers: that it carried from reading to writing.
        bytes: in them.
        read_wait_s: seconds in which it waited for its turn to read.
        read_s: in which it read.
        execute_wait_s: in which it waited for its turn to execute, or to join what must be joined in stream order.
        execute_s: in which it executed.
        write_wait_s: in which it waited for its turn to write.
        write_s: in which it wrote.
        trace: (buffer, state, start, end) of its first visits of states, in seconds since the run began.
    """

    buffers: int
    bytes: int
    read_wait_s: float
    read_s: float
    execute_wait_s: float
    execute_s: float
    write_wait_s: float
    write_s: float
    trace: tuple[tuple[int, str, float, float], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class StreamReport:
    """One input or output.

    Attributes:
        name: what errors call it.
        bytes: that were read and processed, or written.
        short_record: bytes of an input's last record if it is shorter than others, else None.
        ended: whether an input was read to its end.
    """

    name: str
    bytes: int
    short_record: int | None = None
    ended: bool = True


class Result(Mapping[str, Any]):
    """What a native processor found: fields as items and as attributes."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getattr__(self, name: str) -> Any:
        # A copy that is being made has no fields yet.
        fields: dict[str, Any] = self.__dict__.get("_fields", {})
        try:
            return fields[name]
        except KeyError:
            raise AttributeError(f"the result has no {name!r}; give one of its fields: {', '.join(fields)}") from None

    def __repr__(self) -> str:
        return f"Result({', '.join(f'{name}={value!r}' for name, value in self._fields.items())})"


@dataclass(frozen=True, slots=True)
class NBufferReport:
    """What a run did; prints as a few lines.

    Attributes:
        results: of native processors, by name: a digest is its hexadecimal text, anything else a `Result`.
        result: what `combine` made of the accumulators of all buffers; None without.
        complete: whether the run came to the end of its input; if not, output is partial.
        bytes: that were processed.
        records: that were processed.
        buffers: that were processed.
        buffer_bytes: that a buffer is filled with once the run is under way.
        peak_bytes: most bytes that buffers, staged output and processors held at once.
        elapsed_s: seconds from start to end.
        inputs: each of them.
        outputs: each of them.
        workers: each of them.
        tuning: what tuning the run found and changed; None without ``tune=``.
    """

    results: dict[str, Any]
    result: Any
    complete: bool
    bytes: int
    records: int
    buffers: int
    buffer_bytes: int
    peak_bytes: int
    elapsed_s: float
    inputs: tuple[StreamReport, ...]
    outputs: tuple[StreamReport, ...]
    workers: tuple[WorkerReport, ...]
    tuning: TuningReport | None = None

    def __str__(self) -> str:
        rate = self.bytes / self.elapsed_s if self.elapsed_s > 0 else 0.0
        lines = [
            f"{bytes_text(self.bytes)} in {self.elapsed_s:.3g} s ({bytes_text(rate)}/s), {self.records:,} records"
            + ("" if self.complete else ", partial"),
            f"{len(self.workers)} workers, buffers of {bytes_text(self.buffer_bytes)}, "
            f"peak {bytes_text(self.peak_bytes)}",
        ]
        lines += [f"output {one.name}: {bytes_text(one.bytes)}" for one in self.outputs]
        lines += [f"{name}: {found}" for name, found in self.results.items()]
        if self.tuning is not None:
            lines += [f"tuning {decision}" for decision in self.tuning.decisions]
        return "\n".join(lines)


def nbuffer(
    src: Any,
    process: Callable[..., Any] | str | Sequence[Callable[..., Any] | str] | None = None,
    dst: Any = None,
    *,
    memory: int | str = "100MB",
    stride: int = 1024,
    order: Literal["none", "output", "execution", "both"] = "both",
    workers: int | Literal["auto"] = "auto",
    batch: bool = False,
    delimiter: bytes | None = None,
    prefix: str | None = None,
    max_length: int | str | None = None,
    initial: Callable[[], Any] | None = None,
    combine: Callable[[Any, Any], Any] | None = None,
    buffer: int | str | None = None,
    merge: Literal["order", "fair"] = "order",
    ramp: bool = True,
    eager: bool = False,
    progress: bool | Callable[[StreamProgress], object] = False,
    progress_every_s: float = 0.1,
    log: Callable[[str], object] | None = None,
    trace: int = 0,
    on_workers: Literal["inline", "processes"] = "inline",
    tune: bool | str | os.PathLike[str] | Configuration = False,
) -> NBufferReport:
    r"""Read a stream, process it on all cores, and write what comes of it, in bounded memory.

    Each worker owns a buffer: it reads whole records into it, processes them, writes, and begins again, while the
    others are at something else. ``iso.nbuffer("big", "sha256").results["sha256"]`` hashes a file,
    ``iso.nbuffer("big", ["crc32c", "stats:<i2"], "copy")`` copies it meanwhile, and
    ``iso.nbuffer(sys.stdin.buffer, function, sys.stdout.buffer, delimiter=b"\\n")`` filters lines.

    Inputs:
        src: a path, anything bytes-like, an open binary file, a file descriptor, a socket, a signal, selection or
            segment (its stored samples), an object with ``read``; or a list of those, which are merged. Memory is
            looked at where it lies; regular files are read by several workers at once.

    Outputs:
        dst: a path (replaced), an open binary file, a file descriptor, a socket, a bytearray, a signal open for
            writing, an object with ``write``; a list of those; or None: output is off, what is returned is dropped.
            A copy goes to each of several; a native processor that makes output takes one. What ``write`` returns is
            how many bytes it took, which may be fewer than it was given (it is called again with the rest); None means
            all, but of an `io.RawIOBase`, where it means that it takes nothing now, which is an error.
        Returns an `NBufferReport`.

    Parameters:
        process: a function, names of native processors (``"sha256"``, ``"stats:<i2"``, ``"zstd:3"``,
            ``"count:needle"``, ...; ``"stats"`` alone where src is an array or a signal), a name that another package
            added (docs/add_a_processor.md), a list of both, or None to copy. A function gets one record as a read-only
            memoryview and returns bytes-like, None, or with several destinations a tuple with one of both for each.
            Threads share the interpreter: functions run at once only where they let go of it, as NumPy does.
        memory: bytes that buffers, staged output and processors may take: a number, or text such as "100MB", "64MiB".
        stride: bytes of a record, from 1; the last of an input may be shorter.
        order: what of the order of input holds: "execution" of the function, the "output", "both", or "none".
            Native processors always see their bytes in order, on all cores.
        workers: 1 to 4096, or "auto": as many as can be busy.
        batch: the function gets as many whole records as a buffer has.
        delimiter: records end with these bytes instead, and keep them.
        prefix: records begin with the length of what follows instead, and keep it: "u1", "<u2", ">u4", "<u8", ..., or
            "varint", as delimited protobuf messages do.
        max_length: largest legal length of a prefix, as `memory`; default: no limit but `memory`, and 2 GiB - 1 for
            "varint", protobuf's limit.
        initial: makes an accumulator for each buffer, which is the function's second argument.
        combine: adds the second accumulator to the first and returns the sum; called in stream order, so that
            `result` does not depend on `workers`.
        buffer: bytes that a buffer is filled with, as `memory`; default 1 MiB (4 MiB for native
            processors that take buffers one after another, as ``"sha256"`` does), or less to keep to `memory`.
            A record that is larger may have what `memory` leaves.
            Where the stream is cut depends on it, not on `workers` (up to 8).
        merge: several sources one after another in "order", or "fair": a buffer of each that has something.
        ramp: fill the first buffers by 10, 20, 40 and 80 per cent only, so that work starts early.
        eager: process what has come as soon as its source has no more yet, instead of filling buffers.
        progress: draw a line with rate and remaining time on a terminal; or call this with a `StreamProgress`.
        progress_every_s: least seconds between two of these calls; the last one is always of the end.
        log: called with lines about the beginning and the end of the run.
        trace: visits of states that each worker notes for the report.
        on_workers: where the function is called. "inline": in this process. "processes": in worker processes, one a
            worker, as those of `isochrony.py`, for a function that holds the interpreter; several are busy at once
            where `order` is "output" or "none". It is a copy there: what it changes stays there; accumulators come
            back pickled. A buffer whose process dies is processed once more in a fresh one.
        tune: True: change how many workers take buffers, and how many bytes these are filled with, where trials show
            that it gains; "recommend": change nothing, and report what would be best; or a `Configuration` of an
            earlier run, or the file of one. What was written is the same bytes: `workers` and `buffer` are not changed
            where they were given, and buffers keep their size where it shows: with `batch`, `initial`, compression, and
            ``merge="fair"`` of several sources. `memory` holds for the most that is tried.

    Conventions:
        A record is never split, nor made of two sources. What a function keeps of a record stays valid.
        With more output than memory, a worker writes early in its turn: any amount goes through.
        What was written when a run fails stays under the name of `dst`: it may be all there is of a stream that cannot
        be had again, and whoever follows the file goes on. The error's text says which outputs hold a part and how much
        of it, `report.complete` is False; write to another name and rename it where a whole file or none is wanted.

    Errors:
        The first error in stream order, after all workers have ended: `NBufferError` with `offset`, the exception of
        a function or stream as its cause, and `report`; `NBufferOSError` where the system refuses (also an OSError,
        with errno); `OptionError` before anything is read or written. Ordered output holds all that comes before the
        record that failed. Of a source that fails the whole records that were read are processed.

    Source: A. Thegler, Automatic n-buffering for Big Data processing, 2015.

    >>> import isochrony as iso
    >>> out = bytearray()
    >>> report = iso.nbuffer(b"3 pears\\nan apple\\n4 figs\\n", lambda r: r if r[0] in b"34" else None, out,
    ...                      delimiter=b"\\n")
    >>> bytes(out), report.records
    (b'3 pears\\n4 figs\\n', 3)
    >>> iso.nbuffer(b"abc", "sha256").results["sha256"][:16]
    'ba7816bf8f01cfea'
    """
    choice("order", order, ("none", "output", "execution", "both"))
    choice("merge", merge, ("order", "fair"))
    names, function = _processors(process)
    names, added = found_processors(names)
    for name, given in (("initial", initial), ("combine", combine), ("log", log)):
        function_or_none(name, given)
    if not callable(progress):
        flag("progress", progress, ", or a function of a StreamProgress")
    events = ProgressEvents(progress, _interval(progress_every_s))
    choice("on_workers", on_workers, ("inline", "processes"))
    batch = flag("batch", batch)
    destinations = [] if dst is None else list(dst) if isinstance(dst, list | tuple) else [dst]
    if added is not None:
        name, made = added
        if function is not None or initial is not None or combine is not None:
            raise OptionError(
                f"process={name!r} is a function of a package, and takes the place of one of your own; leave out the "
                "function, initial= and combine=, or that processor"
            )
        function, batch = made.called(len(destinations)), True
        initial, combine = made.initial, made.combine
    if (initial is None) != (combine is None) or (initial is not None and function is None):
        raise OptionError(
            "initial= and combine= need each other and a function as process=; give all three, or leave out initial= "
            "and combine="
        )
    remote = None
    if on_workers == "processes":
        if function is None:
            raise OptionError('on_workers="processes" is for a function, and process= has none; leave on_workers= out')
        remote = (function if initial is None else AccumulatingFunction(function, initial), shown(function))
    options: dict[str, Any] = {
        "order": order,
        "workers": None if is_auto(workers) else number("workers", workers, 1, "1 to 4096, or 'auto'"),
        "memory": byte_count("memory", memory),
        "buffer": None if buffer is None else byte_count("buffer", buffer),
        **framing_options(stride, delimiter, prefix, max_length),
        "fair": merge == "fair",
        "ramp": flag("ramp", ramp),
        "eager": flag("eager", eager),
        "trace": number("trace", trace, 0, "visits from 0"),
    }
    request = PoolTuningRequest.of(tune, _written(names, function, batch, options), has_buffers=True)
    if request is not None and options["workers"] is not None and options["buffer"] is not None:
        raise OptionError(
            f"tune={tune!r} is refused with both workers= and buffer=, which are all that it could change; leave out "
            "one of the three"
        )
    options["tuning"] = None if request is None else request.json()
    spelled = _with_dtypes(names, src)
    sources = open_sources(list(src) if isinstance(src, list | tuple) else [src])
    outputs = Opened()

    def begin() -> list[Any]:
        for destination in destinations:
            open_destination(destination, outputs, sources)
        if log is not None:
            log(f"begin: {len(sources.streams)} inputs, {len(outputs.streams)} outputs, {process or 'copy'}")
        return outputs.begin()

    with events as draw:
        report: NBufferReport | None = None
        try:
            done = _nbuffer(
                *(sources.streams, begin, len(destinations), spelled, function, batch, initial, combine, options, draw),
                remote,
            )
            report = _report(done, names, request)
            events.end()
        except NBufferError as error:
            found = getattr(error, "_report", None)
            if found is not None:
                report = error.report = _report(found, names, request)
            if log is not None:
                log(f"error: {error}")
            raise
        finally:
            sources.close()
            outputs.close()
            if report is not None:
                failed = not report.complete
                sources.finish([one.bytes for one in report.inputs], failed)
                outputs.finish([one.bytes for one in report.outputs], failed)
    if added is not None:
        report = _with_result(report, added, process)
    if log is not None:
        log(f"end: {report.bytes} bytes, {report.records} records, {report.elapsed_s:.3g} s")
    return report


def _processors(process: Any) -> tuple[list[str], Callable[..., Any] | None]:
    if process is None:
        return [], None
    several = list(process) if isinstance(process, list | tuple) else [process]
    names = [one for one in several if isinstance(one, str)]
    functions = [one for one in several if not isinstance(one, str)]
    refused = [one for one in functions if not callable(one)]
    if refused or len(functions) > 1:
        what = f"{len(functions)} functions" if not refused else repr(refused[0])
        raise OptionError(f"process={what} is refused; give a function, names of native processors, or a list of both")
    return names, functions[0] if functions else None


def _interval(value: object) -> float:
    found = seconds("progress_every_s=", value)
    if found < 0:
        raise OptionError(f"progress_every_s={value!r} is refused; give seconds from 0")
    return found


def _with_dtypes(names: list[str], src: Any) -> list[str]:
    """Names as native code takes them: statistics of an array or a signal are of its own samples."""
    dtype = getattr(src, "dtype", None)
    if dtype is None:
        return names
    return [f"stats:{np.dtype(dtype).str.replace('|', '')}" if name.strip() == "stats" else name for name in names]


def _with_result(report: NBufferReport, added: tuple[str, BufferFunction], process: Any) -> NBufferReport:
    """The report with the result of a package's processor among those of native ones, in the order of their names."""
    name, made = added
    if made.combine is None:
        return report
    found = made.result(report.result, report.buffers)
    results = report.results | {name: Result(found) if isinstance(found, Mapping) else found}
    named = [process] if isinstance(process, str) else process
    return replace(report, result=None, results={one: results[one] for one in named if one in results})


def _written(names: list[str], function: Any, batch: bool, options: dict[str, Any]) -> list[object]:
    """What distinguishes runs of which one has another best configuration."""
    called = None if function is None else getattr(function, "__qualname__", type(function).__qualname__)
    return [names, called, batch, sorted((name, str(value)) for name, value in options.items() if name != "trace")]


def _report(done: dict[str, Any], names: list[str], request: PoolTuningRequest | None) -> NBufferReport:
    # In the order of names, which is the user's own spelling.
    found = done.pop("results").values()
    results = {name: Result(one) if isinstance(one, dict) else one for name, one in zip(names, found, strict=False)}
    tuned = done.pop("tuning")
    return NBufferReport(
        results=results,
        tuning=None if tuned is None or request is None else request.report(tuned),
        inputs=tuple(StreamReport(*one) for one in done.pop("inputs")),
        outputs=tuple(StreamReport(*one) for one in done.pop("outputs")),
        workers=tuple(WorkerReport(*one) for one in done.pop("workers")),
        **done,
    )
