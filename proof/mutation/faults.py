"""One-token faults: replacements in expressions and in regular expressions."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    T = TypeVar("T")

_OPPOSITES: tuple[tuple[type[ast.cmpop], type[ast.cmpop]], ...] = (
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.Is, ast.IsNot),
)
_COMPARE = {one: other for pair in _OPPOSITES for one, other in (pair, pair[::-1])}
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
"""Strings with a special meaning in Python, with their replacements."""
_CHARACTER_SETS = frozenset({"strip", "lstrip", "rstrip"})

Variant = tuple[str, ast.expr]
"""Name of the operator, and the node that replaces the original one."""


def variants(node: ast.expr, parent: ast.AST) -> Iterator[Variant]:
    """Yield the faulty replacements of ``node``, whose parent is ``parent``."""
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


def _without_each(items: Sequence[T]) -> Iterator[list[T]]:
    return ([*items[:index], *items[index + 1 :]] for index in range(len(items)))


def operator_for(op: ast.operator, operands: Sequence[ast.expr]) -> ast.operator | None:
    """Return the replacement of an arithmetic operator, or None if the operator joins or formats strings."""
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
        ops = [*node.ops[:index], _COMPARE[type(op)](), *node.ops[index + 1 :]]
        yield "compare", ast.Compare(node.left, ops, node.comparators)


def _boolean(node: ast.BoolOp) -> Iterator[Variant]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "boolean", ast.BoolOp(other, node.values)
    for rest in _without_each(node.values):
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
    if isinstance(parent, ast.Compare):
        return node in parent.comparators and any(isinstance(op, (ast.In, ast.NotIn)) for op in parent.ops)
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Attribute) and parent.func.attr in _CHARACTER_SETS
    return isinstance(parent, ast.Assign)


def _is_pattern(node: ast.Constant, parent: ast.AST) -> bool:
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.Mod) and parent.left is node
    return isinstance(parent, ast.Call) and _is_compile(parent.func)


def _is_compile(func: ast.expr) -> bool:
    return isinstance(func, ast.Attribute) and func.attr == "compile"


def _slice(node: ast.Slice) -> Iterator[Variant]:
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
    if isinstance(node, ast.Dict):
        for keys, values in zip(_without_each(node.keys), _without_each(node.values), strict=True):
            yield "element", ast.Dict(keys, values)
        return
    if len(node.elts) < 2 or not isinstance(node.ctx if hasattr(node, "ctx") else ast.Load(), ast.Load):
        return
    # Other tuples have a fixed length, and the reader fails immediately if an item is missing.
    table = isinstance(parent, (ast.Compare, ast.Lambda, ast.For)) or (
        isinstance(parent, ast.Assign) and all(isinstance(e, ast.Constant) for e in node.elts)
    )
    if isinstance(node, ast.Set) or table:
        for rest in _without_each(node.elts):
            yield "element", ast.Set(rest) if isinstance(node, ast.Set) else type(node)(rest, ast.Load())


# The grammar of numbers, strings and whitespace is in regular expressions.

_TOKEN = re.compile(
    r"(?P<template>%\(\w+\)s)"
    r"|(?P<set>\[\^?\]?(?:\\x[0-9a-fA-F]{2}|\\.|[^\]\\])*\])"
    r"|(?P<group>\(\?:|\(|\))"
    r"|(?P<count>[*+?][+?]?|\{\d+(?:,\d*)?\})"
    r"|(?P<bar>\|)"
    r"|(?P<atom>\\x[0-9a-fA-F]{2}|\\.|.)",
    re.DOTALL,
)
_ITEM = re.compile(r"(\\x[0-9a-fA-F]{2}|\\.|.)(?:-(\\x[0-9a-fA-F]{2}|\\.|[^\]]))?", re.DOTALL)
_COUNTS = {"*": ("+", "?"), "+": ("*", ""), "?": ("", "*"), "*+": ("++", "?"), "++": ("*+", "")}


def faulty(pattern: str) -> Iterator[str]:
    """Yield each pattern that differs from ``pattern`` in one token.

    The changes affect repetition counts, alternatives, and the members, the ends of ranges and the negation
    of character sets. A result need not compile; such a mutant is stillborn.
    """
    tokens = list(_TOKEN.finditer(pattern))
    for token in tokens:
        before, text, after = pattern[: token.start()], token.group(), pattern[token.end() :]
        if token.lastgroup in ("set", "count"):
            for other in (_sets if token.lastgroup == "set" else _counts)(text):
                yield before + other + after
        elif token.lastgroup == "atom":
            # Remove the count too, because it would otherwise apply to the preceding item.
            follows = _TOKEN.match(after)
            counted = follows is not None and follows.lastgroup == "count"
            yield before + (after[follows.end() :] if counted and follows else after)
    yield from _without_alternatives(pattern, tokens)


def _counts(text: str) -> Iterator[str]:
    if text in _COUNTS:
        yield from _COUNTS[text]
    elif text[0] == "{" and text[1:-1].isdigit():
        count = int(text[1:-1])
        yield f"{{{count - 1}}}"
        yield f"{{{count + 1}}}"


def _sets(text: str) -> Iterator[str]:
    sign = "^" if text[1] == "^" else ""
    items = [m.group() for m in _ITEM.finditer(text[1 + len(sign) : -1])]
    yield f"[{'' if sign else '^'}{''.join(items)}]"
    for index, item in enumerate(items):
        for other in ("", *_shorter(item)):
            changed = "".join([*items[:index], other, *items[index + 1 :]])
            if changed:
                yield f"[{sign}{changed}]"


def _shorter(item: str) -> Iterator[str]:
    match = _ITEM.fullmatch(item)
    if match is None or match.group(2) is None:
        return
    first, last = _code(match.group(1)), _code(match.group(2))
    yield f"{_escape(first + 1)}-{_escape(last)}"
    yield f"{_escape(first)}-{_escape(last - 1)}"


def _code(text: str) -> int:
    return int(text[2:], 16) if text.startswith("\\x") else ord(text[-1])


def _escape(code: int) -> str:
    return chr(code) if chr(code).isalnum() else f"\\x{code:02x}"


def _without_alternatives(pattern: str, tokens: list[re.Match[str]]) -> Iterator[str]:
    opened: list[list[int]] = [[0]]
    for token in tokens:
        if token.lastgroup == "bar":
            opened[-1].append(token.end())
        elif token.group() in ("(", "(?:"):
            opened.append([token.end()])
        elif token.group() == ")" and token.lastgroup == "group":
            yield from _drop_each(pattern, opened.pop(), token.start())
    yield from _drop_each(pattern, opened[0], len(pattern))


def _drop_each(pattern: str, starts: list[int], end: int) -> Iterator[str]:
    if len(starts) < 2:
        return
    stops = [s - 1 for s in starts[1:]] + [end]
    parts = [pattern[a:b] for a, b in zip(starts, stops, strict=True)]
    for rest in _without_each(parts):
        yield pattern[: starts[0]] + "|".join(rest) + pattern[end:]
