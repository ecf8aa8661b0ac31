"""Isochrony: exact time, honest gaps and fast reads for high-rate sensor signals.

>>> import isochrony as iso                          # doctest: +SKIP
>>> store = iso.open("water.iso")                    # doctest: +SKIP
>>> signal = store["stn_10/pressure"]                # doctest: +SKIP
>>> signal[iso.span("2010-03-01T00:30", "2010-03-01T01:00")].values()  # doctest: +SKIP

The names below load on first use, so that importing the package, and the
command line's help, cost nothing.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from ._first_use import names_on_first_use
from ._former_paths import find_former_paths
from .errors import (
    BadSourceError,
    EmptyResultWarning,
    IsochronyError,
    IsochronyWarning,
    MissingExtraError,
    NoMatchWarning,
    PartialImportWarning,
    PluginWarning,
    UncommittedWarning,
    UsageError,
)

find_former_paths()

if _extension := os.environ.get("ISOCHRONY_NATIVE"):
    # An extension module that has the native half, and operators of other crates.
    try:
        sys.modules[f"{__name__}._native"] = importlib.import_module(_extension)._native
    except ImportError as _error:
        raise ImportError(
            f"ISOCHRONY_NATIVE={_extension} cannot be imported ({_error}); set ISOCHRONY_NATIVE to the name "
            "of a module that Python can import, and add its folder to PYTHONPATH"
        ) from _error
    except AttributeError:
        raise ImportError(
            f"ISOCHRONY_NATIVE: {_extension} has no _native; name an extension module that exports it"
        ) from None

if TYPE_CHECKING:
    from ._native import (
        ClockCorrection,
        Expr,
        Gap,
        GapEdge,
        Gaps,
        Graph,
        Range,
        Run,
        Segment,
        Selection,
        Signal,
        Span,
        Store,
        Time,
        Timebase,
        TimebaseFit,
        backup,
        open,
        prefetch,
        span,
        verify,
    )
    from .errors.native import (
        CacheError,
        GapError,
        ImportRefusedError,
        NBufferError,
        OptionError,
        PlanError,
        RunError,
        SegmentError,
        StoreError,
        TaskletError,
        TimeError,
    )
    from .functions.operators import Block, Break, Emitter, Operator, Port
    from .functions.python import jit, py
    from .importers import import_files
    from .live.following import Followed, follow
    from .live.listening import Listener, listen
    from .nbuffering.progress import StreamProgress
    from .nbuffering.runs import NBufferReport, nbuffer
    from .plan.plan import Plan
    from .plan.sources import generate, scan
    from .running.control import Control
    from .running.runs import collect, run
    from .steps.tapers import adds_up, taper_factors
    from .store.convert import from_obspy
    from .tables.table import Table
    from .tasklets.executor import Executor, Output, Tasklet
    from .times import Rate, now
    from .tuning import Configuration

__all__ = [
    "BadSourceError",
    "Block",
    "Break",
    "CacheError",
    "ClockCorrection",
    "Configuration",
    "Control",
    "Emitter",
    "EmptyResultWarning",
    "Executor",
    "Expr",
    "Followed",
    "Gap",
    "GapEdge",
    "GapError",
    "Gaps",
    "Graph",
    "ImportRefusedError",
    "IsochronyError",
    "IsochronyWarning",
    "Listener",
    "MissingExtraError",
    "NBufferError",
    "NBufferReport",
    "NoMatchWarning",
    "Operator",
    "OptionError",
    "Output",
    "PartialImportWarning",
    "Plan",
    "PlanError",
    "PluginWarning",
    "Port",
    "Range",
    "Rate",
    "Run",
    "RunError",
    "Segment",
    "SegmentError",
    "Selection",
    "Signal",
    "Span",
    "Store",
    "StoreError",
    "StreamProgress",
    "Table",
    "Tasklet",
    "TaskletError",
    "Time",
    "TimeError",
    "Timebase",
    "TimebaseFit",
    "UncommittedWarning",
    "UsageError",
    "adds_up",
    "backup",
    "collect",
    "follow",
    "from_obspy",
    "generate",
    "import_files",
    "jit",
    "listen",
    "nbuffer",
    "now",
    "open",
    "prefetch",
    "py",
    "run",
    "scan",
    "span",
    "taper_factors",
    "verify",
]

__version__ = "0.1.0"

# Submodule -> public names that it holds.
_HOMES = {
    "._native": (
        "ClockCorrection", "Expr", "Gap", "GapEdge", "Gaps", "Graph", "Range", "Run", "Segment", "Selection", "Signal",
        "Span", "Store", "Time", "Timebase", "TimebaseFit", "backup", "open", "prefetch", "span", "verify",
    ),
    ".errors.native": (
        "CacheError", "GapError", "ImportRefusedError", "NBufferError", "OptionError", "PlanError", "RunError",
        "SegmentError", "StoreError", "TaskletError", "TimeError",
    ),
    ".functions.operators": ("Block", "Break", "Emitter", "Operator", "Port"),
    ".functions.python": ("jit", "py"),
    ".importers": ("import_files",),
    ".live.following": ("Followed", "follow"),
    ".live.listening": ("Listener", "listen"),
    ".nbuffering.progress": ("StreamProgress",),
    ".nbuffering.runs": ("NBufferReport", "nbuffer"),
    ".plan.plan": ("Plan",),
    ".plan.sources": ("generate", "scan"),
    ".running.control": ("Control",),
    ".running.runs": ("collect", "run"),
    ".steps.tapers": ("adds_up", "taper_factors"),
    ".store.convert": ("from_obspy",),
    ".tables.table": ("Table",),
    ".tasklets.executor": ("Executor", "Output", "Tasklet"),
    ".times": ("Rate", "now"),
    ".tuning": ("Configuration",),
}  # fmt: skip
_public_name, _ = names_on_first_use(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    return importlib.import_module(".cluster", __name__) if name == "cluster" else _public_name(name)


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return [*__all__, "__version__"]
