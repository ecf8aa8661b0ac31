"""What every public call of the package is driven with, to see whether it gives all back that it takes.

`SAMPLES` makes an instance of each public class; its attributes and the methods that need no arguments are called as
they are. `CALLS` has those that need arguments, and the functions. `UNCALLED` says of the rest why they are not called
a thousand times. A public name that is in none of them fails `test_leaks.test_every_public_name_is_driven`.
"""

from __future__ import annotations

import doctest
import inspect
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import isochrony as iso
from isochrony.plan.declarations import declared

Drive = Callable[["World"], object]


class World:
    """A store with some signals, and what else calls need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = itertools.count()
        self.x = np.arange(4000.0)
        self.store = iso.open(folder / "a.iso", "x")
        self.signal = self.store.create("a/p", dtype="i2", rate=100, start="2026-01-01T00:00:00Z", unit="Pa")
        self.signal.append(np.arange(1000, dtype="i2"))
        self.signal.append_gap(samples=50)
        self.signal.append(np.arange(1000, dtype="i2"))
        self.other = self.store.create("b", dtype="f4", rate=100, start="2026-01-01T00:00:00Z")
        self.other.append(np.zeros(500, "f4"))
        self.grown = self.store.create("grown", dtype="i2", rate=100, start="2026-01-01T00:00:00Z")
        self.store.commit()
        #: A store whose signal is changed to and fro.
        self.changed = iso.open(folder / "changed.iso", "x")
        self.rewritten = self.changed.create("c", dtype="i2", rate=100, start="2026-01-01T00:00:00Z", unit="Pa")
        self.rewritten.append(np.arange(700, dtype="i2"))
        self.corrected = self.changed.create("corrected", dtype="i2", rate=100, start="2026-01-01T00:00:00Z")
        self.corrected.append(np.arange(700, dtype="i2"))
        self.correction = self.corrected.correct_clock(self.comparison(), uncertainty=1e-3)
        self.changed.commit()
        self.reader = iso.open(folder / "a.iso")
        self.samples = iso.scan(self.x, rate=100)
        self.windows = self.samples.rewindow(100)
        self.rows = self.windows.stats("min", "max")
        self.pair = self.samples.rewindow(100)
        self.expr = iso._native.Expr.input()  # type: ignore[attr-defined]
        self.graph = iso.Graph()
        self.graph.add("clock")
        self.csv = folder / "one.csv"
        self.csv.write_text("time,v\n2026-01-01T00:00:00Z,1\n2026-01-01T00:00:01Z,2\n")

    def comparison(self) -> list[tuple[int, iso.Time]]:
        """Points at which the clock of a signal that began in 2026 was compared with a better one."""
        return [(at, iso.Time(f"2026-01-01T00:00:0{at // 100}.001Z")) for at in (0, 300, 600)]

    def name(self, prefix: str) -> str:
        return f"{prefix}{next(self.numbers)}"

    def path(self, suffix: str) -> Path:
        return self.folder / f"out{suffix}"


class Echo(iso.Operator):
    def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
        emit(block.values)


def compiled(rows: Any, out: Any) -> int:
    return 0


def tasklets(world: World) -> iso.Executor:
    executor = iso.Executor(workers=1)
    executor.add(iso.Tasklet(lambda inputs, outputs: None, [world.reader["b"][:100]], name="one"))
    return executor


def removed(branch: iso.Plan) -> None:
    control = iso.Control()
    control.add(branch)
    control.remove(branch)


#: An instance of each public class that has attributes or methods.
SAMPLES: dict[str, Drive] = {
    "Block": lambda w: iso.Block(w.x, 0, 4),
    "Break": lambda w: iso.Break("gap", 1, 2),
    "ClockCorrection": lambda w: w.correction,
    "Configuration": lambda w: iso.Configuration(workers=2, replicas=(1,), threads=2),
    "Control": lambda w: iso.Control(),
    "Emitter": lambda w: iso.Emitter(),
    "Expr": lambda w: w.expr,
    "Followed": lambda w: iso.follow(w.reader["b"], silence=0.0),
    "Gap": lambda w: w.reader["a/p"].gaps[0],
    "GapEdge": lambda w: w.reader["a/p"].gaps[0].before,
    "Gaps": lambda w: w.reader["a/p"].gaps,
    "Graph": lambda w: w.graph,
    "Listener": lambda w: iso.listen("udp://127.0.0.1:0", dtype="i2", rate=100),
    "StreamProgress": lambda w: iso.StreamProgress(1, 2, 0.5),
    "NBufferReport": lambda w: iso.nbuffer(b"abc" * 100, lambda record: None, stride=3, workers=1),
    "Operator": lambda w: Echo(),
    "Plan": lambda w: w.windows,
    "Port": lambda w: iso.Port("samples", "float64"),
    "Range": lambda w: w.reader["a/p"].timebase.graph["a/p"],
    "Rate": lambda w: w.reader["a/p"].rate,
    "Run": lambda w: w.reader["a/p"].runs()[0],
    "Segment": lambda w: w.reader["a/p"][:100].segments[0],
    "Selection": lambda w: w.reader["a/p"][:100],
    "Signal": lambda w: w.reader["a/p"],
    "Span": lambda w: iso.span("2026-01-01", "2026-01-02"),
    "Store": lambda w: w.reader,
    "Table": lambda w: iso.Table({"a": np.arange(3)}),
    "Tasklet": lambda w: iso.Tasklet(lambda inputs, outputs: None, [w.reader["b"][:10]], name="one"),
    "Time": lambda w: iso.Time("2026-01-01T00:00:00Z"),
    "Timebase": lambda w: w.reader["a/p"].timebase,
    "TimebaseFit": lambda w: w.correction.fit,
}


def _packets(world: World) -> list[iso.Plan]:
    """Plans of what two receivers heard of the same packets."""
    packets = np.arange(320, dtype="u1").reshape(5, 64)
    pieces = [(at * 64, row) for at, row in enumerate(packets)]
    return [iso.generate(lambda: iter(pieces), dtype="u1", rate=1000).rewindow(64) for _ in range(2)]


def _mark_and_fill(world: World) -> None:
    world.rewritten.mark_invalid(10, 20)
    world.rewritten.fill(10, np.ones(10, "i2"))
    world.changed.commit()


def _backfill(world: World) -> None:
    world.rewritten.mark_invalid(10, 20)
    world.changed.commit()
    world.rewritten.backfill(np.ones(10, "i2"), "2026-01-01T00:00:00.1Z")
    world.changed.commit()


def _anew(world: World, use: Callable[[iso.Signal], object]) -> None:
    """Uses a signal in a way that it remembers for good, and lets the next one take its place."""
    signal = world.changed.create("anew", dtype="i2", rate=100, start="2026-01-01T00:00:00Z", overwrite=True)
    signal.append(np.arange(100, dtype="i2"))
    world.changed.commit()
    use(signal)
    world.changed.commit()


def _import_a_new_file(world: World) -> None:
    """The store is another one each time: it remembers each file for good."""
    path = world.folder / "import.iso"
    with iso.open(path, "x") as store:
        assert iso.import_files(store, world.csv)["files"] == 1
    shutil.rmtree(path)


#: Functions, and methods that need arguments.
CALLS: dict[str, Drive] = {
    "adds_up": lambda w: iso.adds_up("hann", 100, 50),
    "collect": lambda w: iso.collect(w.windows.count(), w.rows),
    "follow": lambda w: iso.scan(iso.follow(w.reader["b"], silence=0.0)).count().collect(),
    "generate": lambda w: iso.generate(lambda: iter([w.x]), dtype="f8", rate=100).count().collect(),
    "jit": lambda w: w.windows.map(iso.jit(compiled)).count().collect(),
    "listen": lambda w: (
        iso.scan(iso.listen("udp://127.0.0.1:0", dtype="i2", rate=100, silence=0.002)).count().collect()
    ),
    "nbuffer": lambda w: iso.nbuffer(b"abc" * 100, lambda record: record, bytearray(), stride=3, workers=1),
    "open": lambda w: iso.open(w.store.path).close(),
    "prefetch": lambda w: iso.prefetch(w.reader["b"]),
    "py": lambda w: w.windows.map(iso.py(lambda rows: rows.mean(axis=1))).collect(),
    "run": lambda w: iso.run(w.windows.each(lambda values, start: None)),
    "scan": lambda w: iso.scan(w.reader["a/p"]).rewindow(10).count().collect(),
    "span": lambda w: iso.span("2026-01-01", "2026-01-02"),
    "taper_factors": lambda w: iso.taper_factors("hann", 100),
    "verify": lambda w: iso.verify(w.store.path),
    "Control.add": lambda w: iso.Control().add(w.windows.each(lambda values, start: None)),
    "Control.remove": lambda w: removed(w.windows.each(lambda values, start: None)),
    "Control.set": lambda w: iso.Control().set(w.windows.map(lambda s: s + 1), expression=lambda s: s + 2),
    "Emitter": lambda w: iso.Emitter()(w.x),
    "Executor": lambda w: iso.Executor(workers=1),
    "Executor.add": lambda w: tasklets(w),
    "Executor.explain": lambda w: tasklets(w).explain(),
    "Executor.run": lambda w: tasklets(w).run(),
    "Expr.astype": lambda w: w.expr.astype("f4"),
    "Expr.clip": lambda w: w.expr.clip(0, 1),
    "Expr.ewm": lambda w: w.expr.ewm(0.1),
    "Expr.hysteresis": lambda w: w.expr.hysteresis(0, 1),
    "Expr.previous": lambda w: w.expr.previous(0),
    "Expr.where": lambda w: (w.expr > 1).where(w.expr, 0),
    "Operator.finish": lambda w: Echo().finish(iso.Emitter()),
    "Operator.on_break": lambda w: Echo().on_break(iso.Break("gap"), iso.Emitter()),
    "Operator.outputs": lambda w: Echo().outputs(iso.Port("samples")),
    "Operator.process": lambda w: w.samples.apply(Echo).count().collect(),
    "Port.of": lambda w: iso.Port("samples").of("f4", unit="V"),
    "Port.rows": lambda w: iso.Port("samples").rows(start="i8"),
    "Plan.annotate": lambda w: _anew(
        w, lambda signal: iso.scan(signal).rewindow(50).ranges().annotate(signal, "seen").run()
    ),
    "Plan.apply": lambda w: w.windows.apply(Echo).collect(),
    "Plan.bandpass": lambda w: w.samples.bandpass(1, 5).count().collect(),
    "Plan.bandstop": lambda w: w.samples.bandstop(1, 5).count().collect(),
    "Plan.blocks": lambda w: len(list(w.windows.blocks())),
    "Plan.combine_packets": lambda w: (lambda a, b: a.combine_packets(b, clusters=[0, 1]).collect())(*_packets(w)),
    "Plan.decimate": lambda w: w.samples.decimate(2).count().collect(),
    "Plan.each": lambda w: w.windows.each(lambda values, start: None).run(),
    "Plan.error_correlation": lambda w: (lambda a, b: a.error_correlation(b, every=2).collect())(*_packets(w)),
    "Plan.feedback": lambda w: (
        w.samples.feedback(lambda x, back: x.map(lambda a, b: a + b / 2, back), delay=100).count().collect()
    ),
    "Plan.filter": lambda w: w.windows.filter(lambda s: s.max() > 3).collect(),
    "Plan.fir": lambda w: w.samples.fir([0.5, 0.5]).count().collect(),
    "Plan.frequencies": lambda w: w.windows.power().frequencies,
    "Plan.to_json": lambda w: iso.scan(w.reader["b"]).rewindow(10).to_json(),
    "Plan.from_json": lambda w: iso.Plan.from_json(iso.scan(w.reader["b"]).to_json()).count().collect(),
    "Plan.group_by": lambda w: w.rows.group_by("max").agg(n="count").collect(),
    "Plan.highpass": lambda w: w.samples.highpass(5).count().collect(),
    "Plan.ifft": lambda w: w.windows.fft().ifft().collect(),
    "Plan.limit": lambda w: w.windows.limit(1).collect(),
    "Plan.lowpass": lambda w: w.samples.lowpass(5).count().collect(),
    "Plan.map": lambda w: w.windows.map(lambda s: s + 1).collect(),
    "Plan.resample": lambda w: w.samples.resample(up=2).count().collect(),
    "Plan.rewindow": lambda w: w.samples.rewindow(10).count().collect(),
    "Plan.rows": lambda w: w.windows.rows(peak=lambda s: s.max()).collect(),
    "Plan.select": lambda w: w.rows.select("max").collect(),
    "Plan.send": lambda w: w.samples.send("udp://127.0.0.1:9", speed=None).run(),
    "Plan.sink": lambda w: w.samples.sink(w.store, "sunk", overwrite=True).run(),
    "Plan.sink_ipc": lambda w: (w.path(".arrow").unlink(missing_ok=True), w.rows.sink_ipc(w.path(".arrow")).run()),
    "Plan.sink_parquet": lambda w: (
        w.path(".parquet").unlink(missing_ok=True),
        w.rows.sink_parquet(w.path(".parquet")).run(),
    ),
    "Plan.sink_wav": lambda w: (w.path(".wav").unlink(missing_ok=True), w.samples.sink_wav(w.path(".wav")).run()),
    "Plan.spectrogram": lambda w: w.samples.spectrogram(100).collect(),
    "Plan.stft": lambda w: w.samples.stft(100).count().collect(),
    "Plan.sync": lambda w: w.samples.sync(on=w.windows.ranges())[0].count().collect(),
    "Plan.zip": lambda w: w.windows.zip(w.windows)[0].count().collect(),
    "Segment.append": lambda w: w.reader["b"][:10].segments[0].append(w.reader["b"][10:20].segments[0]),
    "Segment.subseg": lambda w: w.reader["b"][:10].segments[0].subseg(2, 5),
    "Selection.values": lambda w: (
        w.reader["a/p"][990:1060].values(0, counts=True),
        w.reader["a/p"][:1060].values("ffill", out=np.empty(1060, "f4")),
    ),
    "Signal.values": lambda w: w.reader["a/p"].values("interpolate", dtype="f4"),
    "Signal.append_gap": lambda w: _anew(w, lambda signal: signal.append_gap(samples=10)),
    "Signal.backfill": _backfill,
    "Signal.begin_run": lambda w: _anew(w, lambda signal: signal.begin_run()),
    "Signal.reserve": lambda w: _anew(w, lambda signal: signal.reserve(10)),
    "Signal.append": lambda w: w.grown.append(np.arange(10, dtype="i2")),
    "Signal.contiguous": lambda w: w.reader["a/p"].contiguous(0, 10),
    "Signal.in_bounds": lambda w: w.reader["a/p"].in_bounds(0, 10),
    "Signal.index_of": lambda w: w.reader["a/p"].index_of("2026-01-01T00:00:01Z"),
    "Signal.level": lambda w: w.reader["a/p"].level(w.reader["a/p"].levels[0])[:].values(),
    "Signal.time_of": lambda w: w.reader["a/p"].time_of(7),
    "Signal.view": lambda w: w.reader["a/p"].view(pixels=100),
    "Store.create": lambda w: (w.store.create("made", dtype="i2", rate=10, overwrite=True), w.store.commit()),
    "Store.delete": lambda w: (
        w.store.create("gone", dtype="i2", rate=10).append(np.zeros(5, "i2")),
        w.store.commit(),
        w.store.delete("gone"),
        w.store.commit(),
    ),
    "Signal.calibrate": lambda w: (w.rewritten.calibrate("Pa", scale=2.0), w.changed.commit()),
    "Signal.fill": _mark_and_fill,
    "Signal.mark_invalid": _mark_and_fill,
    "Signal.seal": lambda w: (w.rewritten.seal(), w.rewritten.unseal()),
    "Signal.unseal": lambda w: (w.rewritten.seal(), w.rewritten.unseal()),
    "Signal.write": lambda w: (w.rewritten.write(10, np.ones(5, "i2")), w.changed.commit()),
    "Signal.to_obspy": lambda w: w.reader["b"].to_obspy(),
    "Signal.to_xarray": lambda w: w.reader["b"].to_xarray(),
    "Selection.to_obspy": lambda w: w.reader["b"][:100].to_obspy(),
    "Selection.to_xarray": lambda w: w.reader["b"][:100].to_xarray(),
    "Store.backup": lambda w: w.changed.backup(w.path(".backup")),
    "Store.checkpoint": lambda w: w.changed.checkpoint(),
    "Store.gather": lambda w: w.reader.gather("b", iso.span("2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z"), rate=100),
    "Store.publish": lambda w: w.changed.publish(),
    "Store.rename": lambda w: (w.changed.rename("c", "d"), w.changed.rename("d", "c"), w.changed.commit()),
    "Store.close": lambda w: iso.open(w.folder / "changed.iso").close(),
    "backup": lambda w: iso.backup(w.folder / "changed.iso", w.path(".backup2")),
    "import_files": _import_a_new_file,
    "now": lambda w: iso.now(),
    "Store.find": lambda w: w.reader.find("*"),
    "Store.get": lambda w: w.reader.get("b"),
    "Store.commit": lambda w: (w.grown.append(np.arange(10, dtype="i2")), w.store.commit()),
    "Store.scratch": lambda w: w.store.scratch(dtype="i2", rate=10),
    "Store.save_plan": lambda w: w.store.save_plan("seen", iso.scan(w.signal).rewindow(10), overwrite=True),
    "Table": lambda w: iso.Table({"a": np.arange(3)}).to_numpy(),
    "Table.to_pandas": lambda w: iso.Table({"a": np.arange(3)}).to_pandas(),
    "Table.sort": lambda w: iso.Table({"a": np.arange(3)}).sort("a", descending=True)[:2],
    "Table.get": lambda w: iso.Table({"a": np.arange(3)}).get("a"),
    "Tasklet": lambda w: iso.Tasklet(lambda inputs, outputs: None, [w.reader["b"][:10]], name="one"),
    "Time": lambda w: iso.Time("2026-01-01T00:00:00Z"),
    "Time.from_ns": lambda w: iso.Time.from_ns(5),
    "TimebaseFit.rate": lambda w: w.correction.fit.rate("2026-01-01T00:00:01Z"),
    "TimebaseFit.uncertainty": lambda w: w.correction.fit.uncertainty("2026-01-01T00:00:01Z"),
    "Timebase.time_of": lambda w: w.reader["a/p"].timebase.time_of(5),
    "Timebase.value_of": lambda w: w.reader["a/p"].timebase.value_of("2026-01-01T00:00:01Z"),
}

_IMPORTS = "imports files, some milliseconds and a store each; tests/importers/test_import_memory.py watches its memory"
_OPTIONAL = "makes objects of a library that may not be installed"


def _examples() -> dict[str, Drive]:
    """Examples of the operators' declarations, by name."""
    drives: dict[str, Drive] = {}
    for one in declared():
        parsed = doctest.DocTestParser().get_examples(one["sections"]["example"])
        if parsed:
            code = compile("".join(example.source for example in parsed), one["name"], "exec")
            drives[one["name"]] = lambda _, code=code: exec(code, {})
    return drives


#: How operators are driven that are no more than their declaration.
EXAMPLES = _examples()

#: What is not called, and why.
UNCALLED: dict[str, str] = {
    "ClockCorrection.remove": "removes a correction for good",
    "Configuration.check": "compares texts",
    "Configuration.load": "reads a file in Python",
    "Configuration.save": "writes a file in Python",
    "Graph.add": "adds to a graph for good",
    "Graph.connect": "adds to a graph for good",
    "Graph.save": "replaces an attribute of a store",
    "Graph.path": "needs two timebases; a walk over a graph that is not changed",
    "Output": "exists while a tasklet runs; driven by Executor.run",
    "Range": "made by timebases of stores; values without memory of their own",
    "Rate.fromhex": "Python's float",
    "Rate.as_integer_ratio": "Python's float",
    "Segment.from_arrow": _OPTIONAL,
    "Signal.plot": _OPTIONAL,
    "Signal.correct_clock": "adds a correction to a signal for good",
    "Store.import_raw": _IMPORTS,
    "Store.ingest": _IMPORTS,
    "Timebase.convert": "needs two timebases; values without memory of their own",
    "Timebase.derive": "adds to a graph for good",
    "Timebase.fit": "adds to a graph for good",
    "from_obspy": _OPTIONAL,
}


def public() -> dict[str, Drive | None]:
    """All public names, methods by class and name, and how each is driven; None: in no way."""
    drives: dict[str, Drive | None] = {}

    def add(name: str, drive: Drive | None) -> None:
        if name in CALLS:
            drives[name] = CALLS[name]
        elif name not in UNCALLED:
            drives[name] = drive

    for name in iso.__all__:
        found = getattr(iso, name)
        if not inspect.isclass(found):
            add(name, None)
        elif not issubclass(found, BaseException):
            make = SAMPLES.get(name)
            add(name, make)
            if name in UNCALLED:
                continue
            for member in dir(found):
                if not member.startswith("_"):
                    add(f"{name}.{member}", None if make is None else _member(make, member))
    return drives


def _member(make: Drive, member: str) -> Drive:
    if make is SAMPLES["Plan"] and member in EXAMPLES:
        return EXAMPLES[member]

    def drive(world: World) -> object:
        made = make(world)
        got = getattr(made, member)
        # An attribute may hold a function of the caller's, which is no method.
        is_method = inspect.isroutine(getattr(type(made), member, None))
        return made, got() if is_method else got

    return drive
