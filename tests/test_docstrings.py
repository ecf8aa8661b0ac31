"""Every public name has a docstring, with what it returns and an example; examples run."""

import ast
import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ClassMethodDescriptorType, FunctionType, MethodDescriptorType, ModuleType
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
                text = getattr(value, "__func__", value).__doc__ or ""
                if not member.startswith("_") or ">>>" in text:
                    yield f"_native.{name}.{member}", text
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


def native_returns() -> dict[str, str]:
    """Return types of native functions and methods, by "function" or "Class.method", as the stubs declare them."""
    stubs = ast.parse((Path(str(iso.__file__)).parent / "_native.pyi").read_text("utf-8"))
    classes = [node for node in stubs.body if isinstance(node, ast.ClassDef)]
    scopes = [("", stubs.body), *((f"{one.name}.", one.body) for one in classes)]
    functions = ((scope, node) for scope, body in scopes for node in body if isinstance(node, ast.FunctionDef))
    return {scope + node.name: ast.unparse(node.returns) for scope, node in functions if node.returns is not None}


def public_methods(public: type) -> Iterator[tuple[str, Any, str]]:
    """Names, functions and modules of a class's public methods, those of its bases in this package too."""
    kinds = (FunctionType, MethodDescriptorType, ClassMethodDescriptorType, classmethod, staticmethod)
    for base in public.__mro__:
        for name, member in vars(base).items():
            if base.__module__.startswith("isochrony") and not name.startswith("_") and isinstance(member, kinds):
                yield name, getattr(member, "__func__", member), base.__module__


def public_callables() -> Iterator[tuple[str, str, str]]:
    """What `isochrony` exports, and the methods of its classes: name, docstring, and return type, "" for a class."""
    of_native = native_returns()
    for name in iso.__all__:
        public = getattr(iso, name)
        if not inspect.isclass(public):
            returned = of_native.get(name) or public.__annotations__["return"]
            yield name, public.__doc__ or "", returned
            continue
        yield name, public.__doc__ or "", ""
        for method, function, module in public_methods(public):
            # The native classes say that they are of `isochrony`.
            is_native = module == "isochrony"
            returned = of_native[f"{name}.{method}"] if is_native else function.__annotations__["return"]
            yield f"{name}.{method}", function.__doc__ or "", str(returned)


PUBLIC = [pytest.param(*one, id=one[0]) for one in public_callables()]


@pytest.mark.parametrize(("name", "text", "returned"), PUBLIC)
def test_public_docstring_has_an_example(name: str, text: str, returned: str) -> None:
    assert re.search(r"^\s*>>> ", text, re.MULTILINE), f"{name} needs an example: lines with >>>, and what they print"


@pytest.mark.parametrize(("name", "text", "returned"), [one for one in PUBLIC if one.values[2] not in ("", "None")])
def test_public_docstring_says_what_is_returned(name: str, text: str, returned: str) -> None:
    section = re.search(r"^(\s*)Returns:\n\1    \S.*", text, re.MULTILINE)
    assert section is not None, f"{name} gives {returned}; it needs a section that begins with a line Returns:"


@pytest.mark.parametrize("name", [name for name in iso.__all__ if dataclasses.is_dataclass(getattr(iso, name))])
def test_public_docstring_lists_attributes(name: str) -> None:
    listed = re.findall(r"^    (\w+): ", inspect.getdoc(getattr(iso, name)) or "", re.MULTILINE)
    missing = {field.name for field in dataclasses.fields(getattr(iso, name))} - set(listed)
    assert not missing, f"{name} needs {sorted(missing)} in its section Attributes:"


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
