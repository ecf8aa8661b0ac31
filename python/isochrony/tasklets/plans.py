"""Plans as tasklets' work: what makes each the plan that it is, and what it writes beside a tasklet's outputs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors.native import OptionError, PlanError
from ..steps.chain import Chain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .executor import Tasklet

__all__ = ["Known", "known", "writes_once"]

# Steps that begin or continue a file or a signal whenever the plan runs. `annotate` adds what is not there yet.
_SINKS = ("sink", "sink_wav", "sink_parquet", "sink_ipc")
_SHOWN = re.compile(rf"(?:^|-> |\d: )((?:{'|'.join(_SINKS)})\(.*?\))(?= -> | <- |$)", re.MULTILINE)
# Arrays, and functions that generate samples.
_IN_MEMORY = re.compile(r"\bscan\((?:array|<)")


class Known(NamedTuple):
    """What was asked once of a plan, which does not change.

    Attributes:
        text: the same in every process; None: it scans samples in memory, which may be others each time.
        shown: the plan as it prints.
        sinks: steps that write to a signal or a file: what they write to, and how the step is shown.
    """

    text: str | None
    shown: str
    sinks: tuple[tuple[str, str], ...]


def known(plan: Chain) -> Known:
    """What a plan is, which is kept with the plan and no longer."""
    found: Known | None = getattr(plan, "_known", None)
    if found is None:
        found = plan._known = _looked_at(plan)
    return found


def _looked_at(plan: Chain) -> Known:
    shown = str(plan)
    try:
        saved = plan.to_json()
    except PlanError as error:
        # It holds a function or samples that have no place in a saved plan.
        in_memory = "samples in memory" in str(error) or _IN_MEMORY.search(shown) is not None
        return Known(None if in_memory else shown, shown, tuple((step, step) for step in _SHOWN.findall(shown)))
    nodes = json.loads(saved)["nodes"]
    return Known(saved, shown, tuple(_sink(one["op"], one["params"]) for one in nodes if one["op"] in _SINKS))


def _sink(step: str, params: dict[str, Any]) -> tuple[str, str]:
    to = params.get("path") or params.get("signal")
    return f"{params.get('store')} {to}", f"{step}({to})"


def writes_once(tasklets: Iterable[Tasklet]) -> None:
    """Each run of a sink begins its file or signal anew, or continues where another has stopped.

    Raises:
        OptionError: two tasklets write to the same.
    """
    writers: dict[str, str] = {}
    for one in tasklets:
        if not isinstance(one.work, Chain):
            continue
        for to, step in known(one.work).sinks:
            if to in writers:
                raise OptionError(
                    f"tasklets {writers[to]!r} and {one.name!r} both write to the output of {step}, so one would "
                    "overwrite the other; remove that step from both plans and give each tasklet its own range in "
                    "outputs=, or write that output from one tasklet only"
                )
            writers[to] = one.name
