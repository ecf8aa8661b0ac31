"""Tuning of what has workers but is no plan: `iso.nbuffer` and `iso.Executor`.

The controller is that of plans. It calls workers threads, and the size of buffers the capacity of a link; here these
have their own names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from ..errors.native import OptionError
from ..output.progress import bytes_text
from .configuration import Configuration, TuningDecision, TuningReport, TuningRequest, checked_tune, is_cluster

__all__ = ["PoolTuningRequest"]

#: Alternatives in a line of a decision.
_SHOWN_ALTERNATIVES = 3


@dataclass(frozen=True, slots=True)
class PoolTuningRequest(TuningRequest):
    """What a run of `nbuffer` or an `Executor` is asked to tune, checked.

    Attributes:
        has_buffers: whether buffers have a size that can be chosen: those of `nbuffer`.
        states: what the model's servers are called.
        slots: of the cluster whose workers execute; 0: this machine executes.
    """

    has_buffers: bool = False
    states: tuple[str, ...] = ()
    slots: int = 0

    @classmethod
    def of(
        cls,
        tune: object,
        written: Sequence[object],
        *,
        has_buffers: bool,
        checks_identity: bool = True,
        machine: str = "",
    ) -> Self | None:
        """The request of a run; None: it is not tuned.

        Parameters:
            tune: what the user gave.
            written: what makes it another run: a configuration is for runs with the same.
            has_buffers: as the attribute.
            checks_identity: whether `written` and `machine` are known.
            machine: of the cluster that executes; empty: this machine.

        Raises:
            OptionError: `tune` is no legal value, or a configuration of another kind of run or machine.
        """
        given = checked_tune("tune", tune)
        if given is False:
            return None
        identity = hashlib.sha256(repr(list(written)).encode()).hexdigest()[:16]
        states = ("reading", "executing", "writing") if has_buffers else ("executing",)
        request = cls("change", plan=identity, machine=machine, has_buffers=has_buffers, states=states)
        if not isinstance(given, Configuration):
            return request if given is True else replace(request, mode="recommend")
        own = Configuration(given.workers, buffer_bytes=given.buffer_bytes, threads=given.threads)
        if is_cluster(given.machine) and len(given.replicas) == 1 and not has_buffers:
            # The slots that its cluster had.
            own = replace(own, replicas=given.replicas)
        is_of_plan = replace(given, plan="", machine="", pin=False) != own
        if bool(given.buffer_bytes) != has_buffers or is_of_plan:
            kind = "iso.nbuffer" if has_buffers else "an iso.Executor"
            raise OptionError(
                f"tune=: the configuration ({given}) is not one of {kind}; give what the report of such a run has as "
                "tuning.configuration"
            )
        if checks_identity:
            given.check(identity, machine)
        return replace(request, mode="apply", configuration=given)

    def of_slots(self, slots: int) -> Self:
        """The request for a cluster with so many slots: a configuration of all slots of another cluster uses all."""
        given = self.configuration
        if given is not None:
            used_all = bool(given.replicas) and given.workers >= given.replicas[0]
            given = replace(given, workers=slots if used_all else min(given.workers, slots), replicas=(slots,))
        return replace(self, slots=slots, configuration=given)

    @property
    def _worker(self) -> str:
        return "slot" if self.slots else "worker"

    def named(self, fields: dict[str, Any]) -> Configuration:
        """A configuration of the run, with its identity and machine."""
        buffer = fields["link_bytes"][0] if self.has_buffers else 0
        replicas = (self.slots,) if self.slots else ()
        named = TuningRequest.named(self, fields)
        return replace(named, replicas=replicas, link_bytes=(), buffer_bytes=buffer)

    def json(self) -> str:
        """As Rust reads it."""
        given, configuration = self.configuration, None
        if given is not None:
            link_bytes = [given.buffer_bytes] if self.has_buffers else []
            configuration = {"workers": given.workers, "replicas": [], "link_bytes": link_bytes}
        fields = {"mode": self.mode, "has_fixed_workers": False, "configuration": configuration, "status": None}
        return json.dumps(fields)

    def shown(self) -> str:
        """The configuration that the run has from start to end, in words; "" if that is not known before."""
        return "" if self.configuration is None else self._shown(self.configuration)

    def report(self, text: str) -> TuningReport:
        """What the native half found, in the words of workers and buffers."""
        found = TuningReport._of(text, self)
        bottleneck = json.loads(text)["tuning"]["bottleneck"]
        return replace(
            found,
            bottleneck=self._bottleneck(bottleneck),
            decisions=tuple(self._worded(one) for one in found.decisions),
        )

    def _bottleneck(self, found: Any) -> str | None:
        if isinstance(found, dict) and "stage" in found:
            return f"{self.states[found['stage']['stage']]} is always busy"
        if isinstance(found, dict) and "threads" in found:
            gain = 100 * found["threads"]["thread_gain"]
            return f"all {self._worker}s are busy; one more is predicted to gain {gain:.1f} %"
        return None

    def _worded(self, decision: TuningDecision) -> TuningDecision:
        reason = decision.reason.replace("thread", self._worker).replace(
            "samples/s", "bytes/s" if self.has_buffers else "/s"
        )
        return replace(decision, reason=reason, _text=self._line(decision, reason))

    def _shown(self, configuration: Configuration) -> str:
        buffers = f", buffers of {bytes_text(configuration.buffer_bytes)}" if self.has_buffers else ""
        return f"{configuration.workers} {self._worker}{'' if configuration.workers == 1 else 's'}{buffers}"

    def _line(self, decision: TuningDecision, reason: str) -> str:
        start = f"at {decision.at_s:.2f} s: "
        if decision.outcome == "load_changed":
            return f"{start}the load changed: {reason}"
        candidate = self._shown(decision.candidate)
        what = {
            "kept": f"kept {candidate}",
            "rejected": f"rejected {candidate}",
            "undecided": f"no certain gain by {candidate}",
            "applied": f"applied {candidate} at once",
            "rolled_back": f"went back from {candidate}",
            "too_short": f"did not try {candidate}: the run ends too soon",
        }[decision.outcome]
        why = [reason]
        if decision.predicted_gain is not None:
            why.append(f"predicted {100 * decision.predicted_gain:+.1f} %")
        gain = decision.gain
        if gain is not None:
            bounds = ""
            if gain.low is not None and gain.high is not None:
                bounds = f" ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
            why.append(f"measured {100 * gain.mean:+.1f} %{bounds}")
        others = [
            self._shown(other) + (f" {100 * predicted:+.1f} %" if predicted is not None else "")
            for other, predicted in decision.alternatives[:_SHOWN_ALTERNATIVES]
        ]
        if others:
            more = len(decision.alternatives) - len(others)
            why.append(f"behind it {', '.join(others)}" + (f", and {more} more" if more else ""))
        return f"{start}{what} ({'; '.join(why)})"
