"""Writes the methods of `isochrony.Plan` from the declarations of operators.

`tools/generate.py` writes those of the built-in operators into `_operators.py`. Operators that another crate adds to
the extension get theirs when `isochrony.plan` is imported.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["add_methods", "declared", "docstring", "legal_values", "method", "others", "signature"]

#: An operator's declaration, as `_native.operator_declarations` gives it.
Declaration = Mapping[str, Any]

_WIDTH = 112
_WORDS = {"s": "seconds"}
# Bounds from here on only say that some number is needed.
_NO_BOUND = 1e8


def declared(*, added: bool = False) -> list[dict[str, Any]]:
    """Declarations of all operators, or of those that another crate added."""
    from ._native import operator_declarations

    declarations: list[dict[str, Any]] = json.loads(operator_declarations(added))
    return declarations


def others(declaration: Declaration) -> dict[str, str]:
    """Names of an operator's further inputs, and what they are."""
    found = {}
    for line in _paragraphs(declaration["sections"]["inputs"]):
        name, separator, text = line.partition(": ")
        if separator and name.startswith("`"):
            found[name.strip("`")] = text
    return found


def signature(declaration: Declaration) -> str:
    """The parameters of the method, without `self`."""
    plans = others(declaration)
    several = not declaration["inputs"]["exact"]
    before = [f"*{name}: Plan" if several else f"{name}: Plan" for name in plans]
    named: list[str] = []
    for param in declaration["params"]:
        if param["kind"] == "list":
            before.append(f"*{param['name']}: str")
            several = True
            continue
        text = f"{param['name']}: {_annotation(param)}"
        if not _must_be_given(param):
            text += f" = {_default(param)!r}".replace("'", '"')
        (before if _must_be_given(param) or param["positional"] else named).append(text)
    separator = ["*"] if named and not several else []
    return ", ".join(before + separator + named)


def method(declaration: Declaration) -> str:
    """The source of the method, indented as in a class."""
    name, plans = declaration["name"], others(declaration)
    given = ", ".join(plans)
    inputs = given if not declaration["inputs"]["exact"] else f"({given},)"
    arguments = [f'"{name}"', *([inputs] if plans else [])]
    arguments += [f"{param['name']}={_checked(name, param)}" for param in declaration["params"]]
    separator = ", " if signature(declaration) else ""
    body = f"def {name}(self{separator}{signature(declaration)}) -> Self:\n"
    body += textwrap.indent(f'"""{docstring(declaration)}"""\nreturn self._then({", ".join(arguments)})\n', "    ")
    return textwrap.indent(body, "    ")


def docstring(declaration: Declaration) -> str:
    """The method's docstring: sections in the order of every docstring of the package."""
    sections = declaration["sections"]
    text = textwrap.fill(_imperative(declaration["summary"]), _WIDTH - 3) + "\n"
    text += "".join(_section("Inputs", paragraph) for paragraph in _paragraphs(sections["inputs"])[:1])
    text += _section("Returns", sections["returns"])
    plans = others(declaration)
    several = not declaration["inputs"]["exact"]
    lines = [f"{'*' if several else ''}{name}: {what}" for name, what in plans.items()]
    lines += [f"{param['name']}{_bracket(param)}: {param['doc']}" for param in declaration["params"]]
    if lines:
        text += "\nParameters:\n" + "".join(_wrapped(line, "    ", "        ") for line in lines)
    text += _section("Conventions", sections["conventions"])
    raised = []
    if declaration["params"]:
        raised.append("OptionError: an argument of the wrong type, or none of its choices.")
    if sections["errors"] not in ("", "None."):
        raised.append(f"PlanError: {sections['errors'][0].lower() + sections['errors'][1:]}")
    if raised:
        text += "\nRaises:\n" + "".join(_wrapped(line, "    ", "        ") for line in raised)
    text += _section("Source", sections["source"])
    if sections["example"]:
        text += f"\n{sections['example']}\n"
    return text.replace("\\", "\\\\")


def legal_values(param: Mapping[str, Any]) -> str:
    """A parameter's unit and legal values in words."""
    unit: str = _WORDS.get(param["unit"], param["unit"])
    if param["choices"]:
        return " or ".join(f'"{choice}"' for choice in param["choices"])
    if not param["range"]:
        return unit
    low, high = param["range"]
    if low <= -_NO_BOUND:
        return unit
    bounds = f"from {low:g}" if high >= _NO_BOUND else f"{low:g} to {high:g}"
    return f"{unit}, {bounds}" if unit else bounds


def add_methods(plan: type) -> None:
    """Gives a class methods for the operators that another crate added to the extension."""
    from . import _operators

    for declaration in declared(added=True):
        if hasattr(plan, declaration["name"]):
            continue
        names = dict(vars(_operators))
        exec(textwrap.dedent(method(declaration)), names)
        function = names[declaration["name"]]
        function.__qualname__ = f"{plan.__name__}.{declaration['name']}"
        setattr(plan, declaration["name"], function)


def _imperative(summary: str) -> str:
    """A sentence as Python's docstrings begin: "Computes ..." is "Compute ..."."""
    verb, space, rest = summary.partition(" ")
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("s", "")):
        if verb.endswith(ending):
            return verb.removesuffix(ending) + instead + space + rest
    return summary


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def _section(title: str, text: str) -> str:
    if not text:
        return ""
    return f"\n{title}:\n" + "\n".join(_wrapped(part, "    ", "    ") for part in _paragraphs(text))


def _wrapped(text: str, first: str, rest: str) -> str:
    lines = textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) + "\n"


def _bracket(param: Mapping[str, Any]) -> str:
    notes: Iterable[str] = (legal_values(param), "adjustable" if param["adjustable"] else "")
    text = "; ".join(filter(None, notes))
    return f" ({text})" if text else ""


def _must_be_given(param: Mapping[str, Any]) -> bool:
    return bool(param["required"] or param["explicit"])


def _default(param: Mapping[str, Any]) -> Any:
    # An empty list stands for what is left out.
    return None if param["default"] == [] else param["default"]


def _annotation(param: Mapping[str, Any]) -> str:
    choices = ", ".join(f'"{choice}"' for choice in param["choices"])
    kinds = {
        "integer": "int",
        "integers": "Sequence[int]",
        "number": "float",
        "numbers": "npt.ArrayLike",
        "bool": "bool",
        "text": f"Literal[{choices}]" if choices else "str",
        "taper": "Taper",
    }
    text = kinds[param["kind"]]
    return text if _must_be_given(param) or _default(param) is not None else f"{text} | None"


def _checked(operator: str, param: Mapping[str, Any]) -> str:
    """What the method gives the engine for a parameter."""
    text = "".join(_conversion(operator, param))
    if _must_be_given(param) or _default(param) is not None or param["kind"] == "list":
        return text
    return f"{param['default']!r} if {param['name']} is None else {text}"


def _conversion(operator: str, param: Mapping[str, Any]) -> Iterator[str]:
    name, unit = param["name"], param["unit"]
    asked = f'"{operator} {name}=", {name}'
    low = param["range"][0] if param["range"] else 0
    kind = param["kind"]
    if kind == "integer":
        yield f"index({asked})" if low < 0 else f'whole({asked}, "{unit}", {int(low)})'
    elif kind == "integers":
        yield f'[whole("{operator} {name}=", one, "{unit}", 0) for one in {name}]'
    elif kind == "number":
        yield f"seconds({asked})" if unit == "s" else f'finite({asked}, "{unit}")'
    elif kind == "numbers":
        yield f'finite_or_list({asked}, "{unit}")'
    elif kind == "taper":
        yield f"taper_text({name})"
    elif kind == "text" and param["choices"]:
        yield f'choice("{name}", {name}, {tuple(param["choices"])!r})'.replace("'", '"')
    elif kind == "text":
        yield f'text({asked}, "{unit}")'
    else:
        yield f"{kind}({name})"
