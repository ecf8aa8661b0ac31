"""Every public name has a docstring, with what it returns and an example; examples run."""

import ast
import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ClassMethodDescriptorType, FunctionType, GetSetDescriptorType, MethodDescriptorType, ModuleType
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


RETURNS = native_returns()


def exported() -> dict[str, Any]:
    """What `isochrony` and `isochrony.cluster` export, by name."""
    of_cluster = {f"cluster.{name}": getattr(iso.cluster, name) for name in iso.cluster.__all__}
    return {name: getattr(iso, name) for name in iso.__all__} | of_cluster


def annotations(public: Any) -> Iterator[tuple[str, str]]:
    """Types that a function returns, or that methods, properties and fields of a class have; and the module."""
    if not inspect.isclass(public):
        yield returned_by(public.__name__, public), public.__module__
        return
    for base in public.__mro__:
        module = base.__module__
        if module == "isochrony":
            of_base = (returned for name, returned in RETURNS.items() if name.startswith(f"{base.__name__}."))
            yield from ((returned, module) for returned in of_base)
        elif module.startswith("isochrony."):
            types = inspect.get_annotations(base)
            for name, member in vars(base).items():
                functions = (getattr(member, inner, None) for inner in ("__func__", "fget", "func"))
                function = next(filter(None, functions), member)
                if inspect.isfunction(function):
                    types[name] = function.__annotations__.get("return")
            public_types = (one for name, one in types.items() if name.startswith("__") or not name.startswith("_"))
            yield from ((str(one), module) for one in public_types)


def returned_by(name: str, function: Any) -> str:
    """Return type of a function or method of this name; native ones have no annotations."""
    own = getattr(function, "__annotations__", None)
    return str(RETURNS[name] if own is None else own["return"])


def given() -> dict[str, type]:
    """Python classes that are not exported, but that exported names give: reports, parts of results and the like."""
    # Some modules import a class only to check types, so that its name is not among theirs.
    classes = {
        name: thing
        for module in MODULES
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and thing.__module__ == module.__name__
    }
    found = list(EXPORTED.values())
    # The list grows meanwhile: a class that was found may give others.
    for public in found:
        for annotation, module in annotations(public):
            for word in re.findall(r"\w+", annotation):
                thing = vars(sys.modules[module]).get(word, classes.get(word))
                if inspect.isclass(thing) and thing.__module__.startswith("isochrony.") and thing not in found:
                    found.append(thing)
    return {f"{one.__module__}.{one.__name__}": one for one in found[len(EXPORTED) :]}


def callables(publics: dict[str, Any]) -> list[Any]:
    """Functions, classes and methods: name, docstring, and return type, "" for a class."""
    rows = []
    for name, public in publics.items():
        if not inspect.isclass(public):
            rows.append((name, public.__doc__ or "", returned_by(public.__name__, public)))
            continue
        rows.append((name, public.__doc__ or "", ""))
        for method, function, _ in public_methods(public):
            returned = returned_by(f"{public.__name__}.{method}", function)
            rows.append((f"{name}.{method}", function.__doc__ or "", returned))
    return [pytest.param(*row, id=row[0]) for row in rows]


def properties(publics: dict[str, Any]) -> Iterator[Any]:
    """Names and docstrings of properties of classes."""
    for name, public in publics.items():
        for member, value in vars(public).items() if inspect.isclass(public) else ():
            if isinstance(value, property | cached_property) and not member.startswith("_"):
                yield pytest.param(f"{name}.{member}", value.__doc__ or "", id=f"{name}.{member}")


def fields(public: Any) -> set[str]:
    """Public fields of a dataclass or named tuple; of anything else, none."""
    of_tuple = public._fields if inspect.isclass(public) and issubclass(public, tuple) else ()
    names = [one.name for one in dataclasses.fields(public)] if dataclasses.is_dataclass(public) else of_tuple
    return {name for name in names if not name.startswith("_")}


def native_properties() -> Iterator[Any]:
    """Names and docstrings of properties of the native classes that users see."""
    for name, public in NATIVE_CLASSES.items():
        # PyO3 gives them in an order of its own in each process.
        for member, value in sorted(vars(public).items()):
            if isinstance(value, GetSetDescriptorType) and not member.startswith("_"):
                yield pytest.param(f"{name}.{member}", value.__doc__ or "", id=f"{name}.{member}")


EXPORTED = exported()
GIVEN = given()
#: Those whose names begin with Native are behind Python classes.
NATIVE_CLASSES = {
    name: thing
    for name, thing in vars(_native).items()
    if inspect.isclass(thing) and not name.startswith(("_", "Native"))
}
PUBLIC = callables(EXPORTED)
PUBLIC_AND_GIVEN = PUBLIC + callables(GIVEN)
PROPERTIES = [*properties(EXPORTED | GIVEN), *native_properties()]


def is_example(text: str) -> bool:
    return re.search(r"^\s*>>> ", text, re.MULTILINE) is not None


@pytest.mark.parametrize(("name", "text", "returned"), PUBLIC_AND_GIVEN)
def test_public_docstring_has_an_example(name: str, text: str, returned: str) -> None:
    assert is_example(text), f"{name} needs an example: lines with >>>, and what they print"


@pytest.mark.parametrize(("name", "text"), PROPERTIES)
def test_public_property_has_an_example(name: str, text: str) -> None:
    assert is_example(text), f"{name} needs an example: a line with >>>, and what it prints"


@pytest.mark.parametrize("name", NATIVE_CLASSES)
def test_native_class_with_properties_has_an_example(name: str) -> None:
    """Those of its properties continue it."""
    has_properties = any(isinstance(value, GetSetDescriptorType) for value in vars(NATIVE_CLASSES[name]).values())
    assert not has_properties or is_example(NATIVE_CLASSES[name].__doc__ or "")


@pytest.mark.parametrize(
    ("name", "text", "returned"), [one for one in PUBLIC_AND_GIVEN if one.values[2] not in ("", "None")]
)
def test_public_docstring_says_what_is_returned(name: str, text: str, returned: str) -> None:
    section = re.search(r"^(\s*)Returns:\n\1    \S.*", text, re.MULTILINE)
    assert section is not None, f"{name} gives {returned}; it needs a section that begins with a line Returns:"


@pytest.mark.parametrize(("name", "text"), [*properties(EXPORTED | GIVEN)])
def test_public_property_has_a_docstring(name: str, text: str) -> None:
    assert len(text.split()) >= 2, f"{name} needs a docstring: what it is, with its unit"


@pytest.mark.parametrize("name", [name for name, one in (EXPORTED | GIVEN).items() if fields(one)])
def test_public_docstring_lists_attributes(name: str) -> None:
    public = (EXPORTED | GIVEN)[name]
    listed = re.findall(r"^    (\w+): ", inspect.getdoc(public) or "", re.MULTILINE)
    missing = fields(public) - set(listed)
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


class ExampleFinder(doctest.DocTestFinder):
    """Finds methods in the module that defines them: steps are named as methods of `Plan`, which is in another."""

    def _from_module(self, module: Any, member: Any) -> bool:
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function):
            return module.__dict__ is function.__globals__
        return bool(super()._from_module(module, member))  # type: ignore[misc]


def examples() -> Iterator[Any]:
    """Examples of native docstrings, and of all docstrings in Python modules, private ones too.

    That of a property of a native class continues the one of the class.
    """
    continued = {f"_native.{one.values[0]}" for one in native_properties()}
    texts = dict(NATIVE)
    for name, text in NATIVE:
        if name.startswith("_native.") and ">>>" in text:
            before = texts[name.rpartition(".")[0]] if name in continued and "import isochrony" not in text else ""
            yield pytest.param(name, f"{before}\n\n{text}", "isochrony._native", id=name)
    finder = ExampleFinder(exclude_empty=True)
    for module in MODULES:
        for test in finder.find(module):
            if test.examples:
                yield pytest.param(test.name, test.docstring, module.__name__, id=test.name)
    # Which the finder leaves out.
    for public in (EXPORTED | GIVEN).values():
        for member, value in vars(public).items() if inspect.isclass(public) else ():
            if isinstance(value, cached_property) and is_example(value.__doc__ or ""):
                name = f"{public.__module__}.{public.__name__}.{member}"
                yield pytest.param(name, value.__doc__, public.__module__, id=name)


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
