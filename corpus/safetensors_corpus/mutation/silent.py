"""What a case cannot see: messages, byte positions and paths in the reader's source.

A case demands a verdict, fault codes and content. Code that only words a message or computes where a fault
lies cannot change any of them, so mutants of it would say nothing about the corpus. What is silent follows
from a few seeds: f-strings, and those arguments of ``Fault`` and its like that carry rule, message, place or
path. A variable or parameter is silent when everything that reads it is silent.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

SPEAKERS: Mapping[str, frozenset[int]] = {
    "Fault": frozenset({0}),
    "report": frozenset({0}),
    "Node": frozenset({0, 1, 4}),
    "Range": frozenset({0, 1}),  # the pair of offsets is handed on as one
    "EntryReader": frozenset({0, 2}),
    "quote": frozenset(),
    "describe": frozenset(),
    "show_shape": frozenset(),
}
"""Callable -> positions of the arguments that decide something; its other arguments are silent."""


@dataclass
class _Scope:
    """One function: parameters by position, and the nodes below it."""

    node: Function
    names: list[str]
    quiet: set[str] = field(default_factory=set)


def silent_nodes(trees: Iterable[ast.Module]) -> set[ast.AST]:
    """Return every node of ``trees`` that no case can see, over all modules together.

    Parameters are matched by the name of the function, so a call in one module knows what a function of
    another does with its arguments.
    """
    modules = list(trees)
    scopes = [_scope(n) for t in modules for n in ast.walk(t) if isinstance(n, Function)]
    while True:
        roots = list(chain.from_iterable(_roots(t) for t in modules))
        roots.extend(_arguments(modules, scopes))
        for scope in scopes:
            roots.extend(_assigned(scope))
        covered = {n for root in roots for n in ast.walk(root)}
        changed = False
        for scope in scopes:
            for name in _candidates(scope) - scope.quiet:
                reads = [n for n in ast.walk(scope.node) if _reads(n, name)]
                if reads and all(n in covered for n in reads):
                    scope.quiet.add(name)
                    changed = True
        if not changed:
            return covered


def _scope(node: Function) -> _Scope:
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return _Scope(node, names[1:] if names[:1] == ["self"] else names)


def _roots(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what is silent wherever it stands: f-strings, assertions, types and docstrings."""
    for node in ast.walk(tree):
        if _is_root(node):
            yield node
        elif isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from node.decorator_list
            if node.returns is not None:
                yield node.returns
        elif isinstance(node, ast.ClassDef):
            yield from node.decorator_list
            yield from node.bases


def _is_root(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return _is_declaration(node)
    if isinstance(node, ast.If):
        return _is_typing_guard(node.test)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)  # docstrings, also those of constants
    return isinstance(node, (ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom))


def _is_declaration(node: ast.Assign) -> bool:
    """Tell whether an assignment only names a type, or says something about names."""
    names = {t.id for t in node.targets if isinstance(t, ast.Name)}
    value = node.value
    literal = (
        isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and value.value.id == "Literal"
    )
    union = isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)
    alias = union and all(name[:1].isupper() and not name.isupper() for name in names)
    return literal or alias or bool(names & {"__all__", "__slots__"})


def _is_typing_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _arguments(modules: list[ast.Module], scopes: list[_Scope]) -> Iterator[ast.AST]:
    """Yield the arguments of calls that only silent parameters take."""
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
            if name in known and all(index < len(s.names) and s.names[index] in s.quiet for s in known[name]):
                yield argument


def _assigned(scope: _Scope) -> Iterator[ast.AST]:
    """Yield the statements that only set silent variables."""
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


def _candidates(scope: _Scope) -> set[str]:
    stored = {n.id for n in ast.walk(scope.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | set(scope.names)


def _reads(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
