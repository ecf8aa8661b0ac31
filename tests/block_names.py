"""Checks names and arguments in code that cannot run here: what it calls exists, and takes what it is given."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import symtable
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CheckedCode", "Instance"]

#: Packages whose names must exist. Others may be missing here; then nothing is known of what they give.
KNOWN_PACKAGES = {"isochrony", "dask", "distributed"}


@dataclass(frozen=True)
class Instance:
    """Some instance of a class."""

    of: type


@dataclass
class CheckedCode:
    """Walks through code without running it.

    Attributes:
        names: what its names are: objects, instances, or None where that is unknown.
        calls: qualified names of the functions whose arguments were compared with their signatures.
        problems: names that are not defined or do not exist, and arguments that a function does not take.
    """

    names: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def check(self, code: str) -> None:
        """Check code, in the order in which it is written. A name counts as defined if the code binds it anywhere."""
        missing = _used_names(code) - set(self.names) - set(vars(builtins))
        self.problems += [f"{name} is not defined" for name in sorted(missing)]
        for statement in ast.parse(code).body:
            self._statement(statement)

    def _statement(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = self._module(alias.name)
                top = sys.modules.get(alias.name.partition(".")[0])
                self.names[alias.asname or alias.name.partition(".")[0]] = module if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            module = self._module(str(node.module))
            for alias in node.names:
                self.names[alias.asname or alias.name] = self._attribute(module, alias.name)
        elif isinstance(node, ast.Assign):
            value = self._expression(node.value)
            for target in node.targets:
                self._expression(target)
                if isinstance(target, ast.Name):
                    self.names[target.id] = value
        else:
            for child in ast.iter_child_nodes(node):
                self._expression(child) if isinstance(child, ast.expr) else self._statement(child)

    def _module(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except ImportError:
            if name.partition(".")[0] in KNOWN_PACKAGES:
                self.problems.append(f"there is no module {name}")
            return None

    def _expression(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                # By a loop, `with` or several targets: what it is then is not known.
                self.names[node.id] = None
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(self._expression(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self._call(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._expression(child)
        return None

    def _attribute(self, owner: Any, name: str) -> Any:
        if owner is None:
            return None
        place = owner.of if isinstance(owner, Instance) else owner
        found = inspect.getattr_static(place, name, None)
        if found is None and not hasattr(place, name):
            self.problems.append(f"{getattr(place, '__name__', place)} has no {name}")
            return None
        if isinstance(found, property):
            return None
        value = getattr(place, name)
        # A method of an instance is called without it.
        takes_self = isinstance(owner, Instance) and not isinstance(found, classmethod | staticmethod)
        return _Method(value) if takes_self and callable(value) else value

    def _call(self, node: ast.Call) -> Any:
        function = self._expression(node.func)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self._expression(argument)
        method = isinstance(function, _Method)
        called = function.function if isinstance(function, _Method) else function
        if called is None or any(keyword.arg is None for keyword in node.keywords):
            return None
        given = [None] * (len(node.args) + method)
        try:
            signature = inspect.signature(called)
        except ValueError:
            return None
        try:
            signature.bind(*given, **{str(keyword.arg): None for keyword in node.keywords})
        except TypeError as error:
            self.problems.append(f"{called.__qualname__}: {error}")
        self.calls.append(called.__qualname__)
        return self._result(called, signature.return_annotation)

    def _result(self, called: Any, annotation: Any) -> Any:
        if isinstance(called, type):
            return Instance(called)
        if isinstance(annotation, str):
            module = sys.modules.get(getattr(called, "__module__", None) or "")
            annotation = getattr(module, annotation.strip("'"), None)
        return Instance(annotation) if isinstance(annotation, type) else None


def _used_names(code: str) -> set[str]:
    """Names that code reads and binds in no way."""

    def tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
        yield table
        for child in table.get_children():
            yield from tables(child)

    top = symtable.symtable(code, "<block>", "exec")
    bound = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()}
    # A name that a function does not bind is a global one, if no function around it does.
    symbols = (one for table in tables(top) for one in table.get_symbols())
    return {one.get_name() for one in symbols if one.is_referenced() and one.is_global()} - bound


@dataclass(frozen=True)
class _Method:
    """A function of a class that is called on an instance."""

    function: Any
