"""Writes the methods of `isochrony.Plan` from the declarations of operators.

`tools/generate.py` writes those of the built-in operators into `steps/generated.py`. Operators that another crate adds
to the extension get theirs when `isochrony.plan.plan` is imported.
"""

from __future__ import annotations

import inspect
import json
import keyword
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = [
    "INTERNAL",
    "PUBLIC",
    "add_methods",
    "call",
    "declared",
    "docstring",
    "legal_values",
    "method",
    "obstacle",
    "others",
    "own_inputs",
    "signature",
]

#: An operator's declaration, as `_native.operator_declarations` gives it.
Declaration = Mapping[str, Any]

_WIDTH = 112
_WORDS = {"s": "seconds"}
# Endings of verbs, and what the imperative has instead.
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("zzes", "zz"), ("s", ""))
# Kinds that only methods written by hand can take: they trace functions.
_TRACED = ("expression", "expressions", "aggregates")

#: Operators that have no method of their own, and the method that adds them.
INTERNAL = {"collect": "collect", "delayed": "feedback", "feedback": "feedback"}
#: Operators that a method of another name adds.
PUBLIC = {"stream_envelope": "envelope"}


def declared(*, added: bool = False) -> list[dict[str, Any]]:
    """Declarations of all operators, or of those that another crate added."""
    from .._native import operator_declarations

    declarations: list[dict[str, Any]] = json.loads(operator_declarations(added))
    return declarations


def others(declaration: Declaration) -> dict[str, str]:
    """Names of an operator's further inputs, and what they are."""
    found = (_further_input(paragraph) for paragraph in _paragraphs(declaration["sections"]["inputs"]))
    return {one[1]: one[2] for one in found if one}


def own_inputs(declaration: Declaration) -> list[str]:
    """Paragraphs on the input that is the plan itself."""
    paragraphs = _paragraphs(declaration["sections"]["inputs"])
    return [paragraph for paragraph in paragraphs if not _further_input(paragraph)]


def _further_input(paragraph: str) -> re.Match[str] | None:
    return re.fullmatch(r"`(\w+)`: (.*)", paragraph)


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
    text = docstring(declaration).replace("\\", "\\\\").replace('"""', r"\"\"\"")
    body += textwrap.indent(f'"""{text}"""\nreturn self._then({", ".join(arguments)})\n', "    ")
    return textwrap.indent(body, "    ")


def docstring(declaration: Declaration) -> str:
    """The method's docstring: sections in the order of every docstring of the package."""
    sections = declaration["sections"]
    text = textwrap.fill(_imperative(declaration["summary"]), _WIDTH - 3) + "\n"
    text += _section("Inputs", "\n\n".join(own_inputs(declaration)))
    text += _section("Returns", sections["returns"])
    plans = others(declaration)
    several = not declaration["inputs"]["exact"]
    lines = [f"{'*' if several else ''}{name}: {what}" for name, what in plans.items()]
    lines += [f"{param['name']}{_bracket(param)}: {param['doc']}" for param in declaration["params"]]
    if lines:
        text += "\nParameters:\n" + "".join(_wrapped(line, "    ", "        ") for line in lines)
    text += _section("Conventions", sections["conventions"])
    raised = _raised(declaration)
    if raised:
        text += "\nRaises:\n" + "".join(_wrapped(line, "    ", "        ") for line in raised)
    text += _section("Source", sections["source"])
    if sections["example"]:
        text += f"\n{sections['example']}\n"
    return text


def call(declaration: Declaration) -> str:
    """How the operator is written in Python, as ``notch(hz: float, q: float = 30.0)``; nothing if it is internal."""
    from .plan import Plan

    name: str = declaration["name"]
    if name in INTERNAL:
        return ""
    name = PUBLIC.get(name, name)
    _, *parameters = inspect.signature(getattr(Plan, name)).parameters.values()
    plain = [one.replace(annotation=_Plain(one.annotation)) for one in parameters]
    return name + str(inspect.Signature(plain)).replace("'", '"')


class _Plain(str):
    """An annotation, which is a text and is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def legal_values(param: Mapping[str, Any]) -> str:
    """A parameter's unit and legal values in words."""
    # "levels (levels, 1 to 62)" would say it twice.
    unit: str = "" if param["unit"] == param["name"] else _WORDS.get(param["unit"], param["unit"])
    if param["choices"]:
        return " or ".join(f'"{choice}"' for choice in param["choices"])
    if param.get("length"):
        unit += " or text"
    return ", ".join(filter(None, (unit, param["legal"])))


def add_methods(plan: type) -> None:
    """Gives a class methods for the operators that another crate added to the extension.

    Raises:
        ImportError: one cannot be a method, or has the name of another.
    """
    from ..steps import generated

    for declaration in declared(added=True):
        name = declaration["name"]
        wrong = f"{plan.__name__} has {name} already; rename it" if hasattr(plan, name) else obstacle(declaration)
        if wrong:
            raise ImportError(f"operator {name} of {declaration['module']} is refused: {wrong}")
        names = dict(vars(generated))
        exec(textwrap.dedent(method(declaration)), names)
        function = names[name]
        function.__qualname__ = f"{plan.__name__}.{name}"
        setattr(plan, name, function)


def obstacle(declaration: Declaration) -> str | None:
    """Why no method can be generated for an operator, and what to do; None if one can."""
    plans, params = others(declaration), declaration["params"]
    counted = declaration["inputs"]
    wanted = counted["least"] - 1 if counted["exact"] else 1
    if len(plans) != wanted:
        return f"its section Inputs names {len(plans)} further inputs of {wanted}; write `name`: what it is"
    # Names that the method's own source uses.
    taken = {"self", "_options", "_tapers", *plans}
    takes_rest, has_default = not counted["exact"], False
    for name in (declaration["name"], *plans, *(param["name"] for param in params)):
        if not name.isidentifier() or keyword.iskeyword(name):
            return f"{name!r} is no name in Python; rename it"
    for param in params:
        name = param["name"]
        if name in taken:
            return f"parameter {name} has the name of another argument; rename it"
        taken.add(name)
        if param["kind"] in _TRACED:
            return f"parameter {name} is of kind {param['kind']}, which no generated method takes; choose another kind"
        if param["kind"] == "list" and takes_rest:
            return f"parameter {name} is a list, and other arguments are one already; leave one"
        takes_rest |= param["kind"] == "list"
        if has_default and _must_be_given(param):
            return f"parameter {name} has no default and follows one that has; move it forward"
        has_default |= param["positional"] and not _must_be_given(param)
    return None


def _imperative(summary: str) -> str:
    """A sentence as Python's docstrings begin: "Computes ..." is "Compute ..."."""
    verb, space, rest = summary.partition(" ")
    for ending, instead in _ENDINGS:
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


def _raised(declaration: Declaration) -> list[str]:
    """What `_conversion` refuses as `OptionError`, and the engine as `PlanError`."""
    params = [param for param in declaration["params"] if param["kind"] != "list"]
    bounded = [param for param in params if param["legal"]]
    whole = (param for param in bounded if param["kind"].startswith("integer") and param["range"][0] is not None)
    counts = [param for param in whole if param["range"][0] >= 0]
    kinds = ["an argument of the wrong type"] if params else []
    kinds += ["an unknown choice"] if any(param["choices"] or param["kind"] == "taper" for param in params) else []
    kinds += ["a number that is not finite"] if any(param["kind"].startswith("number") for param in params) else []
    kinds += ["a count below its least value"] if counts else []
    kinds += ["a whole number above 2^63 - 1"] if any(param["kind"].startswith("integer") for param in params) else []
    raised = [f"OptionError: {_listed(kinds)}."] if kinds else []
    reasons = []
    if any(param not in counts or param["range"][1] is not None for param in bounded):
        reasons.append(f"{'another' if counts else 'a'} value out of range")
    if any(param.get("length") for param in params):
        reasons.append("text that is not a length")
    errors = declaration["sections"]["errors"].removesuffix(".")
    if errors not in ("", "None"):
        reasons.append(errors[0].lower() + errors[1:])
    return [*raised, f"PlanError: {'; '.join(reasons)}."] if reasons else raised


def _listed(words: list[str]) -> str:
    """As ``a, b, or c``."""
    if len(words) < 3:
        return ", or ".join(words)
    return f"{', '.join(words[:-1])}, or {words[-1]}"


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
    if param.get("length"):
        text = "Length" if param["kind"] == "integer" else "Duration"
    return text if _must_be_given(param) or _default(param) is not None else f"{text} | None"


def _checked(operator: str, param: Mapping[str, Any]) -> str:
    """What the method gives the engine for a parameter."""
    text = "".join(_conversion(operator, param))
    if _must_be_given(param) or _default(param) is not None or param["kind"] == "list":
        return text
    return f"{param['default']!r} if {param['name']} is None else {text}"


def _least_whole(param: Mapping[str, Any]) -> int | None:
    low: float | None = param["range"][0]
    if low is None:
        return None
    return math.floor(low) + 1 if param["open"][0] else math.ceil(low)


def _conversion(operator: str, param: Mapping[str, Any]) -> Iterator[str]:
    name, unit, legal = param["name"], param["unit"], param["legal"]
    asked = f'"{operator} {name}=", {name}'
    least = _least_whole(param)
    bounds = "" if legal in ("", f"from {least}") else f', "{legal}"'
    kind = param["kind"]
    if param.get("length") and kind == "integer":
        yield f'_options.length({asked}, "{unit}", {least or 0}{bounds})'
    elif param.get("length"):
        yield f"_options.length_in_seconds({asked})"
    elif kind == "integer" and (least is None or least < 0):
        yield f'_options.index({asked}, "{unit}"{bounds})'
    elif kind == "integer":
        yield f'_options.whole({asked}, "{unit}", {least}{bounds})'
    elif kind == "integers":
        yield f'_options.whole_list({asked}, "{unit}", {least}{bounds})'
    elif kind == "number":
        yield f'_options.finite({asked}, "{unit}")'
    elif kind == "numbers":
        yield f'_options.finite_or_list({asked}, "{unit}")'
    elif kind == "taper":
        yield f"_tapers.taper_text({name})"
    elif kind == "text" and param["choices"]:
        yield f'_options.choice("{name}", {name}, {tuple(param["choices"])!r})'.replace("'", '"')
    elif kind == "text":
        yield f'_options.text({asked}, "{unit}")'
    elif kind == "bool":
        yield f'_options.flag("{name}", {name})'
    else:
        yield f"_options.names({asked})"
