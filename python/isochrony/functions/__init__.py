"""Functions and operators of your own in plans: `py`, `jit`, and classes with several inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._first_use import names_on_first_use

if TYPE_CHECKING:
    from .operators import Block, Break, Emitter, Operator, Port
    from .python import JitFunction, PythonFunction, imported, jit, py, shown

__all__ = [
    "Block",
    "Break",
    "Emitter",
    "JitFunction",
    "Operator",
    "Port",
    "PythonFunction",
    "imported",
    "jit",
    "py",
    "shown",
]

__getattr__, __dir__ = names_on_first_use(
    __name__,
    {
        ".operators": ("Block", "Break", "Emitter", "Operator", "Port"),
        ".python": ("JitFunction", "PythonFunction", "imported", "jit", "py", "shown"),
    },
)
