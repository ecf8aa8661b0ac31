"""Random expressions of the samples `s` of a window, and what they are in Python; `fused.py` writes them in Rust.

Nothing is chosen: shapes, operations and numbers come from the seed alone. Drawn again is only what says nothing:
results that are not finite, or the same everywhere, on samples of some dtype.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

WINDOW = 4096
DTYPES = {"int16": "i16", "float32": "f32", "float64": "f64"}
ARITHMETIC = {"+": "plus", "-": "minus", "*": "times", "/": "over"}
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
FUNCTIONS = {"exp": "exp", "sin": "sin", "cos": "cos", "tanh": "tanh", "log1p": "ln_1p", "sqrt": "sqrt"}
REDUCTIONS = ["mean", "std", "min", "max", "sum"]


@dataclass(frozen=True)
class Node:
    """An operation on nodes; a number is a node without arguments whose operation is its value."""

    op: Any
    args: tuple[Node, ...] = ()

    @property
    def is_number(self) -> bool:
        return not self.args and self.op != "s"

    @property
    def of_samples(self) -> bool:
        if self.op in (*REDUCTIONS, "count"):
            return False
        return self.op == "s" or any(arg.of_samples for arg in self.args)


S = Node("s")


class Grammar:
    """Draws expressions."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def expression(self) -> Node:
        """One value a sample, a mask, or one value a window."""
        size = self.dice.randint(3, 8)
        kind = self.dice.choice(["samples", "mask", "window", "count"])
        if kind == "samples":
            return self.samples(size)
        if kind == "window":
            return Node(self.dice.choice(REDUCTIONS), (self.samples(size),))
        mask = self.mask(size)
        return Node("count", (mask,)) if kind == "count" else mask

    def samples(self, size: int) -> Node:
        """Numbers, one a sample, of at most so many operations."""
        if size <= 0:
            return S
        kind = self.dice.choices(["number", "window", "both", "function", "bound", "where"], [6, 3, 4, 2, 2, 1])[0]
        inner = self.samples(size - 1)
        if kind == "function":
            name = self.dice.choice([*FUNCTIONS, "abs"])
            if name in ("sqrt", "log1p"):
                inner = Node("abs", (inner,))
            return Node(name, (inner,))
        if kind == "bound":
            return Node(self.dice.choice(["minimum", "maximum"]), (inner, self.number()))
        if kind == "where":
            return Node("where", (self.mask(size // 2), inner, self.number()))
        if kind == "both":
            other = self.samples(self.dice.randint(0, size // 2))
            return Node(self.dice.choice("+-*"), (inner, other))
        other = self.number() if kind == "number" else self.window(size // 2)
        operands = [inner, other]
        op = self.dice.choice([*ARITHMETIC])
        if op != "/" and self.dice.random() < 0.25:
            operands.reverse()
        return Node(op, tuple(operands))

    def mask(self, size: int) -> Node:
        """A comparison, or two of them."""
        if size >= 4 and self.dice.random() < 0.3:
            return Node(self.dice.choice("&|"), (self.mask(size // 2), self.mask(size // 2)))
        other = self.number() if self.dice.random() < 0.5 else self.window(size // 3)
        return Node(self.dice.choice([*COMPARISONS]), (self.samples(size - 1), other))

    def window(self, size: int) -> Node:
        """A value of the window."""
        return Node(self.dice.choice(REDUCTIONS[:4]), (self.samples(size // 2),))

    def number(self) -> Node:
        return Node(self.dice.choice([0.25, 0.5, 0.75, 1.5, 2.5, 3.0, -0.3, 0.1]))


def samples(dtype: str, count: int, seed: int = 1) -> np.ndarray:
    """Noise: 12 bits of an instrument, or numbers between minus one and one."""
    counts = np.random.default_rng(seed).integers(-2048, 2048, count, dtype=np.int16)
    return counts if dtype == "int16" else (counts / np.float64(2048)).astype(dtype)


def numpy_value(node: Node, windows: np.ndarray) -> Any:
    """The expression on a matrix of windows, as one writes it in NumPy."""
    args = [numpy_value(arg, windows) for arg in node.args]
    if node.op == "s":
        return windows
    if node.is_number:
        return node.op
    if node.op == "count":
        return np.count_nonzero(args[0], axis=1, keepdims=True)
    if node.op in REDUCTIONS:
        return getattr(np, node.op)(args[0], axis=1, keepdims=True)
    operators = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "<": np.less, "<=": np.less_equal}
    operators |= {">": np.greater, ">=": np.greater_equal, "&": np.bitwise_and, "|": np.bitwise_or}
    return operators.get(node.op, getattr(np, node.op, None))(*args)


def python(node: Node) -> str:
    """The expression as text."""
    args = [python(arg) for arg in node.args]
    if not args:
        return str(node.op)
    if node.op in (*REDUCTIONS, "count"):
        return f"{args[0]}.{node.op}()"
    if len(args) == 2 and not str(node.op).isalpha():
        return f"({args[0]} {node.op} {args[1]})"
    return f"np.{node.op}({', '.join(args)})"


def traced(node: Node, s: Any) -> Any:
    """The expression of an `isochrony.Expr`."""
    return eval(python(node), {"np": np, "s": s})  # the text is this module's own


def says_something(node: Node) -> bool:
    with np.errstate(all="ignore"):
        for dtype in DTYPES:
            value = np.asarray(numpy_value(node, samples(dtype, 4 * WINDOW).reshape(4, WINDOW)))
            if not np.isfinite(value).all() or value.min() == value.max():
                return False
            if value.dtype == bool and not 0.02 < value.mean() < 0.98:
                return False
    return True


def draw(seed: int, count: int) -> list[Node]:
    """So many expressions of a seed, all different."""
    grammar = Grammar(seed)
    found: list[Node] = []
    while len(found) < count:
        node = grammar.expression()
        if node not in found and node.op != "s" and says_something(node):
            found.append(node)
    return found
