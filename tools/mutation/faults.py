"""One-token faults in single nodes of a syntax tree: what may stand in place of an expression."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .regexes import faulty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Pow: ast.Mult,
}
_WORDS = {"little": "big", "surrogateescape": "replace", "utf-8": "latin-1"}
"""Words with a meaning to Python, and a neighbour that is also one."""
_CHARACTER_SETS = frozenset({"strip", "lstrip", "rstrip"})

Variant = tuple[str, ast.expr]
"""Name of the operator, and what it puts in place of the node."""


def variants(node: ast.expr, parent: ast.AST) -> Iterator[Variant]:
    """Yield the faulty neighbours of ``node`` that stand in its place under ``parent``."""
    if isinstance(node, ast.Compare):
        yield from _compare(node)
    elif isinstance(node, ast.BoolOp):
        yield from _boolean(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "negation", node.operand
    elif isinstance(node, ast.BinOp):
        other = operator_for(node.op, (node.left, node.right))
        if other is not None:
            yield "arithmetic", ast.BinOp(node.left, other, node.right)
    elif isinstance(node, ast.Constant):
        yield from _constant(node, parent)
    elif isinstance(node, ast.Slice):
        yield from _slice(node)
    elif isinstance(node, ast.Call):
        yield from _compiled(node)
    elif isinstance(node, (ast.Dict, ast.Set, ast.Tuple, ast.List)):
        yield from _elements(node, parent)
    if _is_condition(node, parent):
        for value in (True, False):
            yield "condition", ast.Constant(value)


def operator_for(op: ast.operator, operands: Sequence[ast.expr]) -> ast.operator | None:
    """Return the neighbour of an arithmetic operator; None where it joins or formats text."""
    if any(_is_text(o) for o in operands) or type(op) not in _ARITHMETIC:
        return None
    return _ARITHMETIC[type(op)]()


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )


def _is_condition(node: ast.expr, parent: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return False
    if isinstance(parent, (ast.If, ast.While, ast.IfExp)):
        return parent.test is node
    return isinstance(parent, ast.comprehension) and node in parent.ifs


def _compare(node: ast.Compare) -> Iterator[Variant]:
    for index, op in enumerate(node.ops):
        other = _COMPARE[type(op)]()
        yield (
            "compare",
            ast.Compare(node.left, [*node.ops[:index], other, *node.ops[index + 1 :]], node.comparators),
        )


def _boolean(node: ast.BoolOp) -> Iterator[Variant]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "boolean", ast.BoolOp(other, node.values)
    for index in range(len(node.values)):
        rest = [*node.values[:index], *node.values[index + 1 :]]
        yield "operand", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _constant(node: ast.Constant, parent: ast.AST) -> Iterator[Variant]:
    value = node.value
    if isinstance(value, bool):
        yield "flip", ast.Constant(not value)
    elif isinstance(value, int):
        for other in (value + 1, value - 1):
            yield "integer", ast.Constant(other)
    elif isinstance(value, str):
        yield "text", ast.Constant(_WORDS.get(value, value + "~"))
    elif isinstance(value, bytes) and _is_set(node, parent):
        yield "member", ast.Constant(value + b"\f")
        if len(value) > 1:
            for index in range(len(value)):
                yield "member", ast.Constant(value[:index] + value[index + 1 :])
    elif isinstance(value, bytes) and not _is_pattern(node, parent):
        yield "text", ast.Constant(value + b"~")


def _is_set(node: ast.Constant, parent: ast.AST) -> bool:
    """Tell whether a bytes constant stands for its single bytes."""
    if isinstance(parent, ast.Compare):
        return node in parent.comparators and any(isinstance(op, (ast.In, ast.NotIn)) for op in parent.ops)
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Attribute) and parent.func.attr in _CHARACTER_SETS
    return isinstance(parent, ast.Assign)


def _is_pattern(node: ast.Constant, parent: ast.AST) -> bool:
    """Tell whether a constant is the text of a regular expression, which has an operator of its own."""
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.Mod) and parent.left is node
    return isinstance(parent, ast.Call) and _is_compile(parent.func)


def _is_compile(func: ast.expr) -> bool:
    return isinstance(func, ast.Attribute) and func.attr == "compile"


def _slice(node: ast.Slice) -> Iterator[Variant]:
    """Move each bound by one; constant bounds are moved as the integers that they are."""
    lower, upper = node.lower, node.upper
    if lower is None:
        yield "slice", ast.Slice(ast.Constant(1), upper, node.step)
    elif not isinstance(lower, ast.Constant):
        yield from (("slice", ast.Slice(b, upper, node.step)) for b in _moved(lower))
    if upper is None:
        yield "slice", ast.Slice(lower, ast.Constant(-1), node.step)
    elif not isinstance(upper, ast.Constant):
        yield from (("slice", ast.Slice(lower, b, node.step)) for b in _moved(upper))


def _moved(bound: ast.expr) -> Iterable[ast.expr]:
    return (ast.BinOp(bound, op, ast.Constant(1)) for op in (ast.Add(), ast.Sub()))


def _compiled(node: ast.Call) -> Iterator[Variant]:
    """Yield ``re.compile`` with a faulty pattern, and without its flags."""
    func = node.func
    if not (_is_compile(func) and node.args):
        return
    argument = node.args[0]
    template = argument.left if isinstance(argument, ast.BinOp) else argument
    if isinstance(template, ast.Constant) and isinstance(template.value, bytes):
        for pattern in dict.fromkeys(faulty(template.value.decode("latin-1"))):
            constant: ast.expr = ast.Constant(pattern.encode("latin-1"))
            if isinstance(argument, ast.BinOp):
                constant = ast.BinOp(constant, argument.op, argument.right)
            yield "regex", ast.Call(func, [constant, *node.args[1:]], node.keywords)
    if len(node.args) > 1:
        yield "regex", ast.Call(func, node.args[:1], node.keywords)


def _elements(node: ast.Dict | ast.Set | ast.Tuple | ast.List, parent: ast.AST) -> Iterator[Variant]:
    """Yield the table without each of its elements."""
    if isinstance(node, ast.Dict):
        for index in range(len(node.keys)):
            yield (
                "element",
                ast.Dict(
                    [*node.keys[:index], *node.keys[index + 1 :]],
                    [*node.values[:index], *node.values[index + 1 :]],
                ),
            )
        return
    if len(node.elts) < 2 or not isinstance(node.ctx if hasattr(node, "ctx") else ast.Load(), ast.Load):
        return
    # Other tuples hold a fixed number of things, and without one of them the reader falls over at once.
    table = isinstance(parent, (ast.Compare, ast.Lambda, ast.For)) or (
        isinstance(parent, ast.Assign) and all(isinstance(e, ast.Constant) for e in node.elts)
    )
    if isinstance(node, ast.Set) or table:
        for index in range(len(node.elts)):
            rest = [*node.elts[:index], *node.elts[index + 1 :]]
            yield "element", ast.Set(rest) if isinstance(node, ast.Set) else type(node)(rest, ast.Load())
