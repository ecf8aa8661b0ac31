"""The example of stacking, for its tests: its modules, surveys of a small field, and their stacks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
MODULES = ("coadd", "cutouts", "fits_tiles", "frames", "pixels", "sky", "stacking_profile", "stacking_tasks")
SHAPE = 300, 420  # six sources
FORMS = ("raw", "gzip", "RICE")


@dataclass
class Survey:
    """Frames of a field, and its sources."""

    sources: list[Any]
    frames: list[Path]


@contextmanager
def imported() -> Iterator[SimpleNamespace]:
    """The modules of the example, which import one another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield SimpleNamespace(**{name: __import__(name) for name in MODULES})
        for name in (*MODULES, "stacking", "stacking_figure"):
            sys.modules.pop(name, None)


def survey_of(example: SimpleNamespace, folder: Path, seed: int, frames: int) -> Survey:
    """A field in raw frames."""
    paths = [example.frames.write(folder, seed, number, "raw", SHAPE) for number in range(frames)]
    return Survey(example.sky.catalogue(seed, SHAPE), paths)


def stacks_of(example: SimpleNamespace, survey: Survey) -> tuple[list[Any], list[str]]:
    """A stack of each source, of all frames; and what was wrong with frames."""
    tasks = example.stacking_tasks.workload(survey.sources, survey.frames, len(survey.sources))
    found: tuple[list[Any], list[str]] = example.stacking_tasks.stack(survey.sources, tasks)
    return found
