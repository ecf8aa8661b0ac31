"""How a plan is executed, as a value: `Configuration`; and what tuning a run found: `TuningReport`.

>>> import numpy as np, isochrony as iso
>>> plan = iso.scan(np.arange(4_000_000.0), rate=1000).rewindow(1000).power()
>>> report = plan.run(tune="recommend").report
>>> report.tuning.configuration  # doctest: +ELLIPSIS
Configuration(workers=...)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from .._native import available_cores, processor_name
from ..errors.native import OptionError
from ..output.files import writing

if TYPE_CHECKING:
    from .._native import NativePlan

__all__ = [
    "Configuration",
    "Gain",
    "OperatorCost",
    "TuningDecision",
    "TuningReport",
    "TuningRequest",
    "checked_tune",
    "parsed_tune",
    "tuning_fields",
]

#: Of saved configurations.
FORMAT = 1
#: Outcomes of decisions while a run is tuned, and of all decisions. `TuningDecision` says what each means.
TRIAL_OUTCOMES = ("kept", "rejected", "undecided", "load_changed", "applied", "rolled_back", "too_short")
OUTCOMES = (*TRIAL_OUTCOMES, "chosen", "not_measured")
#: Where a configuration may state that a Python function is called.
PLACES = ("auto", "threads", "processes", "inline")

Tune = Literal["recommend"] | bool


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are(is_legal: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda values: isinstance(values, list) and all(map(is_legal, values))


def _is_place(value: object) -> bool:
    return value in PLACES


_COUNT, _COUNTS, _TEXT = "a whole number from 0", "a list of whole numbers from 0", "a text"
_PLACES = "a list of " + ", ".join(f'"{place}"' for place in PLACES)
#: Fields of a saved configuration: what they must be, and what those have that the first files lacked.
_SAVED: dict[str, tuple[str, Callable[[Any], bool], Any]] = {
    "workers": (_COUNT, _is_count, None),
    "replicas": (_COUNTS, _are(_is_count), None),
    "link_bytes": (_COUNTS, _are(_is_count), None),
    "threads": (_COUNT, _is_count, None),
    "plan": (_TEXT, _is_text, None),
    "machine": (_TEXT, _is_text, None),
    "buffer_bytes": (_COUNT, _is_count, 0),
    "pin": ("true or false", lambda value: isinstance(value, bool), False),
    "io": ("a list of texts", _are(_is_text), []),
    "task_bytes": (_COUNT, _is_count, 0),
    "batch_tasks": (_COUNT, _is_count, 0),
    "cuts": (_COUNTS, _are(_is_count), []),
    "places": (_PLACES, _are(_is_place), []),
}


#: Begins `Configuration.machine` of a cluster.
_CLUSTER = "a cluster"


def _machine() -> str:
    """What distinguishes machines by how fast they are: the processor's name and the cores that may be used."""
    return f"{processor_name() or 'unknown processor'}, {available_cores()} cores"


def cluster_machine(processors: Iterable[str | None]) -> str:
    """The same of a cluster: the processors of its workers, whose number may differ from run to run."""
    names = sorted({name or "unknown processors" for name in processors})
    return f"{_CLUSTER} of {', '.join(names)}" if names else _CLUSTER


def is_cluster(machine: str) -> bool:
    """Whether `Configuration.machine` is a cluster."""
    return machine.startswith(_CLUSTER)


def _differ(machine: str, other: str) -> bool:
    """Whether two machines are known to differ. Of a cluster without workers it is not known."""
    are_clusters = is_cluster(machine) and is_cluster(other)
    return machine != other and not (are_clusters and _CLUSTER in (machine, other))


def plan_identity(natives: Sequence[NativePlan], *, collects: bool) -> str:
    """A digest of operators, parameters and what is read: equal for plans that are written alike. Gathering results is
    an operator, too.
    """
    # What follows the plan as written depends on the version of the optimiser.
    written = [native.explain().partition("\nruns as\n")[0] for native in natives]
    return hashlib.sha256("\n".join([*written, f"collects={collects}"]).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Threads, replicas, links, task size, batches, cuts, places of functions, pinning and I/O of a run.

    Results do not depend on them.

    `TuningReport.configuration` has the one that tuning found. Save it, load it, and pass it as ``tune=`` to another
    run of the same plan on a machine, or a cluster, of the same kind.

    Attributes:
        workers: number of threads that compute at the same time; on a cluster, of slots that are given tasks or
            tasklets.
        replicas: number of replicas of each stage, in order of the plan; for a plan that runs in tasks, the largest
            number of workers; on a cluster, the number of slots that it had. A cluster with another number of slots
            uses all if all were used, else as many as were used, or as there are. Empty: as many as a run with these
            cuts has at the start.
        link_bytes: capacity of each link between stages, in bytes. Empty: as a run with these cuts has at the start.
        threads: number of threads that the run starts; those beyond `workers` sleep. 0 for a cluster.
        buffer_bytes: for `isochrony.nbuffer`, size of a buffer in bytes; 0 for plans and for an `isochrony.Executor`.
        task_bytes: about how many bytes of samples a task reads, for a plan that runs in tasks. 0: the size with which
            such a run begins, which depends on its recording. Where a recording or `memory=` does not allow so much, a
            run has the largest size that they do.
        batch_tasks: on a cluster, how many tasks a message to a slot carries, fewer at the end of a run. 0: as many as
            take about 20 ms.
        pin: whether each thread keeps to a CPU of its own.
        io: I/O strategy of each stored signal that the plan reads, in order of the plan (see `isochrony.scan`).
        cuts: number of the stage of each operator, in the order in which `explain` shows the plan as it runs; empty for
            a plan that runs in tasks or in one thread.
        places: where each Python function of the plan is called, in order of the plan: its `on_workers` (see
            `isochrony.py`), and for "any" what was chosen; "auto" if nothing was.
        plan: digest of the plan; empty: any plan.
        machine: processor and number of usable cores; for a cluster the processors of its workers; empty: any.

    >>> import isochrony as iso
    >>> one = iso.Configuration(workers=2, replicas=(1, 2), link_bytes=(65536,), threads=2)
    >>> one == iso.Configuration(workers=2, replicas=(1, 2), link_bytes=(65536,), threads=2)
    True
    """

    workers: int
    replicas: tuple[int, ...] = ()
    link_bytes: tuple[int, ...] = ()
    threads: int = 0
    plan: str = field(default="", repr=False)
    machine: str = field(default="", repr=False)
    buffer_bytes: int = 0
    pin: bool = False
    io: tuple[str, ...] = ()
    task_bytes: int = 0
    cuts: tuple[int, ...] = ()
    places: tuple[str, ...] = ()
    batch_tasks: int = 0

    def save(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Save the configuration to a JSON file.

        Parameters:
            path: path of the file.
            replace: replace an existing file.

        Raises:
            OutputExistsError: the file exists and `replace` is False.

        >>> import isochrony as iso, tempfile
        >>> path = tempfile.mkdtemp() + "/tuned.json"
        >>> iso.Configuration(workers=2).save(path)
        >>> iso.Configuration.load(path).workers
        2
        """
        fields = {name: getattr(self, name) for name in self.__slots__}
        with writing(Path(path), replace=replace) as file:
            file.write(f"{json.dumps({'format': FORMAT} | fields, indent=1)}\n".encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a configuration from a file that `save` wrote.

        Parameters:
            path: path of the file.

        Returns:
            A `Configuration`.

        Raises:
            OptionError: the file is missing, or is not a saved configuration.

        >>> import isochrony as iso, tempfile
        >>> path = tempfile.mkdtemp() + "/tuned.json"
        >>> iso.Configuration(workers=2, replicas=(1, 2)).save(path)
        >>> iso.Configuration.load(path) == iso.Configuration(workers=2, replicas=(1, 2))
        True
        """
        remedy = "give a file that Configuration.save wrote"
        try:
            fields = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise OptionError(f"{path} cannot be read as a configuration: {why}; {remedy}") from error
        if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
            raise OptionError(f"{path} is not a configuration of format {FORMAT}; {remedy}")
        values: dict[str, Any] = {}
        for name, (kind, is_legal, default) in _SAVED.items():
            value = fields.pop(name, default)
            if not is_legal(value):
                given = " is missing" if value is None else f"={value!r} is refused"
                raise OptionError(f"{path}: {name}{given}; it must be {kind}; {remedy}")
            values[name] = tuple(value) if isinstance(value, list) else value
        if fields:
            raise OptionError(f"{path}: a configuration has no {', '.join(fields)}; {remedy}")
        return cls(**values)

    def check(self, plan: str, machine: str = "") -> None:
        """Check that the configuration is for a plan, and for this machine or a cluster.

        Parameters:
            plan: digest of the plan, as in `plan`.
            machine: where the plan is to run, as in `machine`; empty: on this machine.

        Raises:
            OptionError: it is for another plan or another machine.

        >>> import isochrony as iso
        >>> iso.Configuration(workers=2).check("any plan")
        """
        if self.plan and self.plan != plan:
            raise OptionError(
                f"tune=: the configuration ({self}) was made for another plan: operators, parameters or signals "
                "differ, or one was run, the other collected; tune this one, and save what its report has"
            )
        machine = machine or _machine()
        if self.machine and _differ(self.machine, machine):
            raise OptionError(
                f"tune=: the configuration ({self}) was made on another machine ({self.machine}; this one: {machine}"
                "); tune the plan here with tune=True"
            )


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """Cost of one operator by itself, measured by `Plan.characterise`.

    Attributes:
        name: name of the operator.
        node: its number in the plan as it runs.
        ns_per_sample: nanoseconds per input sample, the median of the repetitions; for rows, per sample of the plan's
            sources.
        low_ns: lower quartile of the repetitions.
        high_ns: upper quartile of the repetitions.
        items: number of segments, or blocks of windows or rows, that were replayed to it.
        samples: number of samples in them.

    >>> import numpy as np, isochrony as iso
    >>> plan = iso.scan(np.arange(100_000.0), rate=1000).rewindow(100).power()
    >>> costs = plan.characterise(samples=50_000)
    >>> [cost.name for cost in costs if cost.ns_per_sample > 0][-1], costs[-1].low_ns <= costs[-1].high_ns
    ('power', True)
    """

    name: str
    node: int
    ns_per_sample: float
    low_ns: float
    high_ns: float
    items: int
    samples: int

    @classmethod
    def _all(cls, text: str) -> tuple[OperatorCost, ...]:
        def cost(fields: dict[str, Any]) -> OperatorCost:
            seconds = fields["seconds_per_sample"]
            low, median, high = (1e9 * seconds[name] for name in ("low", "median", "high"))
            return cls(fields["name"], fields["node"], median, low, high, fields["items"], fields["samples"])

        return tuple(map(cost, json.loads(text)))


@dataclass(frozen=True, slots=True)
class Gain:
    """A measured gain in throughput, as a fraction: 0.1 is 10 %.

    Attributes:
        mean: mean of the groups of measurement windows.
        low: lower confidence bound (97.5 %); None after a single group.
        high: upper confidence bound (97.5 %); None after a single group.
        groups: number of groups of measurement windows that were compared.

    >>> from isochrony.tuning import Gain
    >>> gain = Gain(mean=0.12, low=0.08, high=0.16, groups=4)
    >>> f"{gain.mean:.0%} more samples per second, at least {gain.low:.0%}"
    '12% more samples per second, at least 8%'
    """

    mean: float
    low: float | None
    high: float | None
    groups: int


@dataclass(frozen=True, slots=True)
class TuningDecision:
    """One decision while a run was tuned; prints as a line.

    Attributes:
        at_s: time of the decision in seconds since the start of the run; 0 before it.
        outcome: "kept", "rejected", "undecided" (it may gain, but not certainly, and may be tried again),
            "load_changed", "applied" (without a trial, after a change of the load; it is checked next), "rolled_back"
            (applied so, and worse), "too_short" (the rest of the run would not have repaid a trial, or a measurement),
            "chosen" (where a Python function is called, by measurements before the start; only recommended with
            ``tune="recommend"``), or "not_measured" (of such a function; the reason says why).
        before: the configuration before.
        candidate: the configuration that was tried.
        reason: why it was tried, or what happened.
        predicted_gain: gain in throughput that the model predicts, as a fraction; None if it predicts none. Of a place
            of a function: over calls in the thread of the run.
        gain: gain measured by the trial, or after a change at once; None without either, and where the feed was kept up
            with after it.
        alternatives: other candidates with their predicted gains, best first.

    >>> import numpy as np, isochrony as iso
    >>> plan = iso.scan(np.arange(4_000_000.0), rate=1000).rewindow(1000).power()
    >>> tuning = plan.run(workers=2, tune="recommend").report.tuning
    >>> tuning.decisions  # tune="recommend" tries nothing
    ()
    """

    at_s: float
    outcome: str
    before: Configuration
    candidate: Configuration
    reason: str
    predicted_gain: float | None
    gain: Gain | None
    alternatives: tuple[tuple[Configuration, float | None], ...]
    _text: str = field(repr=False)

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True, slots=True)
class TuningReport:
    """What tuning a run found and changed.

    Attributes:
        configuration: the configuration at the end, or with ``tune="recommend"`` the recommended one; pass it to the
            next run as ``tune=``. None if the plan ran in one thread, where nothing can be tuned, and no function
            should be called elsewhere.
        predicted_gain: predicted gain of the recommended configuration in throughput, as a fraction; None if no gain is
            expected.
        bottleneck: text: what limited the plan at the end, and the gain of one more worker there; None if the run was
            too short.
        rate: samples per second of the sources in the last measurement window; bytes per second for `isochrony.nbuffer`
            and `isochrony.Executor`.
        predicted_rate: the same, predicted by the model from the costs of the stages; None if the run was too short.
        model: what chose the candidates: "flow model", or "local search" alone once the model's predictions were off by
            more than the assumption that a change gains as much as the last one of its kind. None if the run was too
            short, or only measured or applied a given configuration.
        model_reason: text: why, with both errors; None where `model` is.
        model_error: mean error of the gains that the flow model predicted in the last trials, as a fraction; None
            before a trial that can tell.
        plain_error: the same of that assumption.
        windows: number of measurement windows.
        decisions: a `TuningDecision` each, in order: those about places of functions, and the newest 128 others.
        advice: texts: with ``tune="recommend"`` what is recommended about cuts, about the size of tasks and, on a
            cluster, about the tasks of a message, and why, or why nothing can be said about them.

    >>> import numpy as np, isochrony as iso
    >>> plan = iso.scan(np.arange(4_000_000.0), rate=1000).rewindow(1000).power()
    >>> tuning = plan.run(workers=2, tune="recommend").report.tuning
    >>> tuning.configuration  # doctest: +ELLIPSIS
    Configuration(workers=...)
    """

    configuration: Configuration | None
    predicted_gain: float | None
    bottleneck: str | None
    rate: float
    predicted_rate: float | None
    model: str | None
    model_reason: str | None
    model_error: float | None
    plain_error: float | None
    windows: int
    decisions: tuple[TuningDecision, ...]
    advice: tuple[str, ...] = ()

    @classmethod
    def _of(cls, text: str, request: TuningRequest) -> Self:
        read = json.loads(text)
        fields = read["tuning"]
        start = fields["start"]
        chosen = {name: tuple(start[name]) for name in ("io", "cuts", "places")} | {"pin": start["pin"]}

        def named(one: dict[str, Any]) -> Configuration:
            return replace(request.named(one), **chosen)

        configuration = fields["configuration"]
        trials = (
            TuningDecision(
                at_s=one["at_s"],
                outcome=one["outcome"],
                before=named(one["from"]),
                candidate=named(one["to"]),
                reason=one["reason"],
                predicted_gain=one["predicted_gain"],
                gain=None if one["gain"] is None else Gain(**one["gain"]),
                alternatives=tuple((named(other), gain) for other, gain in one["alternatives"]),
                _text=line,
            )
            for one, line in zip(fields["decisions"], read["decisions"], strict=True)
        )
        first = next((one["from"] for one in fields["decisions"]), configuration)
        begun = named(first if first is not None else _IN_ONE_THREAD)
        places = (_place_decision(one, line, begun) for one, line in zip(fields["places"], read["places"], strict=True))
        model = fields["model"] or {}
        return cls(
            configuration=None if configuration is None else named(configuration),
            predicted_gain=fields["predicted_gain"],
            bottleneck=read["bottleneck"],
            rate=fields["rate"],
            predicted_rate=fields["predicted_rate"],
            model=read["model"],
            model_reason=read["model_reason"],
            model_error=model.get("model_error"),
            plain_error=model.get("plain_error"),
            windows=fields["windows"],
            decisions=(*places, *trials),
            advice=tuple(fields["advice"]),
        )


@dataclass(frozen=True, slots=True)
class TuningRequest:
    """What a run is asked to tune, checked.

    Attributes:
        mode: "change", "recommend" or "measure".
        has_fixed_workers: whether the user gave a number of workers.
        configuration: to be applied; None: that of the run.
        status: file for views of the run.
        pin: whether threads are pinned; None: the tuner chooses.
        threads: that the run starts.
        plan: identity of the plan; `of_plans` sets it.
        machine: the cluster; empty: this machine.
    """

    mode: str
    has_fixed_workers: bool = False
    configuration: Configuration | None = None
    status: Path | None = None
    pin: bool | None = None
    threads: int = 0
    plan: str = ""
    machine: str = ""

    def of_plans(
        self, natives: Sequence[NativePlan], *, collects: bool, cluster: Callable[[], str] | None = None
    ) -> Self:
        """The request for certain plans.

        Parameters:
            natives: the plans.
            collects: whether their results are gathered.
            cluster: gives the `machine` of the cluster that executes the plans; None: this machine executes them.

        Raises:
            OptionError: the configuration is of another plan or machine.
        """
        if self.mode == "measure" and self.configuration is None:
            return self
        identity = plan_identity(natives, collects=collects)
        machine = "" if cluster is None else cluster()
        if self.configuration is not None:
            self.configuration.check(identity, machine)
        return replace(self, plan=identity, machine=machine)

    def named(self, fields: dict[str, Any]) -> Configuration:
        """A configuration of the run, with its plan and machine."""
        return Configuration(
            workers=fields["workers"],
            replicas=tuple(fields["replicas"]),
            link_bytes=tuple(fields["link_bytes"]),
            task_bytes=fields["task_bytes"],
            batch_tasks=fields["batch_tasks"],
            threads=self.threads,
            plan=self.plan,
            machine=self.machine or _machine(),
        )

    def json(self) -> str:
        """As Rust reads it."""
        given = self.configuration
        configuration = None if given is None else {name: getattr(given, name) for name in _RUST_FIELDS}
        fields = {"mode": self.mode, "has_fixed_workers": self.has_fixed_workers, "configuration": configuration}
        # One that was written by hand, or saved before there were such values, states none.
        stated = {name: getattr(given, name, None) or None for name in ("io", "cuts", "places")}
        fields |= {"status": None if self.status is None else str(self.status), "pin": self.pin} | stated
        return json.dumps(fields)


_RUST_FIELDS = ("workers", "replicas", "link_bytes", "task_bytes", "batch_tasks")
#: What Rust has no configuration of.
_IN_ONE_THREAD: dict[str, Any] = {"workers": 1, "replicas": [], "link_bytes": [], "task_bytes": 0, "batch_tasks": 0}


def _place_decision(one: dict[str, Any], line: str, begun: Configuration) -> TuningDecision:
    """A decision about where a function is called, of a run that began so."""
    after, at = one["to"], one["position"]
    return TuningDecision(
        at_s=0.0,
        outcome=one["outcome"],
        before=replace(begun, places=tuple(one["from"])),
        candidate=replace(begun, places=tuple(after)),
        reason=one["reason"],
        predicted_gain=one["predicted_gain"],
        gain=None,
        alternatives=tuple(
            (replace(begun, places=(*after[:at], place, *after[at + 1 :])), gain) for place, gain in one["alternatives"]
        ),
        _text=line,
    )


def parsed_tune(text: str) -> bool | str:
    """The value of ``tune=`` that a command line gives as text."""
    return {"yes": True, "no": False}.get(text, text)


def tuning_fields(tuning: TuningReport) -> dict[str, Any]:
    """A report as JSON has it: decisions as lines."""
    return asdict(tuning) | {"decisions": [str(decision) for decision in tuning.decisions]}


def checked_tune(name: str, tune: object) -> Tune | Configuration:
    """A legal value of ``tune=``.

    Raises:
        OptionError: it is none.
    """
    if isinstance(tune, bool | Configuration):
        return tune
    if tune == "recommend":
        return "recommend"
    remedy = 'give True, "recommend", a Configuration, or the file of one'
    if not isinstance(tune, str | os.PathLike):
        raise OptionError(f"{name}={tune!r} is refused; {remedy}")
    path = os.fspath(tune)
    try:
        return Configuration.load(path)
    except OptionError as error:
        if not Path(path).exists():
            raise OptionError(f"{name}={path!r} is refused, since there is no such file; {remedy}") from error
        raise OptionError(f"{name}={path!r} {str(error).removeprefix(f'{path} ')}") from error
