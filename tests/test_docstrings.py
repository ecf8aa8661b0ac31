"""Examples in public docstrings run; every public name has a docstring."""

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony import _native


def modules() -> Iterator[ModuleType]:
    """Every Python module of the package, those of its subpackages too."""
    yield iso
    for found in pkgutil.walk_packages(iso.__path__, "isochrony."):
        if found.name not in ("isochrony.__main__", "isochrony._native"):
            yield importlib.import_module(found.name)


MODULES = list(modules())


def documented() -> Iterator[tuple[str, str]]:
    """Names and docstrings of the native module's classes, methods and functions, and of our Python modules."""
    for name, thing in vars(_native).items():
        if name.startswith("_"):
            continue
        yield f"_native.{name}", thing.__doc__ or ""
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_") or ">>>" in (value.__doc__ or ""):
                    yield f"_native.{name}.{member}", value.__doc__ or ""
    for module in MODULES[1:]:
        module_name = module.__name__.removeprefix("isochrony.")
        yield module_name, module.__doc__ or ""
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if not inspect.isclass(thing) and not inspect.isfunction(thing):
                continue
            yield f"{module_name}.{name}", thing.__doc__ or ""
            for member, value in vars(thing).items() if inspect.isclass(thing) else ():
                if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                    yield f"{module_name}.{name}.{member}", value.__doc__ or ""


NATIVE = sorted(documented())


@pytest.mark.parametrize(("name", "text"), NATIVE, ids=[name for name, _ in NATIVE])
def test_has_a_docstring(name: str, text: str) -> None:
    assert len(text.split()) >= 2, f"{name} needs a docstring that says something"


def natives() -> Iterator[Any]:
    """Public functions and methods of the native module."""
    for name, thing in vars(_native).items():
        for member, value in vars(thing).items() if inspect.isclass(thing) else [("", thing)]:
            if callable(value) and not name.startswith("_") and not member.startswith("_"):
                yield pytest.param(value, id=f"{name}.{member}")


@pytest.mark.parametrize("function", list(natives()))
def test_inspect_reads_the_signature(function: Any) -> None:
    """As help() and editors do."""
    inspect.signature(function)


def examples() -> Iterator[Any]:
    """Examples of native docstrings, and of all docstrings in Python modules, private ones too."""
    for name, text in NATIVE:
        if name.startswith("_native.") and ">>>" in text:
            yield pytest.param(name, text, "isochrony._native", id=name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in MODULES:
        for test in finder.find(module):
            if test.examples:
                yield pytest.param(test.name, test.docstring, module.__name__, id=test.name)


@pytest.mark.parametrize(("name", "text", "module"), list(examples()))
def test_examples_run(name: str, text: str, module: str) -> None:
    names = dict(vars(importlib.import_module(module)))
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    report: list[str] = []
    with np.printoptions(legacy=False):
        doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


def test_examples_of_every_module_with_one_are_run() -> None:
    folder = Path(str(iso.__file__)).parent
    written = {path for path in folder.rglob("*.py") if re.search(r"^\s*>>> ", path.read_text("utf-8"), re.MULTILINE)}
    run = {Path(str(importlib.import_module(one.values[2]).__file__)) for one in examples()}
    assert written <= run
