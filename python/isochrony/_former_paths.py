"""Imports modules by the paths that they had while the package was flat: pickles of that time name them.

`FORMER_PATHS` has the former path of each module that moved. A finder, which Python asks last, imports the module from
where it is now, so both paths give the same module object.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["FORMER_PATHS", "find_former_paths", "former_path"]

#: Former and current paths within the package.
FORMER_PATHS: dict[str, str] = {
    "_operators": "steps.generated",
    "_remote_call": "workers.tasklet_call",
    "_worker": "workers.process",
    "arrow_columns": "tables.arrow",
    "attributes": "store.attributes",
    "audio_device": "live.audio_device",
    "blocks": "running.blocks",
    "chain": "steps.chain",
    "civil": "store.civil",
    "compiling": "functions.compiling",
    "control": "running.control",
    "convert": "store.convert",
    "declarations": "plan.declarations",
    "exporters": "store.exporters",
    "failures": "live.failures",
    "features": "steps.features",
    "files": "steps.files",
    "filters": "steps.filters",
    "following": "live.following",
    "hints": "store.hints",
    "identity": "tasklets.identity",
    "interrupts": "importers.interrupts",
    "keyword_options": "options.keywords",
    "meeting": "steps.meeting",
    "native_errors": "errors.native",
    "notebook": "store.notebook",
    "operators": "functions.operators",
    "pickling": "plan.pickling",
    "plots": "store.plots",
    "progress": "output.progress",
    "raised": "workers.exceptions",
    "report": "running.report",
    "resampling": "steps.resampling",
    "results": "running.results",
    "rows": "steps.rows",
    "run_options": "running.options",
    "running_plans": "running.status_files",
    "samples": "store.samples",
    "saved_plans": "plan.saved",
    "seedlink": "live.seedlink",
    "seedlink_connection": "live.seedlink_connection",
    "sources": "plan.sources",
    "spectra": "steps.spectra",
    "streams": "nbuffering.streams",
    "table": "tables.table",
    "table_columns": "tables.columns",
    "table_files": "tables.files",
    "table_text": "tables.text",
    "tapers": "steps.tapers",
    "tasklet_output": "tasklets.output",
    "tasklet_plans": "tasklets.plans",
    "tasklet_report": "tasklets.report",
    "tasklet_results": "tasklets.results",
    "transport": "workers.transport",
    "values": "store.values",
    "windows": "steps.windows",
    "writing": "output.files",
}
#: The same of modules whose former path is a package now, which has their public names.
_BECAME_PACKAGES: dict[str, str] = {
    "functions": "functions.python",
    "live": "live.listening",
    "nbuffering": "nbuffering.runs",
    "plan": "plan.plan",
    "running": "running.runs",
    "tasklets": "tasklets.executor",
    "tuning": "tuning.configuration",
}

_PACKAGE = __package__
_CURRENT = {f"{_PACKAGE}.{former}": f"{_PACKAGE}.{current}" for former, current in FORMER_PATHS.items()}
_FORMER = {
    f"{_PACKAGE}.{current}": f"{_PACKAGE}.{former}" for former, current in (FORMER_PATHS | _BECAME_PACKAGES).items()
}


def former_path(module: str) -> str:
    """The path that a module had first, for what is compared with what earlier versions wrote."""
    return _FORMER.get(module, module)


def find_former_paths() -> None:
    """Has Python import modules by their former paths, too."""
    sys.meta_path.append(_FormerPathFinder())


class _FormerPathFinder(importlib.abc.MetaPathFinder):
    """Finds modules by their former paths."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - Python passes it to every finder
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        current = _CURRENT.get(fullname)
        return None if current is None else importlib.machinery.ModuleSpec(fullname, _FormerPathLoader(current))


class _FormerPathLoader(importlib.abc.Loader):
    """Puts the module at its current path in the place of the one that was asked for."""

    def __init__(self, current: str) -> None:
        self._current = current

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self._current)
