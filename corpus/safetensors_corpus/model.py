"""The model of ``corpus.json``, from which ``corpus.schema.json`` is generated.

msgspec does not support unions of objects without a tag. Values with several forms are therefore untyped, and
``one_of`` adds their forms to the schema. ``document`` selects a form and validates the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta, Struct
from msgspec import field as named

from . import recipe
from .actions import ACTIONS, IndexRange
from .field_bugs import FieldBug
from .recipe import Recipe, Size
from .steps import CASE_STEPS, KINDS
from .typed import Count, json_schema, one_of, words

CASE_ID = "[a-z0-9]+/[a-z0-9]+(-[a-z0-9]+)*"


def names(*allowed: str) -> Meta:
    return Meta(extra_json_schema={"propertyNames": {"enum": list(allowed)}})


CaseId = Annotated[str, Meta(pattern=rf"\A{CASE_ID}\Z", max_length=200)]
Slug = Annotated[str, Meta(pattern=r"\A[a-z0-9]+(-[a-z0-9]+)*\Z")]
RuleId = Annotated[str, Meta(pattern=r"\A[A-Z]{3}-[0-9]{2}\Z")]
Code = Annotated[str, Meta(pattern=r"\A([A-Z]{2,3}_[A-Z0-9_]+|UNCLASSIFIED)\Z")]
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Version = Annotated[str, Meta(pattern=r"\A[0-9]{4}\.[0-9]{2}(\.[0-9]+)?\Z", max_length=200)]
Level = Literal["must", "should", "may"]
NotEmpty = Annotated[Recipe, Meta(min_length=1)]
Amount = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
Property = Literal[
    "aligned",
    "compact-json",
    "deterministic",
    "header-padded",
    "idempotent",
    "keeps-mode",
    "keeps-link",
    "no-foreign-bytes",
    "within-limit",
    "conventional-names",
    "earlier-removed",
    "earlier-kept",
    "no-mixture",
    "one-file",
    "one-save",
    "nothing-left",
    "target-unchanged",
]
Properties = Annotated[
    list[Property],
    Meta(
        description="Required properties of a written file beyond its content, and of its folder. For a "
        "sharded save: shards within the limit, usual names, files of an earlier model all removed or all "
        "kept, and no mixture of two saves after a failure."
    ),
]


class Spec(Struct):
    """The specification from which the rules are derived.

    Attributes:
        revision: Commit of the specification.
    """

    name: str
    repository: Annotated[str, Meta(pattern=r"\Ahttps://[!-~]+\Z", max_length=1000)]
    revision: str
    date: str


class Rule(Struct):
    """A requirement of the format.

    Attributes:
        basis: Source of the rule. text: the written format. official: the official library, where the text is
            silent. ours: our hardening, or a convention of loaders.
    """

    id: RuleId
    level: Level
    title: str
    statement: str
    basis: Literal["text", "official", "ours"] = "text"


class Choice(Struct):
    """Behaviour that the text leaves open, or on which the text and the official library disagree.

    Attributes:
        positions: Option selected by each profile, or null if the profile leaves the choice open.
        required: Option required of every reader even without a profile, or null if several options are
            legitimate.
        settled: Rules whose ordinary cases show this behaviour. Only one answer is legitimate for these
            rules, so their cases do not offer the options.
        points: Numbers in the list of disputed points (docs/disputed.md).
        limit: True if a reader applies a limit, so its answers to different cases of this choice may differ.
    """

    id: Slug
    title: str
    rule: RuleId
    description: str
    options: Annotated[dict[Slug, str], Meta(min_length=2)]
    positions: dict[Literal["text", "official", "hardened"], str | None]
    required: str | None
    limit: bool
    settled: list[RuleId] = []
    points: list[Annotated[int, Meta(ge=1)]] = []


class StoredInput(Struct):
    """A stored file.

    Attributes:
        file: Path relative to the manifest.
    """

    file: str
    sha256: Sha256
    size: Size


class RecipeInput(Struct):
    """File too large to store; it consists of consecutive parts.

    Attributes:
        sha256: Digest of the bytes without the zeros parts.
    """

    recipe: NotEmpty
    sha256: Sha256
    size: Size


class FolderFile(Struct):
    """A file in a directory.

    Attributes:
        template: Replace @ROOT@ with the absolute path of the directory when copying.
        recipe: Consecutive parts of a file that is not stored.
    """

    path: str
    sha256: Sha256
    size: Size
    template: bool = False
    recipe: NotEmpty | None = None


class DirectoryInput(Struct):
    """Copy the files into an empty directory and open one of them.

    Attributes:
        directory: Folder of the stored files, relative to the manifest.
        open: Path of the index file.
    """

    directory: str
    files: Annotated[list[FolderFile], Meta(min_length=1)]
    open: str


class Parts(Struct):
    """A string with a lone surrogate, which many JSON parsers reject.

    The parts contain its bytes in UTF-8, with lone surrogates encoded like other characters.
    """

    parts: Recipe


Text = str | Parts
"""A string in the form that ``recipe.spelled`` returns."""


class Tensor(Struct):
    """A tensor that the reader must report.

    Attributes:
        shape: Logical dimensions; an empty array is a scalar. The maximum dimension is 2^64 - 1.
        sha256: Digest of the tensor's bytes in the file.
    """

    name: Text
    dtype: str
    shape: list[Count]
    nbytes: Count
    sha256: Sha256


class Content(Struct):
    """Tensors and metadata that the reader must report.

    Attributes:
        tensors: The order has no meaning. For a slice, the only tensor is its result.
        metadata: null if the file has no metadata. A map in which a key is given in parts is an object whose
            only member is items, a list of pairs.
    """

    tensors: list[Tensor]
    metadata: dict[str, Text | list[tuple[Text, Text]]] | None


class TensorCount(Struct):
    """Number of tensors, in place of a list that would be larger than the file."""

    tensor_count: Count


class AcceptExpectation(Struct, tag_field="outcome", tag="accept"):
    """The reader must accept the input."""

    content: Annotated[dict[str, Any], one_of(Content, TensorCount)]
    properties: Properties = []


class RejectExpectation(Struct, tag_field="outcome", tag="reject"):
    """The reader must reject the input.

    Attributes:
        codes: Matching fault codes, the primary one first. They affect only the diagnosability score, never
            the verdict.
    """

    codes: Annotated[list[Code], Meta(min_length=1)]
    properties: Properties = []


class ChoiceExpectation(Struct):
    """The expectation under each option of a choice."""

    choice: Slug
    options: Annotated[
        dict[str, Annotated[Any, one_of(AcceptExpectation, RejectExpectation)]], Meta(min_length=1)
    ]


class Affected(TypedDict):
    """A reported bug that a case shows.

    Attributes:
        bug: Id in field_bugs.
        reference: Public report, usually owner/repository#number.
        versions: Versions known to fail; empty if unknown.
    """

    bug: str
    project: str
    reference: str
    versions: str


@dataclass(frozen=True, kw_only=True)
class CaseRow:
    """An input and the required behaviour of a reader.

    Attributes:
        id: Never changes, is never reused, and does not depend on the verdict.
        kind: How the input is used.
        level: Only must-cases can fail a run; failures of other cases are reported as not strict.
        features: Features that a reader needs; the case is reported as unsupported if the reader declares
            that it lacks one.
        budget: Maximum cost of the case. A reader that exceeds it is reported as exhausted or slow, never as
            wrong. seconds: wall time on a small machine. peak_bytes: growth of resident memory. read_bytes:
            bytes read from the file.
        source: Where the case comes from: kind is hand, report (with the address of the issue), fuzz or
            covering. If it is missing, kind is hand.
        heavy: The inputs are large; the case runs only on request.
        smoke: Part of the first check, which distinguishes a broken adapter from a broken reader.
        affects: Reported bugs that the case shows.
    """

    id: CaseId
    kind: Annotated[str, words(*KINDS)] = "read"
    title: str
    description: str
    rules: Annotated[tuple[RuleId, ...], Meta(min_length=1)]
    level: Annotated[str, words("must", "should", "may")]
    importance: Annotated[str, words("low", "medium", "high", "critical")]
    features: tuple[Slug, ...] = ()
    steps: tuple[Annotated[str, words(*CASE_STEPS)], ...]
    input: Annotated[Any, one_of(None, StoredInput, RecipeInput, DirectoryInput)]
    action: Annotated[Mapping[str, Any] | None, one_of(*ACTIONS.values())] = None
    budget: Annotated[Mapping[str, Amount] | None, names("seconds", "peak_bytes", "read_bytes")] = None
    expect: Annotated[Any, one_of(AcceptExpectation, RejectExpectation, ChoiceExpectation)]
    heavy: bool = False
    smoke: bool = False
    affects: tuple[Affected, ...] = ()
    source: Annotated[Mapping[str, str], names("kind", "issue")] = field(
        default_factory=lambda: {"kind": "hand"}
    )
    status: Literal["active", "superseded", "withdrawn"] = "active"


class Tables(Struct):
    """Lists all inputs, and the required behaviour of a reader for each, for programs in any language.

    Attributes:
        schema_version: Incremented by changes to this schema that affect readers of the manifest.
        corpus_version: Incremented by each published change to the cases.
        codes: Fault code -> meaning.
        field_bugs: Publicly reported bugs of real implementations; cases name the bugs that they show.
    """

    schema_version: Literal[1, 2]
    corpus_version: Version
    spec: Spec
    rules: list[Rule]
    choices: list[Choice]
    codes: dict[str, str]
    field_bugs: list[FieldBug]
    cases: Annotated[list[Any], Meta(extra_json_schema={"items": {"$ref": "#/$defs/CaseRow"}})]
    schema: str = named(default="", name="$schema")


def corpus_schema() -> dict[str, Any]:
    """Return ``corpus.schema.json``.

    The schema forbids unknown keys, although readers of the manifest must ignore them.
    """
    forms = (*recipe.PARTS.values(), IndexRange, StoredInput, RecipeInput, DirectoryInput, *ACTIONS.values())
    expectations = (AcceptExpectation, RejectExpectation, ChoiceExpectation, Content, TensorCount)
    title = "Manifest of the safetensors conformance corpus"
    return json_schema("corpus", title, Tables, forms=(CaseRow, *forms, *expectations), closed=True)
