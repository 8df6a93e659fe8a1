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
from .field_bugs import FieldBug
from .placing import PLACES
from .server import BEHAVIOURS, Behaviour
from .steps import CASE_STEPS, KINDS
from .typed import Count, json_schema, one_of

CASE_ID = "[a-z0-9]+/[a-z0-9]+(-[a-z0-9]+)*"
MOST_READERS, MOST_ROUNDS, MOST_TAKEN = 64, 1000, 10_000
"""Maximum number of simultaneous readers, of rounds, and of tensors per reader and round."""


def words(*allowed: str) -> Meta:
    """Return the schema of a string that the program checks later."""
    return Meta(extra_json_schema={"enum": list(allowed)})


def names(*allowed: str) -> Meta:
    return Meta(extra_json_schema={"propertyNames": {"enum": list(allowed)}})


CaseId = Annotated[str, Meta(pattern=rf"\A{CASE_ID}\Z", max_length=200)]
Slug = Annotated[str, Meta(pattern=r"\A[a-z0-9]+(-[a-z0-9]+)*\Z")]
RuleId = Annotated[str, Meta(pattern=r"\A[A-Z]{3}-[0-9]{2}\Z")]
Code = Annotated[str, Meta(pattern=r"\A([A-Z]{2,3}_[A-Z0-9_]+|UNCLASSIFIED)\Z")]
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Size = Annotated[int, Meta(ge=0, le=recipe.LARGEST_FILE)]
Version = Annotated[str, Meta(pattern=r"\A[0-9]{4}\.[0-9]{2}(\.[0-9]+)?\Z", max_length=200)]
Level = Literal["must", "should", "may"]
Recipe = list[Annotated[Any, one_of(*recipe.PARTS.values())]]
NotEmpty = Annotated[Recipe, Meta(min_length=1)]
Amount = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
Taken = Annotated[list[str], Meta(max_length=MOST_TAKEN)]
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
SCRIPT_STEPS: Mapping[str, tuple[str, ...]] = {
    "open": (),
    "tensor": ("tensor",),
    "close": (),
    "truncate": ("size",),
    "rewrite": ("bytes", "at"),
    "replace": ("bytes",),
    "unlink": (),
    "append": ("bytes",),
    "try": (),
}
"""Maps each step of a script to its required keys."""


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


class IndexRange(Struct):
    """A range of a slice. A bound or step that is neither an integer nor null makes the index invalid."""

    start: int | float | str | None
    stop: int | float | str | None
    step: int | float | str | None


class SliceAction(Struct, tag_field="do", tag="slice"):
    """Read a part of one tensor without reading the others; without index items, read the whole tensor.

    Attributes:
        index: Items of a slice: an integer, a range, an ellipsis ("..."), or an invalid index.
    """

    tensor: str
    index: list[
        Annotated[
            Any,
            Meta(
                extra_json_schema={
                    "oneOf": [
                        {"type": ["integer", "boolean", "null", "number", "array", "string"]},
                        {"$ref": "#/$defs/IndexRange"},
                    ]
                }
            ),
        ]
    ]


class GivenTensor(Struct):
    """A tensor that a program saves.

    Attributes:
        name: Usually a string; the writer must reject other types. An object whose only member is parts
            represents a string that is too long or has a lone surrogate. The parts contain its bytes in
            UTF-8, with lone surrogates encoded like other characters.
        dtype: Dtype code of the format, or another element type, which the writer must reject.
        offset: Position of the first element in the storage, in bytes.
        strides: Distance in bytes between neighbours along each dimension, possibly negative or zero; null
            for contiguous row-major order.
        byteorder: Byte order of the elements in the storage.
        nbytes: Number of bytes passed from offset, if dtype and shape imply a different number. A writer that
            cannot receive such a tensor does not support the case.
    """

    name: Any
    dtype: str
    shape: list[Count]
    storage: str
    offset: Size
    strides: list[int] | None
    byteorder: Literal["little", "big"]
    nbytes: Count = 0


class WriteAction(Struct, tag_field="do", tag="write"):
    """Write a file.

    The tensors are views into named storages: element (i, j, ...) of a tensor starts at byte
    offset + i * strides[0] + j * strides[1] + ...

    Attributes:
        metadata: Map to write, or null for none; the writer must reject other types. Values can be given in
            parts, like names. A map with such keys, or with keys that are not strings, is an object whose
            only member is items, a list of pairs.
        target: new: a path that does not exist. input: over the input file, which is loaded first and whose
            tensors are written. file: over the input file, with the tensors of the action. missing-folder: in
            a folder that does not exist. link: through a symbolic link to the input file.
        file_size_limit: Maximum size in bytes of a file that the system allows the process to write.
    """

    storages: dict[str, Recipe]
    tensors: list[GivenTensor]
    metadata: Any
    target: Literal["new", "input", "file", "missing-folder", "link"]
    file_size_limit: Size = 0


class ShardedAction(Struct, tag_field="do", tag="sharded"):
    """Save a model in shards with an index into the folder model of the directory.

    The folder may already contain files. The file names begin with model: model-00001-of-00002.safetensors
    and model.safetensors.index.json, or only model.safetensors.

    Attributes:
        metadata: Map of strings to save with the model, or null for none. The case does not check where the
            program stores it.
        max_shard_size: Maximum number of tensor bytes in a shard; a larger tensor gets its own shard.
        file_size_limit: Maximum size in bytes of a file that the system allows the process to write.
    """

    storages: dict[str, Recipe]
    tensors: list[GivenTensor]
    metadata: Any
    max_shard_size: Annotated[int, Meta(ge=1, le=recipe.LARGEST_FILE)]
    file_size_limit: Size = 0


class ExportAction(Struct, tag_field="do", tag="export"):
    """Write the tensors of the input to files in the folder one/two/three/export of an empty directory.

    The input is a file in that directory. In the names of its tensors, replace @ROOT@ with the absolute path
    of the directory, and adapt the length of the header. The directory also contains the file outside/kept.

    Attributes:
        contents: Bytes of each tensor in hex. If a file in the folder contains the bytes of one tensor, the
            files must contain the bytes of every tensor.
        links: Symbolic links in the folder: name in the folder -> path in the directory.
    """

    contents: list[Annotated[str, Meta(pattern=r"\A([0-9a-f]{2})+\Z")]]
    links: dict[
        Annotated[str, Meta(pattern=r"\A[a-z]+(\.[a-z]+)?\Z")],
        Annotated[str, Meta(pattern=r"\A(outside(/[a-z]+(\.[a-z]+)?)?)?\Z")],
    ]


class ScriptStep(Struct):
    """A step of a script.

    Attributes:
        step: try: the implementation opens the file, which it may reject, and closes it. truncate: reduce the
            file to size bytes. rewrite: overwrite bytes of the same file. replace: rename another file over
            it. append: add bytes at the end.
        bytes: Content that rewrite, replace or append writes.
        at: For rewrite: position of the first byte; the file size does not change.
    """

    step: Annotated[str, words(*SCRIPT_STEPS)]
    tensor: str = ""
    size: Size = 0
    bytes: Recipe = []
    at: Size = 0


class LifecycleAction(Struct, tag_field="do", tag="lifecycle"):
    """Script in which the implementation reads a file while another program changes it.

    The expected content is the tensor that the last tensor step reads.
    """

    script: Annotated[list[ScriptStep], Meta(extra_json_schema={"minItems": 2})]


class RemoteAction(Struct, tag_field="do", tag="remote"):
    """Serve the input over HTTP, and pass its URL to the reader.

    Attributes:
        after: Number of GET requests that the server first answers with the requested range.
        bytes: For changed: the content of the other file.
    """

    server: Annotated[
        Behaviour, Meta(description=" ".join(f"{name}: {text}." for name, text in BEHAVIOURS.items()))
    ]
    after: Count = 0
    bytes: Recipe = []


class ConcurrentReader(Struct):
    """A reader of a concurrent action.

    Attributes:
        tensors: Names read in each round, in this order.
        unknown: True if the file has no such tensors; rejecting them is then allowed.
    """

    tensors: Taken
    unknown: bool


class ConcurrentAction(Struct, tag_field="do", tag="concurrent"):
    """Several simultaneous readers of one file.

    All readers start a round together. In a round, each reader reads its tensors one by one, and evaluates
    them when all readers have read theirs. The expected content is the set of all tensors read; any other
    content is wrong.

    Attributes:
        by: threads: threads of one process. processes: processes forked from one process.
        opened: once: the file is opened before the readers start or are forked, and they share the handle.
            each: every reader opens the file itself, and all have it open at the same time.
        before: Tensors that the opener of the file reads before the readers start or are forked. If each
            reader opens the file, the opener has an additional handle.
        times: Number of rounds.
        closed: Number of the round at whose start the opener closes the file, or 0 if the file stays open.
            From then on, threads may find the file closed, and the reader may refuse to close it while they
            read; both are allowed. A process has its own handle, which stays open.
        after: Tensors that the opener of the file reads after all readers have finished.
    """

    by: Literal["threads", "processes"]
    opened: Literal["once", "each"]
    before: Taken
    readers: Annotated[list[ConcurrentReader], Meta(min_length=2, max_length=MOST_READERS)]
    times: Annotated[int, Meta(ge=1, le=MOST_ROUNDS)]
    closed: Annotated[int, Meta(ge=0, le=MOST_ROUNDS)]
    after: Taken


class ContendedAction(Struct, tag_field="do", tag="contended"):
    """Save to one target from several processes at the same time.

    Each process saves its own tensors, as in a write action, but all processes save to the same target.

    Attributes:
        savers: Names of the tensors that each process saves.
    """

    storages: dict[str, Recipe]
    tensors: list[GivenTensor]
    metadata: Any
    target: Literal["new", "file"]
    savers: Annotated[list[Taken], Meta(min_length=2, max_length=MOST_READERS)]


class PlacedAction(Struct, tag_field="do", tag="placed"):
    """Read the input under another path, behind links, or next to other files. The content stays the same.

    Attributes:
        place: Where to put the file, or the folder of the model.
    """

    place: Annotated[
        str,
        Meta(
            description=" ".join(f"{name}: {place.meaning}." for name, place in PLACES.items()),
            extra_json_schema={"enum": list(PLACES)},
        ),
    ]


class RepeatedAction(Struct, tag_field="do", tag="repeated"):
    """Repeat requests for the same file, and compare the resources that the process holds before and after.

    Attributes:
        requests: read: read the file, or reject it. hold: open the file, and drop an earlier handle without
            closing it. tensor: read a tensor from the open file. close: close the open file.
        tensor: Name of the tensor that is read from the open file.
        times: Number of repetitions, including those that warm the process up.
    """

    requests: Annotated[list[Literal["read", "hold", "tensor", "close"]], Meta(min_length=1, max_length=16)]
    times: Annotated[int, Meta(ge=100, le=MOST_ROUNDS)]
    tensor: str = ""


ACTIONS: Mapping[str, type[Struct]] = {
    "slice": SliceAction,
    "write": WriteAction,
    "sharded": ShardedAction,
    "export": ExportAction,
    "lifecycle": LifecycleAction,
    "remote": RemoteAction,
    "concurrent": ConcurrentAction,
    "placed": PlacedAction,
    "repeated": RepeatedAction,
    "contended": ContendedAction,
}


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
