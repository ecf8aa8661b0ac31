"""What messages and docstrings advise exists: methods, functions and options that they name."""

from __future__ import annotations

import argparse
import ast
import builtins
import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from isochrony import _native
from isochrony.cli import message_options
from isochrony.cli.main import build_parser

PACKAGE = Path(str(iso.__file__)).parent
CRATES = PACKAGE.parents[1] / "crates"
# What is not ours.
# The last two are those that generated methods check their arguments with.
FOREIGN_MODULES = {
    "datetime",
    "np",
    "numpy",
    "scipy",
    "pyarrow",
    "functools",
    "math",
    "pywt",
    "zlib",
    "numba",
    "_options",
    "_tapers",
}
FOREIGN_METHODS = {"compressed", "correlate", "item", "main", "next_run", "reshape", "scheduler_info", "tolist"}
# What stands for any, and an option of Dask's workers.
FOREIGN_OPTIONS = {"--keyword", "--name"}


def without_examples(text: str) -> str:
    """Examples run in tests of their own."""
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith((">>>", "...")))


def python_texts() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.name}:{node.lineno}", without_examples(node.value)


def rust_texts() -> Iterator[tuple[str, str]]:
    """String literals of the crates, and the docstrings of what Python sees."""
    for path in sorted(CRATES.glob("*/src/**/*.rs")):
        if "tests" in path.parts or path.stem == "tests":
            continue
        source = path.read_text("utf-8").split("#[cfg(test)]")[0]
        own = path.is_relative_to(CRATES / "py")
        for number, line in enumerate(source.splitlines(), 1):
            code = line.strip()
            if code.startswith("//"):
                # Of private modules Rust's own documentation says otherwise.
                if own and code.startswith("///") and path.parent.name != "memory":
                    yield f"{path.relative_to(CRATES)}:{number}", without_examples(code.removeprefix("///"))
                continue
            for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', code):
                yield f"{path.relative_to(CRATES)}:{number}", literal


def classes() -> set[Any]:
    found = {thing for thing in vars(_native).values() if inspect.isclass(thing)}
    for module in pkgutil.walk_packages(iso.__path__, "isochrony."):
        if module.name != "isochrony.__main__":
            found |= {thing for thing in vars(import_module(module.name)).values() if inspect.isclass(thing)}
    return {one for one in found if one.__module__.partition(".")[0] in ("isochrony", "_native", "builtins")}


METHODS = {name for one in classes() for name in dir(one)} | set(dir(iso)) | set(iso.cluster.__all__) | FOREIGN_METHODS
CLASSES = {one.__name__: one for one in classes()}
TEXTS = [*python_texts(), *rust_texts()]


def fields(one: Any) -> set[str]:
    """Names that a class says it has, such as a dataclass's with slots."""
    return set(getattr(one, "__annotations__", {}))


def options() -> set[str]:
    parser = build_parser()
    commands: Any = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {name for one in (parser, *commands.choices.values()) for name in one._option_string_actions}


def test_methods_that_messages_name_exist() -> None:
    wrong = []
    for where, text in TEXTS:
        for module, name in re.findall(r"\b(iso|isochrony)\.(\w+)\(", text):
            if not hasattr(iso, name):
                wrong.append(f"{where}: {module}.{name}(")
        for base, name in re.findall(r"([\w.]*[\w\])])\.([a-z]\w*)\(", text):
            if name not in METHODS and base.partition(".")[0] not in FOREIGN_MODULES:
                wrong.append(f"{where}: .{name}( in {text[:100]!r}")
        for name in re.findall(r"(?<![\w.:])([a-z]\w*)\((?:\.\.\.)?\)", text):
            if name not in METHODS and name not in dir(builtins):
                wrong.append(f"{where}: {name}() in {text[:100]!r}")
        for owner, name in re.findall(r"`([A-Z]\w+)\.(\w+)`", text):
            if owner in CLASSES and not hasattr(CLASSES[owner], name) and name not in fields(CLASSES[owner]):
                wrong.append(f"{where}: {owner}.{name} in {text[:100]!r}")
    assert not wrong, "\n".join(wrong)


def test_options_that_messages_name_exist() -> None:
    known = options() | FOREIGN_OPTIONS
    wrong = [
        f"{where}: {option} in {text[:100]!r}"
        for where, text in TEXTS
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+\b", text)
        if option not in known
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("phrase", list(message_options._ADVICE))
def test_advice_that_the_command_line_translates_is_given(phrase: str) -> None:
    """Else a message was changed, and its users at a command line are told to call Python."""
    sources = [
        *CRATES.glob("*/src/**/*.rs"),
        *(path for path in PACKAGE.rglob("*.py") if path.name != "message_options.py"),
    ]
    found = False
    for path in sources:
        # Literals as they are printed: without the line ends and quotes that they are written with.
        text = re.sub(r'\\\n\s*|"\s*\n\s*f?"', "", path.read_text("utf-8")).replace('\\"', '"')
        found = found or phrase in text
    assert found
    assert "()" not in message_options.as_options(f"something is wrong; {phrase}")


@pytest.mark.parametrize("command", ["import", "export", "scan", "plot", "run", "record", "seal", "demo"])
def test_only_an_import_promises_that_the_same_command_resumes(command: str) -> None:
    name = "import_" if command == "import" else command
    said = import_module(f"isochrony.cli.{name}").INTERRUPTED
    assert ("resumes" in said) is (command == "import")
