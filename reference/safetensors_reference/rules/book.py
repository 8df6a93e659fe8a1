"""The rules and choices of the format, loaded from ``rules.toml`` and ``choices.toml``.

These files contain the only copy of each statement. The reader, the corpus, the harness, the reports and the
documentation all take their statements from these files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Literal

Level = Literal["must", "should", "may"]
Basis = Literal["text", "official", "ours"]
ProfileName = Literal["text", "official", "hardened"]
PROFILES: tuple[ProfileName, ...] = ("text", "official", "hardened")
TEXT_ANSWERS = "'text' follows 'hardened' where the written rules leave a choice open"
"""Help text that explains the ``text`` profile."""
BASES: dict[Basis, str] = {
    "text": "the written format",
    "official": "the official library; the text is silent",
    "ours": "this project or a third-party convention; neither the text nor the official library requires it",
}
"""Maps each basis to a description of where the requirement or permission comes from."""

HEADER_CAP = 100_000_000
"""Maximum header length in bytes that a reader accepts (LIM-01)."""


@dataclass(frozen=True)
class Rule:
    """A numbered requirement of the format.

    ``basis`` says where the requirement (or, for a "may" rule, the permission) comes from. ``text``,
    ``official`` and ``hardened`` are the positions of the written specification, the newest official release
    and our recommendation for hostile files. If these positions differ or the text leaves the behaviour open,
    ``choice`` is the id of the choice. ``codes`` are the fault codes that a strict reader reports.
    """

    id: str
    level: Level
    basis: Basis
    title: str
    statement: str
    source: str
    text: str
    official: str
    hardened: str
    choice: str | None = None
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """Behaviour that the text leaves open, or about which the text and the official library disagree.

    ``options`` maps each option to its meaning. ``positions`` maps each profile to its option, or to None if
    the profile leaves the choice open. ``required`` is the option that every reader must follow even without
    a profile, because the text is clear and only an implementation deviates from it. If several options are
    legitimate, ``required`` is None. ``limit`` means that readers may set different limits, so a reader may
    accept some of these cases and reject others. ``settled`` lists rules whose ordinary cases test the
    required option, because all known interpretations agree on that option.
    """

    id: str
    title: str
    rule: str
    description: str
    options: dict[str, str]
    positions: dict[str, str | None]
    required: str | None = None
    limit: bool = False
    settled: tuple[str, ...] = ()
    points: tuple[int, ...] = ()

    def expected(self, profile: str | None) -> str | None:
        """Return the option that a profile requires, or None if the choice is open.

        If ``profile`` is None, return the option that is required without a profile.
        """
        return self.required if profile is None else self.positions[profile]

    def takers(self, option: str | None) -> list[str]:
        """Return the profiles that choose ``option`` or, if it is None, those that leave the choice open."""
        return [profile for profile in PROFILES if self.positions[profile] == option]


@dataclass(frozen=True)
class RuleBook:
    """All rules, choices and fault codes, in the order of the data files."""

    rules: dict[str, Rule]
    choices: dict[str, Choice]
    codes: dict[str, str]
    points: dict[int, str] = field(default_factory=dict)  # titles of the disputed points of the format

    @cached_property
    def digest(self) -> str:
        """SHA-256 of rules.toml and choices.toml, concatenated."""
        import hashlib
        from importlib.resources import files

        package = files("safetensors_reference.rules")
        texts = (package.joinpath(name).read_bytes() for name in ("rules.toml", "choices.toml"))
        return hashlib.sha256(b"".join(texts)).hexdigest()


def _read(name: str) -> dict[str, Any]:
    # These imports are deferred because checking a valid file does not need the rule book.
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files("safetensors_reference.rules").joinpath(name).read_text(encoding="utf-8"))


def _by_id(name: str, raw: object, rows_type: type[list[Any]]) -> dict[str, Any]:
    """Map ids to the rows of a data file. Raises ValueError for a malformed row or a repeated id."""
    import msgspec

    try:
        rows = msgspec.convert(raw, rows_type)
    except msgspec.ValidationError as err:
        raise ValueError(f"{name}: {err}") from err
    found: dict[str, Any] = {}
    for row in rows:
        if row.id in found:
            raise ValueError(f"{name}: {type(row).__name__.lower()} {row.id} appears twice")
        found[row.id] = row
    return found


@cache
def rule_book() -> RuleBook:
    """Return the rule book, which is loaded once per process.

    Raises ValueError if the data files contradict each other.
    """
    rules, choices = _read("rules.toml"), _read("choices.toml")
    for row in choices["choice"]:
        row["positions"] = {profile: row["positions"].get(profile) for profile in PROFILES}
    book = RuleBook(
        _by_id("rules.toml", rules["rule"], list[Rule]),
        _by_id("choices.toml", choices["choice"], list[Choice]),
        rules["codes"],
        {int(number): title for number, title in choices["points"].items()},
    )
    _check(book)
    return book


def _check(book: RuleBook) -> None:
    for rule in book.rules.values():
        if rule.choice is not None and rule.choice not in book.choices:
            raise ValueError(f"rules.toml: rule {rule.id} names an unknown choice {rule.choice!r}")
        for code in rule.codes:
            if code not in book.codes:
                raise ValueError(f"rules.toml: rule {rule.id} names an unknown code {code!r}")
    for choice in book.choices.values():
        wrong = _wrong(choice, book)
        if wrong:
            raise ValueError(f"choices.toml: choice {choice.id} {wrong}")


def _wrong(choice: Choice, book: RuleBook) -> str | None:
    unknown = [rule_id for rule_id in (choice.rule, *choice.settled) if rule_id not in book.rules]
    if unknown:
        return f"names an unknown rule {unknown[0]!r}"
    if choice.settled and choice.required is None:
        return "is settled, but does not require an option"
    for point in choice.points:
        if point not in book.points:
            return f"names an unknown point {point}"
    if len(choice.options) < 2:
        return "has only one option"
    for option in (choice.required, *choice.positions.values()):
        if option is not None and option not in choice.options:
            return f"has no option {option!r}"
    return None
