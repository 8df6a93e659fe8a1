"""Faults in framing, encoding, JSON syntax, keys, entries and metadata (FRM, HDR, ENT, MET)."""

from __future__ import annotations

import random

from safetensors_corpus.features import vocabulary as words
from safetensors_corpus.features.tree import (
    Arr,
    File,
    NoPlaceError,
    Obj,
    Value,
    copy,
    entries,
    escape,
    framed,
    header,
    into_string,
    leaves,
    members,
    metadata,
    metadata_tree,
    numbers,
    one,
    some,
    some_leaf,
    some_member,
    spoilable,
    text,
    trees,
)

from . import fault

OTHER_DIGITS = tuple(
    str.maketrans("0123456789", digits)
    for digits in ("٠١٢٣٤٥٦٧٨٩", "０１２３４５６７８９", "०१२३४५६७८९", "⁰¹²³⁴⁵⁶⁷⁸⁹", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗")
)
"""Non-ASCII digits. Some programming languages accept some of them in numbers."""


def bad_spellings(number: int) -> tuple[bytes, ...]:
    n = b"%d" % number
    return (
        b"0" + n, b"00", b"+" + n, n + b".", b"." + n, n + b"e", n + b"e+", b"0x" + n, n + b"_0", n + b"L",
        b"- " + n, b"--" + n, b"-", b"0b1", b"1'0", b"NaN", b"Infinity", b"-Infinity",
        *(str(number).translate(digits).encode() for digits in OTHER_DIGITS),
    )  # fmt: skip


@fault("FRM-03")
def too_short(rng: random.Random, file: File) -> bool:
    """Cut the file inside its length prefix."""
    file.raw = file.render()[: rng.randrange(8)]
    return True


@fault("FRM-01", "FRM-04")
def cut_header(rng: random.Random, file: File) -> bool:
    """Cut the file inside its header."""
    header = framed(file)
    file.length = len(header) if file.length is None else file.length
    end = 8 + rng.choice((0, 1, max(len(header) - 1, 0), rng.randint(0, max(len(header) - 1, 0))))
    file.raw = file.render()[:end]
    return True


@fault("FRM-04", "FRM-02")
def length_past_end(rng: random.Random, file: File) -> bool:
    """Declare a header that ends after the file."""
    room = len(framed(file)) + len(file.data)
    file.length = rng.choice(
        (room + 1, room + 7, room + 8, room + 9, 2 * room + 1, 65536, 10_000_000, 99_999_999)
    )
    return file.length > room


@fault("FRM-06", "LIM-01", "FRM-02", "FRM-05")
def length_over_limit(rng: random.Random, file: File) -> None:
    """Declare a header longer than any reader accepts. The low 32 bits of its length are often correct."""
    true = len(file.header())
    longer = (true << 32, true << 56, true + 2**32, true + 2**63, 2**64 - true, 2**64 - 8 - true)
    file.length = rng.choice((rng.choice(words.LENGTHS), *longer)) % 2**64


@fault("FRM-02")
def length_big_endian(rng: random.Random, file: File) -> None:  # noqa: ARG001
    """Write the header length in big-endian order."""
    file.length = int.from_bytes(len(file.header()).to_bytes(8, "little"), "big")


@fault("FRM-07")
def length_zero(rng: random.Random, file: File) -> None:
    """Declare an empty header. The file may still contain a header."""
    if rng.random() < 0.5:
        file.root, file.padding = b"", b""
    if rng.random() < 0.4:
        file.data = b""
    file.length = 0


@fault("FRM-01", "HDR-06", "HDR-04", "OFF-08")
def length_off(rng: random.Random, file: File) -> bool:
    """Declare a header length that is too small or too large by a few bytes."""
    true = len(framed(file))
    by = rng.choice((-8, -4, -2, -1, 1, 2, 4, 8, -len(file.padding), -len(file.padding) - 1, len(file.data)))
    file.length = max(true + by, 0)
    return by != 0


@fault("FRM-01", "FRM-10")
def magic_before(rng: random.Random, file: File) -> bool:
    """Put the magic bytes of another format at the start of the file."""
    file.raw = rng.choice((*words.MAGIC, b"\x00", b"\n", b"\xef\xbb\xbf")) + file.render()
    return True


@fault("HDR-01")
def not_utf8(rng: random.Random, file: File) -> None:
    """Insert bytes that are not UTF-8 into a string or anywhere else."""
    junk = rng.choice(words.NOT_UTF8)
    spots = spoilable(rng, file)
    if spots and rng.random() < 0.85:
        into_string(rng, *rng.choice(spots), junk)
        return
    header = file.header()
    at = rng.randint(0, len(header))
    file.root, file.padding = header[:at] + junk + header[at:], b""


@fault("HDR-02")
def space_before(rng: random.Random, file: File) -> None:
    """Insert whitespace before the opening brace."""
    _before(file, rng.choice(words.SPACES) * rng.choice((1, 1, 2, 8)))


@fault("HDR-02")
def junk_before(rng: random.Random, file: File) -> None:
    """Insert something other than whitespace before the opening brace."""
    _before(file, rng.choice((*words.NO_SPACES, b"x", b",", b")]}'", b"//\n", b"[", b"{", b"\x80\x02")))


@fault("HDR-05")
def byte_order_mark(rng: random.Random, file: File) -> None:
    """Insert a byte-order mark at the start of the header."""
    _before(file, words.BOMS[0] if rng.random() < 0.6 else rng.choice(words.BOMS))


def _before(file: File, junk: bytes) -> None:
    if type(file.root) is Obj:
        file.root.head = junk + file.root.head
    else:
        file.root = junk + text(file.root)


@fault("HDR-03")
def other_space_behind(rng: random.Random, file: File) -> None:
    """Insert whitespace other than spaces somewhere in the padding."""
    _padding(rng, file, rng.choice((b"\n", b"\t", b"\r", b"\r\n")))


@fault("HDR-03", "HDR-05")
def junk_behind(rng: random.Random, file: File) -> None:
    """Insert bytes that are not whitespace into the padding."""
    _padding(rng, file, rng.choice((*words.NO_SPACES, b"\x00" * 8, b"x", b"\xff", b"0", b";")))


@fault("HDR-06")
def more_behind(rng: random.Random, file: File) -> None:
    """Insert a second value, or the end of a value, after the header object."""
    _padding(rng, file, rng.choice((*words.WORDS, b"}", b"]", b",", b"{}{}", b'{"a":1}', b":0", b"}}")))


def _padding(rng: random.Random, file: File, junk: bytes) -> None:
    if rng.random() < 0.05:
        file.padding = file.padding.ljust(rng.choice((64, 520, 4200, 8300)))
    blanks = len(file.padding)
    at = rng.choice((0, blanks, rng.randint(0, blanks)))
    file.padding = b" " * at + junk + b" " * (blanks - at)
    if rng.random() < 0.5:  # keep the length, because a reader may accept only multiples of eight
        file.padding = file.padding[: max(blanks, at + len(junk))]


@fault("HDR-06")
def no_object(rng: random.Random, file: File) -> None:
    """Replace the header with a JSON value of another type, or with whitespace."""
    inside = text(file.root)
    quoted = b'"' + inside.replace(b'"', b'\\"') + b'"'
    choices = (*words.WORDS, b" " * 8, b"[" + inside + b"]", quoted, b"", b"[]  ")
    file.root = rng.choice([c for c in choices if c != b"{}"])
    file.padding = file.padding or b" " * 8


@fault("HDR-01", "HDR-05")
def other_encoding(rng: random.Random, file: File) -> None:
    """Write the header in UTF-16 or UTF-32."""
    try:
        wide = file.header().decode().encode(rng.choice(words.ENCODINGS))
    except UnicodeDecodeError:
        raise NoPlaceError from None
    file.root, file.padding = wide, b""


@fault("FRM-09", "OFF-08")
def data_without_tensors(rng: random.Random, file: File) -> None:
    """Remove all tensors and keep the data."""
    if not entries(file) or not file.data:
        raise NoPlaceError
    header(file).members = [[words.RESERVED, metadata_tree(rng)]] if rng.random() < 0.3 else []


@fault("HDR-07")
def comma_too_many(rng: random.Random, file: File) -> None:
    """Insert a comma after the last member, before the first, or next to another comma."""
    tree = one(rng, trees(file))
    where = rng.randrange(3)
    if where == 0:
        tree.foot = b"," + rng.choice((b"", b"", b" ", b"\n")) + tree.foot
    elif where == 1:
        tree.head += b","
    elif type(tree) is Arr:
        tree.items.insert(rng.randint(0, len(tree.items)), b"")
    else:
        tree.foot = b",," + tree.foot


@fault("HDR-07")
def bracket_changed(rng: random.Random, file: File) -> bool:
    """Remove a bracket, double it, or write the wrong kind."""
    tree = one(rng, trees(file))
    bad = rng.choice((b"", b"}", b"]", b"}}", b"]]", b")", b">"))
    if rng.random() < 0.7:
        changed, tree.foot = bad != tree.foot, bad
    else:
        bad = rng.choice((b"", b"(", b"[", b"{", b"[[", b"{{"))
        changed, tree.head = bad != tree.head, bad
    return changed


@fault("HDR-07")
def key_unquoted(rng: random.Random, file: File) -> None:
    """Write a key without quotes, with other quotes, or as another value."""
    member = some_member(rng, file)
    key = member[0]
    assert type(key) is bytes
    bare = key.strip()[1:-1]
    member[0] = rng.choice(
        (bare, b"'" + bare + b"'", b'"' + bare, bare + b'"', b"null", b"1", b"", b"[]", b'u"x"')
    )


@fault("HDR-07")
def separator_changed(rng: random.Random, file: File) -> None:
    """Write something other than a colon between a key and its value."""
    member = some_member(rng, file)
    value = text(member[1])
    # The tree always renders the colon, so the wrong text goes next to it.
    member[1] = rng.choice(
        (b":" + value, b"=" + value, b">" + value, b"," + value, b"", b":", b" /**/" + value)
    )


@fault("HDR-07")
def comma_missing(rng: random.Random, file: File) -> None:
    """Omit the comma between two members or items, or write something else there."""
    tree = one(rng, [tree for tree in trees(file) if len(tree.parts) > 1])
    between = rng.choice((b" ", b"", b";", b"\n", b"|"))
    at = rng.randrange(len(tree.parts) - 1)
    if isinstance(tree, Arr):
        tree.items[at : at + 2] = [text(tree.items[at]) + between + text(tree.items[at + 1])]
    else:
        (key, value), (second, item) = tree.members[at : at + 2]
        tree.members[at : at + 2] = [[key, text(value) + between + text(second) + b":" + text(item)]]


@fault("HDR-07")
def value_spelled_badly(rng: random.Random, file: File) -> None:
    """Replace a value with text that is not JSON."""
    holder, place, value = some_leaf(rng, file)
    number = value.strip().isdigit() and rng.random() >= 0.3
    holder[place] = rng.choice(bad_spellings(int(value.strip()[:20])) if number else words.BAD_WORDS)


@fault("HDR-07")
def number_spelled_badly(rng: random.Random, file: File) -> None:
    """Write a dimension or an offset in a way that JSON does not allow, e.g. with leading zeros."""
    spots = [(holder, place) for holder, place in leaves(file) if text(holder[place]).strip().isdigit()]
    holder, place = one(rng, spots)
    number = text(holder[place]).strip()[:20]
    zeros = b"0" * rng.choice((1, 1, 2, 20)) + number
    holder[place] = zeros if rng.random() < 0.5 else rng.choice(bad_spellings(int(number)))


@fault("HDR-07")
def space_of_another_kind(rng: random.Random, file: File) -> None:
    """Insert a comment between tokens, or whitespace that JSON does not allow."""
    holder, place, value = some_leaf(rng, file)
    junk = rng.choice((*words.NO_SPACES, b"/* */", b"//\n", b"#\n"))
    holder[place] = junk + value if rng.random() < 0.5 else value + junk


@fault("HDR-07")
def header_cut(rng: random.Random, file: File) -> None:
    """End the header object early. The declared length is still correct."""
    whole = text(file.root)
    if file.raw is not None or len(whole) < 2:
        raise NoPlaceError
    file.root, file.padding = whole[: rng.choice((len(whole) - 1, rng.randrange(1, len(whole))))], b""


@fault("HDR-14")
def control_in_string(rng: random.Random, file: File) -> None:
    """Insert a raw control character into a string."""
    into_string(rng, *one(rng, spoilable(rng, file)), rng.choice(words.CONTROLS))


@fault("HDR-15")
def bad_escape(rng: random.Random, file: File) -> None:
    """Insert an escape that JSON does not allow into a string, or half of a surrogate pair."""
    into_string(rng, *one(rng, spoilable(rng, file)), rng.choice(words.BAD_ESCAPES))


@fault("HDR-09", "HDR-10", "LIM-05")
def name_again(rng: random.Random, file: File) -> None:
    """Give two entries the same name. Their ranges may differ, and they need not be adjacent."""
    found, rows = entries(file), members(file)
    entry = one(rng, found)
    how = rng.randrange(4)
    if how == 0 and len(found) > 1:  # two different tensors get the same name
        other = rng.choice([e for e in found if e.member is not entry.member])
        other.member[0] = entry.member[0]
        twin = other.member
    else:
        twin = [entry.member[0], copy(entry.member[1])]
        rows.insert(rng.choice((0, len(rows), rng.randint(0, len(rows)))), twin)
        again = next(e for e in entries(file) if e.member is twin)
        if how == 2 and entry.begin < entry.end <= len(file.data):  # the copy has its own data
            begin, size = len(file.data), entry.end - entry.begin
            again.move(begin, begin + size)
            file.data += bytes(size)
        elif how == 3:
            again.reshape([1, *again.shape])
    if rng.random() < 0.4:
        escape(rng, twin, 0)


@fault("HDR-11", "HDR-10", "MET-06")
def metadata_again(rng: random.Random, file: File) -> None:
    """Write the metadata key twice."""
    rows, first = header(file).members, metadata(file)
    if first is None:
        first = [words.RESERVED, Obj([[b'"a"', b'"b"']])]
        rows.insert(rng.randint(0, len(rows)), first)
    value = rng.choice((copy(first[1]), Obj([]), Obj([[b'"other"', b'"value"']])))
    _twin(rng, rows, [first[0], value], rng.choice((0, len(rows), rng.randint(0, len(rows)))))


@fault("HDR-12", "HDR-10")
def field_again(rng: random.Random, file: File) -> None:
    """Write a field of an entry twice, with the same or a different value."""
    entry = some(rng, file)
    rows = entry.obj.members
    key, value = rng.choice(rows)
    other: dict[bytes, tuple[Value, ...]] = {
        b'"dtype"': (b'"U8"', b'"F32"', b"null", b'""'),
        b'"shape"': (numbers(), numbers(1), numbers(*entry.shape, 1)),
        b'"data_offsets"': (
            numbers(),
            numbers(0, 0),
            numbers(entry.begin, entry.end + 1),
            numbers(0, entry.end),
        ),
    }
    again: Value = copy(value)
    if type(key) is bytes and key in other and rng.random() < 0.5:
        again = rng.choice(other[key])
    _twin(rng, rows, [key, again], rng.randint(0, len(rows)))


@fault("HDR-13", "HDR-10")
def metadata_key_again(rng: random.Random, file: File) -> None:
    """Write one metadata key twice."""
    member = metadata(file)
    if member is None:
        member = [words.RESERVED, Obj([[b'"format"', b'"pt"']])]
        header(file).members.insert(0, member)
    if type(member[1]) is not Obj:
        raise NoPlaceError
    rows = member[1].members
    if not rows:
        rows.append([b'"format"', b'"pt"'])
    key, value = rng.choice(rows)
    again = rng.choice((copy(value), b'"%b"' % rng.choice(words.META_VALUES)))
    _twin(rng, rows, [key, again], rng.randint(0, len(rows)))


def _twin(rng: random.Random, rows: list[list[Value]], twin: list[Value], at: int) -> None:
    rows.insert(at, twin)
    if rng.random() < 0.3:
        escape(rng, twin, 0)


@fault("HDR-16")
def deep_nesting(rng: random.Random, file: File) -> None:
    """Nest arrays or objects more deeply than readers support, as a value or in an ignored field."""
    depth = rng.choice((123, 124, 125, 126, 127, 128, 129, 200, 1000, 5000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    inside = b"0" if opening != b"[" or rng.random() < 0.5 else b""
    value = opening * depth + inside + closing * (depth if rng.random() < 0.8 else 0)
    if entries(file) and rng.random() < 0.5:
        _unknown_field(rng, file, value)
    else:
        holder, place, _ = some_leaf(rng, file)
        holder[place] = value


@fault("HDR-18", "LIM-08")
def huge_number(rng: random.Random, file: File) -> None:
    """Put a number beyond the range of a double into an unknown field."""
    number: Value = rng.choice(words.HUGE_NUMBERS)
    how = rng.randrange(3)
    value = number if how == 0 else Arr([b"0", number]) if how == 1 else Obj([[b'"a"', number]])
    _unknown_field(rng, file, value)


def _unknown_field(rng: random.Random, file: File, value: Value) -> None:
    members = some(rng, file).obj.members
    members.insert(rng.randint(0, len(members)), [b'"x"', value])


@fault("ENT-01", "MET-05")
def entry_of_another_type(rng: random.Random, file: File) -> None:
    """Replace an entry with a JSON value that is not an entry, or add such a value as a new entry."""
    rows, found = header(file).members, entries(file)
    entry = rng.choice(found) if found else None
    if entry is None or rng.random() < 0.4:
        row: list[Value] = [b'"extra"', rng.choice(words.WORDS)]
        rows.insert(rng.randint(0, len(rows)), row)
    else:
        entry.member[1] = rng.choice(words.WORDS)


@fault("ENT-02")
def entry_as_array(rng: random.Random, file: File) -> None:
    """Write an entry as an array of its values, in any order and possibly with some values missing."""
    entry = some(rng, file)
    items = [value for _, value in entry.obj.members]
    how = rng.randrange(4)
    if how == 1:
        rng.shuffle(items)
    elif how == 2:
        items.pop()
    elif how == 3:
        items.append(b"0")
    entry.member[1] = Arr(items)


@fault("ENT-03")
def field_missing(rng: random.Random, file: File) -> None:
    """Omit one or all fields of an entry."""
    entry = some(rng, file)
    if rng.random() < 0.15:
        entry.obj.members = []
    else:
        entry.obj.members.pop(rng.randrange(len(entry.obj.members)))


@fault("ENT-03", "ENT-05", "DTY-03", "SHP-01", "OFF-01")
def field_null(rng: random.Random, file: File) -> None:
    """Give a field the value null."""
    entry = some(rng, file)
    rng.choice(entry.obj.members)[1] = b"null"


@fault("ENT-04")
def field_unknown(rng: random.Random, file: File) -> None:
    """Add a field that the format does not define."""
    entry = some(rng, file)
    row: list[Value] = [
        rng.choice(words.UNKNOWN_FIELDS),
        rng.choice((*words.WORDS, numbers(1, 2), Obj([[b'"dtype"', b'"F32"']]))),
    ]
    entry.obj.members.insert(rng.randint(0, len(entry.obj.members)), row)


@fault("ENT-05")
def field_name_near(rng: random.Random, file: File) -> None:
    """Write a field with a similar name, either instead of the right field or in addition to it."""
    entry = some(rng, file)
    member = one(rng, [m for m in entry.obj.members if m[0] in words.FIELDS])
    assert type(member[0]) is bytes
    near = rng.choice(words.NEAR_FIELDS[member[0]])
    if rng.random() < 0.6:
        member[0] = near
    else:
        entry.obj.members.insert(rng.randint(0, len(entry.obj.members)), [near, copy(member[1])])


def _with_metadata(rng: random.Random, file: File) -> list[Value]:
    """Return the metadata member, adding it if necessary. Raises NoPlaceError."""
    member, rows = metadata(file), header(file).members
    if member is None:
        member = [words.RESERVED, Obj([[b'"a"', b'"b"'], [b'"format"', b'"pt"']])]
        rows.insert(rng.choice((0, len(rows))), member)
    return member


@fault("MET-01")
def metadata_no_map(rng: random.Random, file: File) -> None:
    """Write the metadata as a JSON value that is not a map of strings."""
    member = _with_metadata(rng, file)
    member[1] = rng.choice([w for w in words.WORDS if w not in (b"null", b"{}", b'{"a":0}')])


@fault("MET-02")
def metadata_null(rng: random.Random, file: File) -> None:
    """Write the metadata as null."""
    _with_metadata(rng, file)[1] = b"null"


@fault("MET-01")
def metadata_value_no_string(rng: random.Random, file: File) -> None:
    """Give a metadata key a value that is not a string."""
    member = _with_metadata(rng, file)
    if type(member[1]) is not Obj:
        raise NoPlaceError
    rows = member[1].members
    if not rows or rng.random() < 0.3:
        rows.append([b'"z"', b'"z"'])
    bad = rng.choice([w for w in words.WORDS if not w.startswith(b'"')])
    rng.choice((rows[0], rows[-1], rng.choice(rows)))[1] = bad


@fault("MET-07")
def tensor_as_metadata(rng: random.Random, file: File) -> None:
    """Give a tensor the reserved name ``__metadata__``."""
    entry, old = some(rng, file), metadata(file)
    if old is not None:
        members(file).remove(old)
    entry.member[0] = words.RESERVED


@fault("MET-05", "MET-06")
def reserved_name_near(rng: random.Random, file: File) -> None:
    """Write a key that resembles the reserved name but names a tensor."""
    member = _with_metadata(rng, file)
    member[0] = rng.choice(words.NEAR_RESERVED)
