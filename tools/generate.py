"""Writes Python methods and documentation from the declarations of operators: run `make generate`.

`python/isochrony/steps/generated.py` has the methods of `Plan`, `docs/operators.md` the operator reference. Both are
committed; `tests/plan/test_generated.py` fails if they are not what the built extension declares.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from isochrony.plan.declarations import (
    INTERNAL,
    PUBLIC,
    call,
    declared,
    legal_values,
    method,
    others,
    own_inputs,
    signature,
)

ROOT = Path(__file__).resolve().parents[1]

#: Operators whose method of `Plan` is written by hand, and why.
BY_HAND = {
    "filter": "traces a lambda, or takes a Python function",
    "fir": "taps are a count or the taps themselves",
    "group_by": "its aggregates are given to Groups.agg",
    "ifft": "short rows are told apart by what fft was computed of",
    "limit": "refuses 0, which saved plans may have",
    "map": "traces a lambda, or takes a Python function",
    "resample": "takes rate_hz, or up and down",
    "rewindow": "takes window, or seconds",
    "rows": "traces lambdas by name",
    "select": "traces lambdas by name",
    "envelope": "is stream_envelope for samples",
    "stream_envelope": "is envelope of samples",
    "sync": "gives several plans",
    "zip": "gives several plans",
}

MODULE = '''"""Methods of `isochrony.Plan` that only pass parameters: `make generate` writes them from declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

import numpy.typing as npt

from .. import options as _options
from . import tapers as _tapers
from .chain import Chain

if TYPE_CHECKING:
    from ..options import Duration, Length
    from ..plan.plan import Plan
    from .tapers import Taper

__all__ = ["GeneratedOperators"]


class GeneratedOperators(Chain):
    """Part of `isochrony.Plan`: operators whose parameters are checked here and passed on."""

    __slots__ = ()

'''

REFERENCE = """# Operators

Written by `make generate` from the operators' declarations; the first line of an entry is the method of
`isochrony.Plan` that adds it. Samples have the shape (n,), windows (n, N), ranges (n, 2). *float32 for float32* holds
without a calibration: values of calibrated samples are float64. *Edges* says what happens at the ends of each gap-free
range, *delay* by how much results lag behind their input. `isochrony operators NAME` prints an entry.

A *length* (a parameter in samples, in seconds, or in samples or windows) takes a number in its unit, or text with a
unit of its own: `"125ms"`, `"2s"`, `"1min"`, `"3us"` (ns, us, ms, s, min, h) or `"512 samples"`; in Python also a
`timedelta`, also of NumPy or pandas. A time is rounded to the nearest whole number of samples at the rate of the
operator's input, halves up, computed exactly from its decimals; a number out of range, such as a window of 0 samples,
is an error. The plan states the result: `rewindow("125ms")` at 2,000 Hz prints as `rewindow(window=250)`.
"""


def methods(declarations: Iterable[Mapping[str, Any]]) -> str:
    """The module with the generated methods."""
    generated = [one for one in declarations if one["name"] not in BY_HAND | INTERNAL]
    source = MODULE + "\n".join(method(one) for one in sorted(generated, key=lambda one: one["name"]))
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "generated.py", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def reference(declarations: Iterable[Mapping[str, Any]]) -> str:
    """The operator reference."""
    families: dict[str, list[Mapping[str, Any]]] = {}
    for one in declarations:
        if one["name"] not in INTERNAL:
            families.setdefault(one["family"], []).append(one)
    text = REFERENCE
    for family in sorted(families):
        text += f"\n## {family.replace('_', '-').capitalize()}\n"
        text += "".join(_entry(one) for one in sorted(families[family], key=lambda one: one["name"]))
    return text


def _entry(declaration: Mapping[str, Any]) -> str:
    name, sections = declaration["name"], declaration["sections"]
    text = f"\n### {name}\n\n"
    # Generated methods are those of the declarations, not of the file that this may be about to change.
    text += f"`{call(declaration) if name in BY_HAND else f'{name}({signature(declaration)})'}`\n\n"
    text += f"{declaration['summary']}\n"
    text += f"\n**Inputs.** {' '.join(own_inputs(declaration))}\n"
    text += f"\n**Returns.** {_flat(sections['returns'])}\n"
    rows = [(f"`{plan}`", "", "", what) for plan, what in others(declaration).items() if name not in BY_HAND]
    rows += [_row(param) for param in declaration["params"]]
    if rows:
        text += "\n| parameter | unit, legal values | default | meaning |\n|---|---|---|---|\n"
        text += "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
    for title in ("conventions", "errors", "source"):
        if sections[title] and sections[title] != "None.":
            text += f"\n**{title.capitalize()}.** {_flat(sections[title])}\n"
    if declaration["alternatives"]:
        alike: dict[str, list[str]] = {}
        for other, tolerance in declaration["alternatives"]:
            alike.setdefault(_agreement(tolerance), []).append(other)
        given = (f"{', '.join(names)}: {how}" for how, names in alike.items())
        text += f"\n**Implementations.** {'; '.join(given)}.\n"
    if sections["example"]:
        text += f"\n```pycon\n{sections['example']}\n```\n"
    elif name in BY_HAND:
        text += f"\nThe docstring of `Plan.{PUBLIC.get(name, name)}` has an example.\n"
    return text


def _row(param: Mapping[str, Any]) -> tuple[str, str, str, str]:
    legal = legal_values(param) + ("; adjustable" if param["adjustable"] else "")
    default = "" if param["required"] else f"`{param['default']!r}`" if param["default"] not in (None, []) else "none"
    return f"`{param['name']}`", legal.lstrip("; "), default, param["doc"]


def _flat(text: str) -> str:
    return " ".join(text.split())


def _agreement(tolerance: float | None) -> str:
    if tolerance is None:
        return "the same bits as the default"
    # Roundings of float32 are 2**29 times as large.
    single = f"{tolerance * 2**29:.0e}".replace("e-0", "e-")
    return f"within {tolerance:g} of the largest input of what the default gives, for float32 within {single}"


def outputs() -> dict[Path, str]:
    """What every generated file should have."""
    declarations = declared()
    return {
        ROOT / "python/isochrony/steps/generated.py": methods(declarations),
        ROOT / "docs/operators.md": reference(declarations),
    }


if __name__ == "__main__":
    for path, wanted in outputs().items():
        path.write_text(wanted, encoding="utf-8")
        print(path.relative_to(ROOT))
