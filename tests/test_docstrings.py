"""Examples in public docstrings run; every public name has a docstring."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import numpy as np
import pytest

import isochrony as iso
from isochrony import _native

MODULES = [
    "attributes",
    "convert",
    "correlations",
    "detectors",
    "errors",
    "extras",
    "features",
    "filters",
    "functions",
    "native_errors",
    "nbuffering",
    "plan",
    "progress",
    "samples",
    "spectra",
    "table",
    "tapers",
    "tasklet_report",
    "tasklets",
    "times",
    "views",
]


def documented() -> Iterator[tuple[str, str]]:
    """Names and docstrings of the native module's classes, methods and functions, and of our Python modules."""
    for name, thing in vars(_native).items():
        if name.startswith("_"):
            continue
        yield f"_native.{name}", thing.__doc__ or ""
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_"):
                    yield f"_native.{name}.{member}", value.__doc__ or ""
    for module_name in MODULES:
        module = importlib.import_module(f"isochrony.{module_name}")
        yield module_name, module.__doc__ or ""
        for name in module.__all__:
            thing = getattr(module, name)
            yield f"{module_name}.{name}", thing.__doc__ or ""
            for member, value in vars(thing).items() if inspect.isclass(thing) else ():
                if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                    yield f"{module_name}.{name}.{member}", value.__doc__ or ""


NATIVE = sorted(documented())


def test_the_modules_listed_here_exist() -> None:
    names = {module.name for module in pkgutil.iter_modules(iso.__path__)}
    assert set(MODULES) <= names


@pytest.mark.parametrize(("name", "text"), NATIVE, ids=[name for name, _ in NATIVE])
def test_has_a_docstring(name: str, text: str) -> None:
    assert len(text.split()) >= 2, f"{name} needs a docstring that says something"


WITH_EXAMPLE = [(name, text) for name, text in NATIVE if ">>>" in text]


@pytest.mark.parametrize(("name", "text"), WITH_EXAMPLE, ids=[name for name, _ in WITH_EXAMPLE])
def test_examples_run(name: str, text: str) -> None:
    module = name.split(".")[0]
    names = dict(vars(importlib.import_module(f"isochrony.{module}")))
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    report: list[str] = []
    with np.printoptions(legacy=False):
        doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)
