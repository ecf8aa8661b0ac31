"""Rust source of random expressions: how they are written for the engine, and as loops that a person would write.

A loop walks each window as often as reductions depend on reductions, computes every value of a pass in one go without
storing what lies between, in the dtypes that NumPy's rules give, and sums in the engine's lanes, so that results are
the same to the bit. Functions are the engine's own, inlined.

`python fused.py --seed 2026 --count 10 > ../crates/expr/benches/fused/generated.rs` writes the benchmark source of
other expressions.
"""

from __future__ import annotations

import argparse

from grammar import ARITHMETIC, COMPARISONS, DTYPES, FUNCTIONS, REDUCTIONS, WINDOW, Node, draw, python

RANK = ["bool", "i16", "i64", "f32", "f64"]
NAMES = {
    "+": "Add",
    "-": "Sub",
    "*": "Mul",
    "/": "Div",
    "<": "Lt",
    "<=": "Le",
    ">": "Gt",
    ">=": "Ge",
    "&": "And",
    "|": "Or",
}


def common(a: str, b: str) -> str:
    """The dtype in which two operands meet; `number` is a Python float."""
    if "number" in (a, b):
        other = b if a == "number" else a
        return other if other.startswith("f") else "f64"
    if {a, b} == {"i64", "f32"}:
        return "f64"
    return max(a, b, key=RANK.index)


def dtype_of(node: Node, samples: str) -> str:
    if node.is_number:
        return "number"
    args = [dtype_of(arg, samples) for arg in node.args]
    if node.op == "s":
        return samples
    if node.op in (*COMPARISONS, "&", "|"):
        return "bool"
    if node.op == "count":
        return "i64"
    if node.op == "where":
        return common(args[1], args[2])
    if node.op in ("mean", "std"):
        return args[0] if args[0].startswith("f") else "f64"
    if node.op == "sum":
        return args[0] if args[0].startswith("f") else "i64"
    if node.op in FUNCTIONS:
        return {"i16": "f32", "i64": "f64"}.get(args[0], args[0])
    if node.op == "/":
        found = common(*args)
        return found if found.startswith("f") else "f64"
    return args[0] if len(args) == 1 else common(*args)


class Loop:
    """The loop over samples of one dtype."""

    def __init__(self, root: Node, samples: str) -> None:
        self.root, self.samples = root, samples
        self.names: dict[Node, str] = {}

    def stage(self, node: Node) -> int:
        before = max((self.stage(arg) for arg in node.args), default=0)
        return before + (node.op in (*REDUCTIONS, "count"))

    def reductions(self, node: Node) -> list[Node]:
        """Those below and including a node, inner ones first."""
        found: list[Node] = []
        for arg in node.args:
            found += [inner for inner in self.reductions(arg) if inner not in found]
        return [*found, node] if node.op in (*REDUCTIONS, "count") and node not in found else found

    def value(self, node: Node, dtype: str) -> str:
        """A node's value as Rust, converted."""
        if node.is_number:
            return f"{float(node.op)!r}_{dtype}"
        own = dtype_of(node, self.samples)
        text = self.names.get(node) or ("x" if node.op == "s" else self.operation(node))
        if own == dtype:
            return text
        return f"(({text}) as {dtype})" if own == "i64" else f"{dtype}::from({text})"

    def operation(self, node: Node) -> str:
        dtypes = [dtype_of(arg, self.samples) for arg in node.args]
        own = dtype_of(node, self.samples)
        if node.op in COMPARISONS:
            meet = common(*dtypes)
            a, b = (self.value(arg, meet) for arg in node.args)
            return f"({a} {node.op} {b})"
        if node.op in ("&", "|"):
            return f"({self.value(node.args[0], 'bool')} {node.op} {self.value(node.args[1], 'bool')})"
        if node.op == "where":
            condition, yes, no = node.args
            return f"choose({self.value(condition, 'bool')}, {self.value(yes, own)}, {self.value(no, own)})"
        args = [self.value(arg, own) for arg in node.args]
        if node.op in ARITHMETIC:
            if own.startswith("i"):
                return f"{args[0]}.wrapping_{NAMES[node.op].lower()}({args[1]})"
            return f"({args[0]} {node.op} {args[1]})"
        if node.op in ("minimum", "maximum"):
            return f"{'less' if node.op == 'minimum' else 'more'}({args[0]}, {args[1]})"
        if node.op == "abs":
            return f"{args[0]}.{'wrapping_abs' if own.startswith('i') else 'abs'}()"
        if node.op == "sqrt":
            return f"{args[0]}.sqrt()"
        return f"math::{FUNCTIONS[node.op]}{'_f32' if own == 'f32' else ''}({args[0]})"

    def function(self, name: str, node: Node) -> str:
        dtype = dtype_of(node, self.samples)
        return f"let {name} = |x: {self.samples}| -> {dtype} {{ {self.value(node, dtype)} }};"

    def reduce(self, node: Node, at: int) -> tuple[list[str], list[str], list[str]]:
        """What comes before the pass, for each sample, and after."""
        arg = node.args[0]
        own, of = dtype_of(node, self.samples), dtype_of(arg, self.samples)
        before, lane = [self.function(f"f{at}", arg)], f"a{at}[lane]"
        each = [f"let v{at} = f{at}(x);"]
        if node.op == "count":
            before.append(f"let mut a{at} = [0u32; LANES];")
            return (
                before,
                [*each, f"{lane} += u32::from(v{at});"],
                [f"a{at}.iter().map(|&n| i64::from(n)).sum::<i64>()"],
            )
        if node.op in ("min", "max"):
            better, worst = ("less", "MAX") if node.op == "min" else ("more", "MIN")
            before.append(f"let mut a{at} = [{of}::{worst}; LANES];")
            after = f"a{at}.into_iter().fold({of}::{worst}, {better})"
            return before, [*each, f"{lane} = {better}(v{at}, {lane});"], [after]
        if of == "i16":
            before.append(f"let (mut a{at}, mut b{at}) = ([0i32; LANES], [0i64; LANES]);")
            each.append(f"let wide = i32::from(v{at}); {lane} += wide;")
            if node.op == "std":
                each.append(f"b{at}[lane] += i64::from(wide * wide);")
            return before, each, [f"whole::{node.op}(&a{at}, &b{at})"]
        shift = "0.0" if node.op == "sum" else f"f64::from(f{at}(window[0]))"
        before.append(f"let shift{at} = {shift};")
        before.append(f"let (mut a{at}, mut b{at}) = ([0.0; LANES], [0.0; LANES]);")
        each.append(f"let d = f64::from(v{at}) - shift{at}; {lane} += d;")
        if node.op == "std":
            each.append(f"b{at}[lane] += d * d;")
        return before, each, [f"real::{node.op}(shift{at}, a{at}, b{at}) as {own}"]

    def source(self) -> str:
        lines: list[str] = []
        todo = self.reductions(self.root)
        for stage in range(self.stage(self.root) + 1):
            here = [(at, node) for at, node in enumerate(todo) if self.stage(node) == stage + 1]
            parts = [self.reduce(node, at) for at, node in here]
            lines += [line for before, _, _ in parts for line in before]
            if parts:
                body = " ".join(line for _, each, _ in parts for line in each)
                lines.append("for group in window.as_chunks::<LANES>().0 { for lane in 0..LANES { let x = group[lane];")
                lines.append(body + " } }")
            for (at, node), (_, _, after) in zip(here, parts, strict=True):
                lines.append(f"let w{at} = {after[0]};")
                self.names[node] = f"w{at}"
        dtype = dtype_of(self.root, self.samples)
        if self.root.of_samples:
            lines.append(self.function("f", self.root))
            made = "Bool8::from(f(x))" if dtype == "bool" else "f(x)"
            lines.append(f"for (out, &x) in out.iter_mut().zip(window) {{ *out = {made}; }}")
        else:
            made = self.value(self.root, dtype)
            lines.append(f"out[0] = {'Bool8::from(' + made + ')' if dtype == 'bool' else made};")
        return "\n".join(lines)


def written(node: Node) -> str:
    """How the engine is told."""
    if node.op == "s":
        return "Expr::input()"
    if node.is_number:
        return f"Expr::from({float(node.op)!r})"
    if node.op in (*REDUCTIONS, "count"):
        op = f"Op::Reduce(Reduction::{node.op.capitalize()})"
    elif node.op == "where":
        op = "Op::Where"
    elif len(node.args) == 2:
        op = f"Op::Binary(Binary::{NAMES.get(node.op, node.op.capitalize())})"
    else:
        op = f"Op::Unary(Unary::{node.op.capitalize()})"
    return f"Expr::apply({op}, [{', '.join(written(arg) for arg in node.args)}]).unwrap()"


def source(nodes: list[Node], seed: int) -> str:
    """The whole file."""
    lines = [
        f"//! Ten expressions of seed {seed}, generated by `bench/fused.py`: do not edit.",
        "#![allow(clippy::all, unused)]",
        "",
        "use super::hand::{ByHand, Case, LANES, against_hand, choose, less, more, real, whole};",
        "use isochrony_dsp::math;",
        "use isochrony_expr::{Binary, Expr, Op, Reduction, Unary};",
        "use isochrony_segment::Bool8;",
        "",
        f"pub(crate) const SEED: u64 = {seed};",
        f"pub(crate) const WINDOW: usize = {WINDOW};",
    ]
    calls = []
    for at, node in enumerate(nodes):
        for samples in DTYPES.values():
            dtype = dtype_of(node, samples)
            output = "Bool8" if dtype == "bool" else dtype
            name = f"E{at}{samples.upper()}"
            rows = "out.chunks_exact_mut(WINDOW)" if node.of_samples else "out.chunks_exact_mut(1)"
            lines += [
                "",
                f"/// `{python(node)}`",
                f"struct {name};",
                f"impl ByHand<{samples}, {output}> for {name} {{",
                "#[inline(always)]",
                f"fn run(samples: &[{samples}], out: &mut [{output}]) {{",
                f"for (window, out) in samples.chunks_exact(WINDOW).zip({rows}) {{",
                Loop(node, samples).source(),
                "} } }",
            ]
            calls.append(f"against_hand::<{name}, {samples}, {output}>(case, &{written(node)}, {samples});")
    lines += [
        "",
        "pub(crate) fn run(case: &mut Case, i16: fn(usize) -> i16, f32: fn(usize) -> f32, f64: fn(usize) -> f64) {",
    ]
    return "\n".join([*lines, *calls, "}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--count", type=int, default=10)
    arguments = parser.parse_args()
    print(source(draw(arguments.seed, arguments.count), arguments.seed))


if __name__ == "__main__":
    main()
