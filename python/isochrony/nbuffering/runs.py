"""N-buffering: read, process and write any stream of bytes on all cores, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from .._native import nbuffer as _nbuffer
from ..errors.native import NBufferError, OptionError
from ..functions.python import shown
from ..options import byte_count, choice, flag, function_or_none, is_auto, number, seconds
from ..output.progress import bytes_text
from ..running.status_files import PoolStatus
from ..tuning.configuration import Configuration, TuningReport
from ..tuning.pools import PoolTuningRequest
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
        buffers: number of buffers that it processed, from reading to writing.
        bytes: number of bytes in these buffers.
        read_wait_s: seconds in which it waited for its turn to read.
        read_s: seconds in which it read.
        execute_wait_s: seconds in which it waited for its turn to process, or to merge results in stream order.
        execute_s: seconds in which it processed.
        write_wait_s: seconds in which it waited for its turn to write.
        write_s: seconds in which it wrote.
        trace: (buffer, state, start, end) of its first states, in seconds since the run began; see ``trace=``.

    >>> import isochrony as iso
    >>> report = iso.nbuffer(b"abcd" * 1000, "crc32c", stride=4, workers=2)
    >>> len(report.workers), sum(worker.bytes for worker in report.workers)
    (2, 4000)
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
    """What happened to one input or output.

    Attributes:
        name: name of the stream, as in errors.
        bytes: number of bytes read and processed, or written.
        short_record: bytes of an input's last record if it is shorter than the others, else None.
        ended: whether an input was read to its end.

    >>> import isochrony as iso
    >>> report = iso.nbuffer(b"abcd" * 1000, "crc32c", stride=4, workers=2)
    >>> report.inputs[0].bytes, report.inputs[0].short_record, report.inputs[0].ended
    (4000, None, True)
    """

    name: str
    bytes: int
    short_record: int | None = None
    ended: bool = True


class Result(Mapping[str, Any]):
    """Result of a native processor of `nbuffer`: a mapping whose fields are attributes, too.

    Raises:
        KeyError: when an item is read: there is no such field. AttributeError for an attribute.

    >>> import isochrony as iso, numpy as np
    >>> found = iso.nbuffer(np.arange(5, dtype="<i2"), "stats").results["stats"]
    >>> found["max"], found.max
    (4, 4)
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            raise KeyError(self._missing(name, self._fields)) from None

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
            raise AttributeError(self._missing(name, fields)) from None

    @staticmethod
    def _missing(name: str, fields: Mapping[str, Any]) -> str:
        return f"the result has no {name!r}; give one of its fields: {', '.join(fields)}"

    def __repr__(self) -> str:
        return f"Result({', '.join(f'{name}={value!r}' for name, value in self._fields.items())})"


@dataclass(frozen=True, slots=True)
class NBufferReport:
    """What a run of `nbuffer` did; prints as a few lines.

    Attributes:
        results: results of native processors, by name: the hexadecimal text of a digest, otherwise a `Result`.
        result: what `combine` made of the accumulators of all buffers; None without `combine`.
        complete: whether the run reached the end of its inputs; if not, outputs are partial.
        bytes: number of bytes processed.
        records: number of records processed.
        buffers: number of buffers processed.
        buffer_bytes: size of a buffer in bytes, after the first, smaller ones.
        peak_bytes: largest number of bytes in buffers, staged output and processors at a time.
        elapsed_s: seconds from start to end.
        inputs: a `StreamReport` per input.
        outputs: a `StreamReport` per output.
        workers: a `WorkerReport` per worker.
        tuning: what tuning found and changed; None without ``tune=``.

    >>> import isochrony as iso
    >>> report = iso.nbuffer(b"abcd" * 1000, "crc32c", stride=4)
    >>> report.complete, report.bytes, report.records, list(report.results)
    (True, 4000, 1000, ['crc32c'])
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
    r"""Read a stream, process it on all cores, and write the result, in bounded memory.

    Each worker has a buffer: it fills it with whole records, processes them, writes the result, and starts again, while
    other workers are in other steps. ``iso.nbuffer("big", "sha256").results["sha256"]`` hashes a file,
    ``iso.nbuffer("big", ["crc32c", "stats:<i2"], "copy")`` also copies it, and ``iso.nbuffer(sys.stdin.buffer,
    function, sys.stdout.buffer, delimiter=b"\n")`` filters lines.

    Parameters:
        src: a path, a bytes-like object, an open binary file, a file descriptor, a socket, an object with ``read``, or
            a signal, selection or segment (its samples as stored); or a list of these, which are merged. Memory is read
            in place; several workers read a regular file at once.
        process: a function; names of native processors (``"sha256"``, ``"stats:<i2"``, ``"zstd:3"``,
            ``"count:needle"``, ...; plain ``"stats"`` if src is an array or a signal) or of those of other packages
            (docs/add_a_processor.md); a list of both; or None to copy. A function gets a record as a read-only
            memoryview and returns bytes-like, None, or, with several destinations, a tuple with one of these for each.
            It may keep the record. Functions run in threads, in parallel only while they release the interpreter's lock
            (GIL), as NumPy does.
        dst: a path (replaced), an open binary file, a file descriptor, a socket, a bytearray, a signal open for
            writing, or an object with ``write``; a list of these; or None: no output. With several, each gets a copy; a
            native processor with output needs exactly one. ``write`` returns the number of bytes it took; if that is
            less than it got, it is called again with the rest. None means all, except for an `io.RawIOBase`, where it
            means that nothing can be written now, which is an error.
        memory: largest number of bytes of buffers, staged output and processors, or text such as "100MB" or "64MiB".
        stride: bytes per record, from 1; the last record of an input may be shorter.
        order: "output": output in the order of the input; "execution": the function is called in that order; "both"; or
            "none". Native processors use all cores and give the same results for every order.
        workers: 1 to 4096; "auto": one per core, and one each to read and to write; fewer if a
            processor needs the buffers in order.
        batch: pass the function all whole records of a buffer at once.
        delimiter: bytes at which records end, such as b"\n", instead of `stride`; a record includes them.
        prefix: type of the length before each record, instead of `stride`: "u1", "<u2", ">u4", "<u8", ..., or "varint",
            as in delimited protobuf messages; a record includes it.
        max_length: largest legal length in a prefix, as for `memory`; None: `memory`, and for "varint" 2 GiB - 1, the
            limit of protobuf.
        initial: function that makes an accumulator for each buffer, the second argument of `process`.
        combine: function of two accumulators that returns their sum; called in stream order, so that `result` does not
            depend on `workers`.
        buffer: bytes per buffer, as for `memory`; None: 1 MiB (4 MiB for native processors that take buffers one after
            another, such as ``"sha256"``), or less if `memory` requires it. Where the stream is cut depends on it, and
            not on `workers` (up to 8). A larger record may use the rest of `memory`.
        merge: several sources in "order", one after another; or "fair": a buffer of each that has data.
        ramp: fill the first buffers to 10, 20, 40 and 80 per cent only, so that processing starts early.
        eager: process the data at hand as soon as its source has no more for the moment, instead of filling the buffer.
        progress: True: draw a line with rate and remaining time on a terminal; or a function of a `StreamProgress`.
        progress_every_s: least seconds between two calls of that function; it is always called at the end.
        log: function that gets lines of text about the start and the end of the run.
        trace: number of states that each worker records for the report.
        on_workers: where the function is called. "inline": in this process. "processes": in worker processes, one per
            worker, as for `isochrony.py`, for a function that holds the GIL; in parallel if `order` is "output" or
            "none". The function is a copy there: its changes do not reach this process; accumulators come back pickled.
            If a process dies, its buffer is processed once more in a new one.
        tune: True: change the number of workers and the size of buffers during the run when trials show a gain;
            "recommend": change nothing, and report what would be best; or a `Configuration` of an earlier run, or the
            path of its file. Outputs are the same bytes. `workers` and `buffer` stay fixed if stated; so do buffers
            where their size shows in the result: with `batch`, `initial`, compression, and ``merge="fair"`` of several
            sources. `memory` limits trials too.

    Returns:
        A `NBufferReport`.

    Conventions:
        A record is never split, nor made of two sources. A worker writes early if its output exceeds its memory, so the
        size of the output is not limited. After an error, written output stays under the name of `dst`: it may be all
        there is of a stream that cannot be read again. The message says which outputs are partial and how long they
        are, and `report.complete` is False. To have a whole file or none, write to another name and rename it.

    Raises:
        NBufferError: the first error in stream order, after all workers have stopped: `offset` is its place, `report`
            what was done, and the exception of a function or stream its cause. Ordered output has everything before the
            failed record; whole records that were read before a source failed are processed.
        NBufferOSError: the system refuses to open, read or write (also OSError, with errno).
        OptionError: a parameter out of range, before anything is read or written.
        UsageError: an object that is no source or destination, as a text file, an array that is not contiguous, or a
            descriptor that is not open.

    Source:
        A. Thegler, Automatic n-buffering for Big Data processing, 2015.

    >>> import isochrony as iso
    >>> out = bytearray()
    >>> lines = b"3 pears\nan apple\n4 figs\n"
    >>> report = iso.nbuffer(lines, lambda r: r if r[0] in b"34" else None, out, delimiter=b"\n")
    >>> bytes(out), report.records
    (b'3 pears\n4 figs\n', 3)
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

    with events as draw, _shown(request, draw) as look:
        report: NBufferReport | None = None
        try:
            done = _nbuffer(
                *(
                    sources.streams,
                    begin,
                    len(destinations),
                    spelled,
                    function,
                    batch,
                    initial,
                    combine,
                    options,
                    look,
                ),
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


@contextmanager
def _shown(
    request: PoolTuningRequest | None, draw: Callable[[int, int], object] | None
) -> Iterator[Callable[[int, int], object] | None]:
    """What native code calls with its progress: `draw`, of a tuned run also what writes its state."""
    if request is None:
        yield draw
        return
    with PoolStatus("byte stream", request.shown()) as status:

        def look(done: int, total: int) -> None:
            status.show(done, total, "bytes")
            if draw is not None:
                draw(done, total)

        yield look


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
