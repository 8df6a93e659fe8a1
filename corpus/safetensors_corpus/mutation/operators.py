"""Mutants of a module: every place where one token of it may be wrong, with a name that lasts.

A name is ``module:function:operator:n``; n counts the faults of one operator within one function (or within
the value of one constant), so edits elsewhere rename nothing. What no case can see (``silent.py``) is left
out.
"""

from __future__ import annotations

import ast
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .expressions import operator_for, variants
from .silent import silent_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from types import CodeType

WIDTH = 100
"""Longest text shown of a changed line."""


@dataclass(frozen=True, eq=False)
class Mutant:
    """One fault in one module: ``new`` stands where ``old`` stood in ``parent``.

    Attributes:
        name: ``module:function:operator:n``.
        module: name of the module.
        line: line of the statement, for people; names never contain it.
        before: the statement as it is, cut around the place of the change.
        after: the same with the fault.
    """

    name: str
    module: str
    line: int
    before: str
    after: str
    tree: ast.Module
    parent: ast.AST
    field: str
    index: int | None
    new: ast.AST

    def compiled(self) -> CodeType:
        """Compile the module with the fault in it; the tree is left as it was."""
        with _replaced(self.parent, self.field, self.index, self.new):
            ast.fix_missing_locations(self.tree)
            return compile(self.tree, f"<{self.name}>", "exec")


@contextmanager
def _replaced(parent: ast.AST, field: str, index: int | None, new: ast.AST) -> Iterator[None]:
    """Put ``new`` in its place for a while."""
    if index is None:
        old = getattr(parent, field)
        setattr(parent, field, new)
    else:
        old = getattr(parent, field)[index]
        getattr(parent, field)[index] = new
    try:
        yield
    finally:
        if index is None:
            setattr(parent, field, old)
        else:
            getattr(parent, field)[index] = old


def mutants_of(sources: Mapping[str, str], skip: Mapping[str, Collection[str]] | None = None) -> list[Mutant]:
    """Return all mutants of some modules that belong together, given as name -> source text.

    ``skip`` names functions and classes to leave alone, by module and qualified name; ``*`` stands for all.
    """
    trees = {name: ast.parse(text) for name, text in sources.items()}
    silent = silent_nodes(trees.values())
    out: list[Mutant] = []
    for name, tree in trees.items():
        out.extend(_Walk(name, tree, silent, (skip or {}).get(name, ())).run())
    return out


class _Walk:
    """One walk through one module."""

    def __init__(self, module: str, tree: ast.Module, silent: set[ast.AST], skip: Collection[str]) -> None:
        self._module, self._tree, self._silent, self._skip = module, tree, silent, skip
        self._counts: Counter[tuple[str, str]] = Counter()
        self._out: list[Mutant] = []
        self._functions: list[ast.FunctionDef] = []

    def run(self) -> list[Mutant]:
        self._children(self._tree, "-", self._tree)
        return self._out

    def _children(self, parent: ast.AST, where: str, statement: ast.AST) -> None:
        for field, value in ast.iter_fields(parent):
            if isinstance(value, ast.AST):
                self._node(parent, field, None, value, where, statement)
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, ast.AST):
                        self._node(parent, field, index, item, where, statement)

    def _node(
        self, parent: ast.AST, field: str, index: int | None, node: ast.AST, where: str, statement: ast.AST
    ) -> None:
        if node in self._silent:
            return
        if isinstance(node, ast.stmt):
            statement = node
        inner = where
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            inner = node.name if where == "-" else f"{where}.{node.name}"
            if inner in self._skip or "*" in self._skip:
                return
        elif parent is self._tree:
            inner = _assigned_name(node) or where
        found: Iterator[tuple[str, ast.AST]] = iter(())
        if isinstance(node, ast.expr):
            found = variants(node, parent)
        elif isinstance(node, ast.stmt):
            found = self._statements(node)
        for operator, new in found:
            self._add(operator, parent, field, index, node, new, inner, statement)
        if isinstance(node, ast.FunctionDef):
            self._functions.append(node)
            self._children(node, inner, statement)
            self._functions.pop()
        else:
            self._children(node, inner, statement)

    def _add(
        self,
        operator: str,
        parent: ast.AST,
        field: str,
        index: int | None,
        old: ast.AST,
        new: ast.AST,
        where: str,
        statement: ast.AST,
    ) -> None:
        ast.copy_location(new, old)
        before = _line(statement)
        if old is statement:
            after = _line(new)
        else:
            with _replaced(parent, field, index, new):
                after = _line(statement)
        self._counts[where, operator] += 1
        name = f"{self._module}:{where}:{operator}:{self._counts[where, operator]}"
        before, after = cut(before, after)
        line = getattr(statement, "lineno", 0)
        self._out.append(
            Mutant(name, self._module, line, before, after, self._tree, parent, field, index, new)
        )

    def _statements(self, node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
        """Yield the faulty neighbours of a statement: mostly nothing in its place."""
        if isinstance(node, ast.AugAssign):
            other = operator_for(node.op, (node.value,))
            if other is not None:
                yield "arithmetic", ast.AugAssign(node.target, other, node.value)
        if isinstance(node, (ast.Expr, ast.Raise, ast.Continue, ast.Break, ast.AugAssign)):
            yield "delete", ast.Pass()
        elif isinstance(node, ast.Assign):
            if self._set_before(node):
                yield "delete", ast.Pass()
        elif isinstance(node, ast.Return):
            nothing = node.value is None or (
                isinstance(node.value, ast.Constant) and node.value.value is None
            )
            if nothing:
                yield "delete", ast.Pass()
            elif self._functions and _may_be_none(self._functions[-1]):
                yield "return", ast.Return(ast.Constant(None))

    def _set_before(self, node: ast.Assign) -> bool:
        """Tell whether the targets have a value already; without one, leaving this out is a crash."""
        if not self._functions or self._functions[-1].name == "__init__":
            return False
        earlier = {
            n.id
            for n in ast.walk(self._functions[-1])
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.lineno < node.lineno
        }
        names = [t for target in node.targets for t in ast.walk(target) if isinstance(t, ast.Name)]
        stored = [n.id for n in names if isinstance(n.ctx, ast.Store)]
        return set(stored) <= earlier


def _assigned_name(node: ast.AST) -> str | None:
    """Return the name of the constant that a statement of the module sets."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _may_be_none(function: ast.FunctionDef) -> bool:
    return function.returns is not None and "None" in ast.unparse(function.returns).split(" | ")


def _line(statement: ast.AST) -> str:
    """Return the first line of a statement, behind its decorators."""
    lines = ast.unparse(statement).splitlines() or [""]
    return next((line for line in lines if not line.startswith("@")), lines[0])


def cut(before: str, after: str, width: int = WIDTH) -> tuple[str, str]:
    """Cut two lines around the place where they differ, the same at the front of both."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    start = max(0, start - width // 2)
    return _cut(before, start, width), _cut(after, start, width)


def _cut(text: str, start: int, width: int) -> str:
    if len(text) <= width:
        return text
    piece = text[start : start + width]
    return ("…" if start else "") + piece + ("…" if start + width < len(text) else "")
