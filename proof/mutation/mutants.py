"""Mutants of a module: every place where one of its tokens may be wrong, with a stable name.

A name is ``module:function:operator:n``; n counts the faults of one operator within one function (or within
the value of one constant), so edits elsewhere do not rename mutants.

Code that no case can observe is excluded. A case checks verdict, fault codes and content. Code that only
words a message or computes the location of a fault cannot change them, so its mutants would say nothing about
the corpus. Such code is called silent. The silent code is derived from a few seeds: f-strings, and those
arguments of ``Fault`` and similar callables that are a rule, message, location or path. A variable or
parameter is silent if all code that reads it is silent.
"""

from __future__ import annotations

import ast
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from .faults import operator_for, variants

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from types import CodeType

WIDTH = 100
"""Maximum number of characters of a changed line to show."""


@dataclass(frozen=True, eq=False)
class _Place:
    """Location of a node: a field of its parent, with ``index`` if the field is a list."""

    parent: ast.AST
    field: str
    index: int | None

    @contextmanager
    def holding(self, new: ast.AST) -> Iterator[None]:
        old = self._put(new)
        try:
            yield
        finally:
            self._put(old)

    def _put(self, new: ast.AST) -> ast.AST:
        held: Any = getattr(self.parent, self.field)
        old: ast.AST = held if self.index is None else held[self.index]
        if self.index is None:
            setattr(self.parent, self.field, new)
        else:
            held[self.index] = new
        return old


@dataclass(frozen=True, eq=False)
class Mutant:
    """One fault in one module: ``new`` replaces the node at ``place``.

    Attributes:
        name: ``module:function:operator:n``.
        module: name of the module.
        line: line of the statement, for display only; names never contain it.
        before: the original statement, cut around the change.
        after: the same statement with the fault.
    """

    name: str
    module: str
    line: int
    before: str
    after: str
    tree: ast.Module
    place: _Place
    new: ast.AST

    def compiled(self) -> CodeType:
        with self.place.holding(self.new):
            ast.fix_missing_locations(self.tree)
            return compile(self.tree, f"<{self.name}>", "exec")


def mutants_of(sources: Mapping[str, str], skip: Mapping[str, Collection[str]] | None = None) -> list[Mutant]:
    """Return all mutants of some modules that belong together, given as name -> source text.

    ``skip`` names the functions, classes and constants to leave unchanged, by module and qualified name;
    ``*`` means all functions and classes.
    """
    trees = {name: ast.parse(text) for name, text in sources.items()}
    silent = silent_nodes(trees.values())
    out: list[Mutant] = []
    for name, tree in trees.items():
        out.extend(_Walk(name, tree, silent, (skip or {}).get(name, ())).run())
    return out


class _Walk:
    """One traversal of one module."""

    def __init__(self, module: str, tree: ast.Module, silent: set[ast.AST], skip: Collection[str]) -> None:
        self._module, self._tree, self._silent, self._skip = module, tree, silent, skip
        self._counts: Counter[str] = Counter()
        self._out: list[Mutant] = []
        self._functions: list[ast.FunctionDef] = []

    def run(self) -> list[Mutant]:
        self._children(self._tree, "-", self._tree)
        return self._out

    def _children(self, parent: ast.AST, where: str, statement: ast.AST) -> None:
        for name, value in ast.iter_fields(parent):
            if isinstance(value, ast.AST):
                self._node(_Place(parent, name, None), value, where, statement)
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, ast.AST):
                        self._node(_Place(parent, name, index), item, where, statement)

    def _node(self, place: _Place, node: ast.AST, where: str, statement: ast.AST) -> None:
        if node in self._silent:
            return
        if isinstance(node, ast.stmt):
            statement = node
        inner = where
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            inner = node.name if where == "-" else f"{where}.{node.name}"
            if "*" in self._skip:
                return
        elif place.parent is self._tree:
            inner = _assigned_name(node) or where
        if inner in self._skip:
            return
        found: Iterator[tuple[str, ast.AST]] = iter(())
        if isinstance(node, ast.expr):
            found = variants(node, place.parent)
        elif isinstance(node, ast.stmt):
            found = self._statements(node)
        for operator, new in found:
            self._add(f"{inner}:{operator}", place, node, new, statement)
        if isinstance(node, ast.FunctionDef):
            self._functions.append(node)
        self._children(node, inner, statement)
        if isinstance(node, ast.FunctionDef):
            self._functions.pop()

    def _add(self, fault: str, place: _Place, old: ast.AST, new: ast.AST, statement: ast.AST) -> None:
        ast.copy_location(new, old)
        before = _line(statement)
        if old is statement:
            after = _line(new)
        else:
            with place.holding(new):
                after = _line(statement)
        self._counts[fault] += 1
        name = f"{self._module}:{fault}:{self._counts[fault]}"
        line = getattr(statement, "lineno", 0)
        self._out.append(Mutant(name, self._module, line, *cut(before, after), self._tree, place, new))

    def _statements(self, node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
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
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _may_be_none(function: ast.FunctionDef) -> bool:
    return function.returns is not None and "None" in ast.unparse(function.returns).split(" | ")


def _line(statement: ast.AST) -> str:
    lines = ast.unparse(statement).splitlines() or [""]
    return next((line for line in lines if not line.startswith("@")), lines[0])


def cut(before: str, after: str, width: int = WIDTH) -> tuple[str, str]:
    """Cut two lines around the position where they differ; both cuts start at the same column."""
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


Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

SPEAKERS: Mapping[str, frozenset[int]] = {
    "Fault": frozenset({0}),
    "report": frozenset({0}),
    "Node": frozenset({0, 1, 4}),
    "Range": frozenset({0, 1}),  # the pair of offsets is passed on as one value
    "EntryReader": frozenset({0, 2}),
    "quote": frozenset(),
    "describe": frozenset(),
    "show_shape": frozenset(),
}
"""Callable -> positions of the arguments that affect the result; all other arguments are silent."""


@dataclass
class _Scope:
    """A function with its parameters by position and the names found to be silent."""

    node: Function
    quiet: set[str] = field(default_factory=set)

    @cached_property
    def parameters(self) -> list[str]:
        arguments = self.node.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        return names[1:] if names[:1] == ["self"] else names

    def ignores(self, index: int) -> bool:
        return index < len(self.parameters) and self.parameters[index] in self.quiet

    @cached_property
    def reads(self) -> dict[str, list[ast.AST]]:
        names = [n for n in ast.walk(self.node) if isinstance(n, ast.Name)]
        own = {n.id for n in names if isinstance(n.ctx, ast.Store)} | set(self.parameters)
        return {k: [n for n in names if n.id == k and isinstance(n.ctx, ast.Load)] for k in own}


def silent_nodes(trees: Iterable[ast.Module]) -> set[ast.AST]:
    """Return every node of ``trees`` that no case can observe, computed for all modules together.

    Parameters are matched by the name of the function, so the analysis follows the arguments of a call into
    functions of other modules.
    """
    modules = list(trees)
    scopes = [_Scope(n) for t in modules for n in ast.walk(t) if isinstance(n, Function)]
    while True:
        roots = list(chain.from_iterable(_roots(t) for t in modules))
        roots.extend(_arguments(modules, scopes))
        for scope in scopes:
            roots.extend(_assigned(scope))
        covered = {n for root in roots for n in ast.walk(root)}
        changed = False
        for scope in scopes:
            for name, reads in scope.reads.items():
                if name not in scope.quiet and reads and covered.issuperset(reads):
                    scope.quiet.add(name)
                    changed = True
        if not changed:
            return covered


def _roots(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom():
                yield node
            # Docstrings, including those of constants, and code for type checkers only.
            case ast.Expr(value=ast.Constant()) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield node
            case ast.Assign() if _is_declaration(node):
                yield node
            case ast.arg(annotation=ast.expr() as told) | ast.AnnAssign(annotation=told):
                yield told
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from node.decorator_list
                if node.returns is not None:
                    yield node.returns
            case ast.ClassDef():
                yield from (*node.decorator_list, *node.bases)


def _is_declaration(node: ast.Assign) -> bool:
    names = {t.id for t in node.targets if isinstance(t, ast.Name)}
    match node.value:
        case ast.Subscript(value=ast.Name(id="Literal")):
            return True
        case ast.BinOp(op=ast.BitOr()) if all(n[:1].isupper() and not n.isupper() for n in names):
            return True
    return bool(names & {"__all__", "__slots__"})


def _arguments(modules: list[ast.Module], scopes: list[_Scope]) -> Iterator[ast.AST]:
    known: dict[str, list[_Scope]] = {}
    for scope in scopes:
        if not isinstance(scope.node, ast.Lambda):
            known.setdefault(scope.node.name, []).append(scope)
    for node in chain.from_iterable(ast.walk(m) for m in modules):
        if not isinstance(node, ast.Call):
            continue
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        if name in SPEAKERS:
            yield from (a for i, a in enumerate(node.args) if i not in SPEAKERS[name])
            continue
        for index, argument in enumerate(node.args):
            if name in known and all(s.ignores(index) for s in known[name]):
                yield argument


def _assigned(scope: _Scope) -> Iterator[ast.AST]:
    for node in ast.walk(scope.node):
        if isinstance(node, ast.Assign):
            targets: list[ast.expr] = []
            for target in node.targets:
                targets.extend(target.elts if isinstance(target, ast.Tuple) else [target])
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            targets = [node.target]
        else:
            continue
        if all(isinstance(t, ast.Name) and t.id in scope.quiet for t in targets):
            yield node
