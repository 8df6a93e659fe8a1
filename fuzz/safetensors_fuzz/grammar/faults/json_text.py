"""Faults of the JSON text and of its keys (HDR-07 to HDR-18)."""

from __future__ import annotations

import random

from ..entries import (
    entries,
    escape,
    into_string,
    metadata,
    numbers,
    some,
    some_leaf,
    some_member,
    spoilable,
    trees,
)
from ..model import Arr, File, Obj, Value, copy, text
from ..registry import fault
from ..vocabulary import (
    BAD_ESCAPES,
    BAD_WORDS,
    CONTROLS,
    HUGE_NUMBERS,
    META_VALUES,
    NO_SPACES,
    RESERVED,
    bad_spellings,
)


@fault("HDR-07")
def comma_too_many(rng: random.Random, file: File) -> bool:
    """Put a comma behind the last member, before the first, or two in a row."""
    found = trees(file)
    if not found:
        return False
    tree = rng.choice(found)
    where = rng.randrange(3)
    if where == 0:
        tree.foot = b"," + tree.foot
    elif where == 1:
        tree.head += b","
    elif type(tree) is Arr:
        tree.items.insert(rng.randint(0, len(tree.items)), b"")
    else:
        tree.foot = b",," + tree.foot
    return True


@fault("HDR-07")
def bracket_changed(rng: random.Random, file: File) -> bool:
    """Leave out a bracket, double it, or take the other kind."""
    found = trees(file)
    if not found:
        return False
    tree = rng.choice(found)
    bad = rng.choice((b"", b"}", b"]", b"}}", b"]]", b")", b">"))
    if rng.random() < 0.7:
        changed, tree.foot = bad != tree.foot, bad
    else:
        bad = rng.choice((b"", b"(", b"[", b"{", b"[[", b"{{"))
        changed, tree.head = bad != tree.head, bad
    return changed


@fault("HDR-07")
def key_unquoted(rng: random.Random, file: File) -> bool:
    """Write a key without quotes, with other quotes, or as another value."""
    member = some_member(rng, file)
    if member is None:
        return False
    key = member[0]
    assert type(key) is bytes
    bare = key.strip()[1:-1]
    member[0] = rng.choice(
        (bare, b"'" + bare + b"'", b'"' + bare, bare + b'"', b"null", b"1", b"", b"[]", b'u"x"')
    )
    return True


@fault("HDR-07")
def separator_changed(rng: random.Random, file: File) -> bool:
    """Write something else than a colon between key and value."""
    member = some_member(rng, file)
    if member is None:
        return False
    value = text(member[1])
    # The colon itself belongs to the tree, so what is wrong goes beside it.
    member[1] = rng.choice(
        (b":" + value, b"=" + value, b">" + value, b"," + value, b"", b":", b" /**/" + value)
    )
    return True


@fault("HDR-07")
def comma_missing(rng: random.Random, file: File) -> bool:
    """Leave out the comma between two members or items, or write something else there."""
    found = [t for t in trees(file) if len(t.members if isinstance(t, Obj) else t.items) > 1]
    if not found:
        return False
    tree = rng.choice(found)
    between = rng.choice((b" ", b"", b";", b"\n", b"|"))
    if isinstance(tree, Arr):
        at = rng.randrange(len(tree.items) - 1)
        tree.items[at : at + 2] = [text(tree.items[at]) + between + text(tree.items[at + 1])]
    else:
        at = rng.randrange(len(tree.members) - 1)
        (key, value), (second, item) = tree.members[at : at + 2]
        tree.members[at : at + 2] = [[key, text(value) + between + text(second) + b":" + text(item)]]
    return True


@fault("HDR-07")
def value_spelled_badly(rng: random.Random, file: File) -> bool:
    """Put a text that is no JSON in place of a value."""
    found = some_leaf(rng, file)
    if found is None:
        return False
    holder, place, value = found
    bad = (
        BAD_WORDS
        if not value.strip().isdigit() or rng.random() < 0.3
        else bad_spellings(int(value.strip()[:20]))
    )
    holder[place] = rng.choice(bad)
    return True


@fault("HDR-07")
def space_of_another_kind(rng: random.Random, file: File) -> bool:
    """Put whitespace between tokens that is none in JSON, or a comment."""
    found = some_leaf(rng, file)
    if found is None:
        return False
    holder, place, value = found
    junk = rng.choice((*NO_SPACES, b"/* */", b"//\n", b"#\n"))
    holder[place] = junk + value if rng.random() < 0.5 else value + junk
    return True


@fault("HDR-07")
def header_cut(rng: random.Random, file: File) -> bool:
    """End the header object early; the length is true."""
    whole = text(file.root)
    if file.raw is not None or len(whole) < 2:
        return False
    file.root, file.padding = whole[: rng.choice((len(whole) - 1, rng.randrange(1, len(whole))))], b""
    return True


@fault("HDR-14")
def control_in_string(rng: random.Random, file: File) -> bool:
    """Put a raw control character into a string."""
    spots = spoilable(rng, file)
    return bool(spots) and into_string(rng, *rng.choice(spots), rng.choice(CONTROLS))


@fault("HDR-15")
def bad_escape(rng: random.Random, file: File) -> bool:
    """Put an escape into a string that JSON does not have, or half a surrogate pair."""
    spots = spoilable(rng, file)
    return bool(spots) and into_string(rng, *rng.choice(spots), rng.choice(BAD_ESCAPES))


@fault("HDR-09", "HDR-10", "LIM-05")
def name_again(rng: random.Random, file: File) -> bool:
    """Give a second entry the name of a first: the same range or another, side by side or apart."""
    found = entries(file)
    if not found or type(file.root) is not Obj:
        return False
    rows, entry = file.root.members, rng.choice(found)
    how = rng.randrange(4)
    if how == 0 and len(found) > 1:  # two tensors that differ get one name
        other = rng.choice([e for e in found if e.member is not entry.member])
        other.member[0] = entry.member[0]
        twin = other.member
    else:
        twin = [entry.member[0], copy(entry.member[1])]
        rows.insert(rng.choice((0, len(rows), rng.randint(0, len(rows)))), twin)
        if how == 2 and entry.begin < entry.end <= len(file.data):  # with data of its own
            again = next(e for e in entries(file) if e.member is twin)
            begin, size = len(file.data), entry.end - entry.begin
            again.move(begin, begin + size)
            file.data += bytes(size)
        elif how == 3:
            again = next(e for e in entries(file) if e.member is twin)
            again.reshape([1, *again.shape])
    if rng.random() < 0.4:
        escape(rng, twin, 0)
    return True


@fault("HDR-11", "HDR-10", "MET-06")
def metadata_again(rng: random.Random, file: File) -> bool:
    """Write the metadata key twice."""
    if type(file.root) is not Obj or file.raw is not None:
        return False
    rows, first = file.root.members, metadata(file)
    if first is None:
        first = [RESERVED, Obj([[b'"a"', b'"b"']])]
        rows.insert(rng.randint(0, len(rows)), first)
    value = rng.choice((copy(first[1]), Obj([]), Obj([[b'"other"', b'"value"']])))
    twin: list[Value] = [first[0], value]
    rows.insert(rng.choice((0, len(rows), rng.randint(0, len(rows)))), twin)
    if rng.random() < 0.3:
        escape(rng, twin, 0)
    return True


@fault("HDR-12", "HDR-10")
def field_again(rng: random.Random, file: File) -> bool:
    """Write a field of an entry twice, with the same value or another."""
    entry = some(rng, file)
    if entry is None:
        return False
    rows = entry.obj.members
    key, value = rng.choice(rows)
    other: dict[bytes, tuple[Value, ...]] = {
        b'"dtype"': (b'"U8"', b'"F32"', b"null"),
        b'"shape"': (numbers(), numbers(1), numbers(*entry.shape, 1)),
        b'"data_offsets"': (numbers(0, 0), numbers(entry.begin, entry.end + 1), numbers(0, entry.end)),
    }
    again: Value = copy(value)
    if type(key) is bytes and key in other and rng.random() < 0.5:
        again = rng.choice(other[key])
    twin: list[Value] = [key, again]
    rows.insert(rng.randint(0, len(rows)), twin)
    if rng.random() < 0.3:
        escape(rng, twin, 0)
    return True


@fault("HDR-13", "HDR-10")
def metadata_key_again(rng: random.Random, file: File) -> bool:
    """Write a key of the metadata twice."""
    member = metadata(file)
    if member is None:
        if type(file.root) is not Obj or file.raw is not None:
            return False
        member = [RESERVED, Obj([[b'"format"', b'"pt"']])]
        file.root.members.insert(0, member)
    if type(member[1]) is not Obj:
        return False
    rows = member[1].members
    if not rows:
        rows.append([b'"format"', b'"pt"'])
    key, value = rng.choice(rows)
    twin: list[Value] = [key, rng.choice((copy(value), b'"%b"' % rng.choice(META_VALUES)))]
    rows.insert(rng.randint(0, len(rows)), twin)
    if rng.random() < 0.3:
        escape(rng, twin, 0)
    return True


@fault("HDR-16")
def deep_nesting(rng: random.Random, file: File) -> bool:
    """Nest arrays or objects deeper than readers follow."""
    found = some_leaf(rng, file)
    if found is None:
        return False
    holder, place, _ = found
    depth = rng.choice((123, 124, 125, 126, 127, 128, 129, 200, 1000, 5000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    inside = b"0" if opening != b"[" or rng.random() < 0.5 else b""
    holder[place] = opening * depth + inside + closing * (depth if rng.random() < 0.8 else 0)
    return True


@fault("HDR-18", "LIM-08")
def huge_number(rng: random.Random, file: File) -> bool:
    """Put a number that no double holds into a field nobody asks for."""
    entry = some(rng, file)
    if entry is None:
        return False
    number: Value = rng.choice(HUGE_NUMBERS)
    how = rng.randrange(3)
    value = number if how == 0 else Arr([b"0", number]) if how == 1 else Obj([[b'"a"', number]])
    entry.obj.members.insert(rng.randint(0, len(entry.obj.members)), [b'"x"', value])
    return True
