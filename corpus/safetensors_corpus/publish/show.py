"""Describe cases as text: purpose, expectation, input and action."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from safetensors_reference.source import read_whole
from safetensors_reference.text import hexview, plural

from .. import recipe
from ..document import ManifestError
from ..judging.exported_folder import TARGET
from ..manifest import LARGEST_IN_MEMORY, ROOT_MARK, Case
from ..placing import PLACES
from ..server import BEHAVIOURS
from ..templates import render

SHOWN = 512
"""Maximum number of bytes of a file to show."""
SHOWN_TEXT = 2000
"""Maximum number of characters of an index to show."""
SHOWN_TENSORS = 8
"""Maximum number of expected tensors to show."""


def byte_count(size: int) -> str:
    """Format an exact size, followed by a rounded value if it is at least one kibibyte."""
    if size < 1024:
        return plural(size, "byte")
    value, unit = float(size), "bytes"
    for unit in ("KiB", "MiB", "GiB", "TiB"):  # noqa: B007 - used after the loop
        value /= 1024
        if value < 1024:
            break
    return f"{size:,} bytes ({value:.3g} {unit})" if value < 1000 else f"{size:,} bytes ({value:.0f} {unit})"


def case_lines(case: Case, raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield the description of a case. Raises ManifestError if its files differ from the manifest."""
    text = render(
        "case.txt.jinja",
        case=case,
        titles={r["id"]: f"{r['id']} ({r['level']}): {r['title']}" for r in raw["rules"]},
        choice=next((c for c in raw["choices"] if c["id"] == case.choice), None),
        options=case.options or {"": case.expect},
        limits=[
            f"{value:g} seconds" if name == "seconds" else f"{name.replace('_', ' ')} {value:,.0f}"
            for name, value in (case.budget or {}).items()
        ],
        bugs={bug["id"]: bug for bug in raw["field_bugs"]},
        most=SHOWN_TENSORS,
    )
    yield from text.split("\n")[:-1]
    yield from input_lines(case)
    yield from action_lines(case)


def input_lines(case: Case) -> Iterator[str]:
    """Yield the description of an input. Raises ManifestError if its files differ from the manifest."""
    given = case.input
    if given.files:
        yield from _directory(case)
    elif given.recipe:
        yield f"input    {byte_count(given.size)}, not stored but described by a recipe"
        note = "without the zero bytes " if any("zeros" in part for part in given.recipe) else ""
        yield f"  SHA-256 {note}{given.sha256}"
        yield from (f"  part   {line}" for line in recipe.describe(given.recipe).splitlines())
        large = " --large" if given.size > LARGEST_IN_MEMORY else ""
        yield f"  make   stc corpus copy DIR {case.id} --recipes{large}"
    elif given.file is None:
        yield "input    none"
    else:
        yield f"file     {given.file}, {byte_count(given.size)}"
        data = case.read_input()
        yield hexview(data, 0, 0, limit=SHOWN)
        if len(data) > SHOWN:
            yield f"          … {plural(len(data) - SHOWN, 'more byte')}"


def _directory(case: Case) -> Iterator[str]:
    given = case.input
    assert given.file is not None
    base = given.files[0].source
    for _ in given.files[0].path.split("/"):
        base = base.parent
    yield f"input    directory {base}; file to open: {given.entry}"
    width = max(len(file.path) for file in given.files)
    for file in given.files:
        notes = ", with @ROOT@ replaced by the directory's path" if file.template else ""
        yield f"  {file.path:<{width}}  {file.size:>8,} bytes{notes}"
    yield f"{given.entry}:"
    for file in given.files:
        if file.path == given.entry and file.recipe:
            yield from (f"  part   {line}" for line in recipe.describe(file.recipe).splitlines())
            return
    try:
        data = read_whole(given.file, LARGEST_IN_MEMORY)
    except OSError as err:
        raise ManifestError(str(err)) from err
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        yield hexview(data, 0, 0, limit=SHOWN)
        return
    shown = text[:SHOWN_TEXT]
    # Escape control characters, because they could affect the terminal.
    yield "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in shown)
    if len(text) > SHOWN_TEXT:
        yield f"… {len(text) - SHOWN_TEXT:,} more characters"
    if ROOT_MARK.decode() in shown:
        yield "(@ROOT@ represents the absolute path of the directory)"


def action_lines(case: Case) -> Iterator[str]:
    action = case.action
    if action is None:
        return
    if action["do"] == "slice":
        yield f"asks     {json.dumps(action['tensor'])}[{', '.join(map(index_text, action['index']))}]" + (
            "" if action["index"] else " (only the whole tensor)"
        )
    elif action["do"] in ("write", "sharded", "contended"):
        yield from _saving(action)
    elif action["do"] == "remote":
        yield f"server   {remote_text(action)}"
    elif action["do"] == "export":
        yield f"exports  to the folder {TARGET}, where @ROOT@ in a name is the directory that contains one"
        for link, to in action["links"].items():
            yield f"  link   {link} -> @ROOT@/{to}"
    elif action["do"] == "lifecycle":
        yield "script"
        for number, step in enumerate(action["script"], 1):
            yield f"  {number:>2}  {step_text(step)}"
    elif action["do"] == "concurrent":
        yield from _concurrent(action)
    elif action["do"] == "placed":
        yield f"place    {action['place']}: {PLACES[action['place']].meaning}"
    elif action["do"] == "repeated":
        yield f"repeats  {action['times']:,} times: {', '.join(action['requests'])}"


SHOWN_READERS = 8
"""Maximum number of readers, and of names per reader, to show."""


def _concurrent(action: Mapping[str, Any]) -> Iterator[str]:
    how = {"once": "which share one open file", "each": "each of which opens the file for itself"}
    readers, times, by = action["readers"], action["times"], action["by"]
    rounds = "once" if times == 1 else f"{times:,} times"
    yield f"readers  {len(readers):,} {by} at the same time, {rounds}, {how[action['opened']]}"
    if action["before"]:
        yield f"  before {_names(action['before'])}"
    for reader in readers[:SHOWN_READERS]:
        note = ", which are not in the file" if reader["unknown"] else ""
        yield f"  takes  {_names(reader['tensors'])}{note}"
    if len(readers) > SHOWN_READERS:
        yield f"  … {plural(len(readers) - SHOWN_READERS, 'more reader')}"
    if action["closed"]:
        yield f"  closed by its opener at the beginning of round {action['closed']:,}"
    if action["after"]:
        yield f"  after  {_names(action['after'])}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_READERS:,} more" if len(names) > SHOWN_READERS else ""
    return ", ".join(map(json.dumps, names[:SHOWN_READERS])) + more


def index_text(item: Any) -> str:
    if isinstance(item, Mapping):
        texts = ["" if item[key] is None else str(item[key]) for key in ("start", "stop", "step")]
        return ":".join(texts if texts[2] else texts[:2])
    return "..." if item == "..." else json.dumps(item)


def _saving(action: Mapping[str, Any]) -> Iterator[str]:
    if action["do"] == "sharded":
        yield f"saves    in shards of at most {action['max_shard_size']:,} bytes, into the folder model"
    elif action["do"] == "contended":
        yield f"writes   to {action['target']}, from {len(action['savers']):,} processes at the same time"
        yield from (f"  saver  {_names(names)}" for names in action["savers"])
    else:
        yield f"writes   to {action['target']}: {_TARGETS.get(action['target'], '')}".rstrip(": ")
    yield from _given(action)


_TARGETS = {
    "new": "a path that does not exist",
    "input": "over the input file, which the program loads first and whose tensors it writes",
    "file": "over the input file",
    "missing-folder": "a path in a folder that does not exist",
    "link": "through a symbolic link to the input file",
}


SHOWN_GIVEN = 20
"""Maximum number of memory blocks, and of tensors, to show for a write."""


def _given(action: Mapping[str, Any]) -> Iterator[str]:
    if "file_size_limit" in action:
        yield f"  limit  the system limits files to {action['file_size_limit']:,} bytes"
    for name, parts in list(action["storages"].items())[:SHOWN_GIVEN]:
        first, *others = recipe.describe(parts).splitlines() or ["no bytes"]
        yield f"  memory {json.dumps(name)}, {byte_count(recipe.size(parts))}: {first}"
        yield from (f"         {line}" for line in others)
    for tensor in action["tensors"][:SHOWN_GIVEN]:
        shape = json.dumps(tensor["shape"], separators=(",", ":"))
        strides = "contiguous" if tensor["strides"] is None else f"strides {tensor['strides']} bytes"
        order = ", big-endian" if tensor["byteorder"] == "big" else ""
        size = f", {plural(tensor['nbytes'], 'byte')} passed" if "nbytes" in tensor else ""
        yield (
            f"  tensor {spelled_text(tensor['name'])} {tensor['dtype']}{shape} at byte {tensor['offset']} "
            f"of {json.dumps(tensor['storage'])}, {strides}{order}{size}"
        )
    if len(action["tensors"]) > SHOWN_GIVEN:
        yield f"  … {plural(len(action['tensors']) - SHOWN_GIVEN, 'more tensor')}"
    if action["metadata"] is not None:
        yield f"  metadata {spelled_text(action['metadata'])[:300]}"


def spelled_text(value: Any) -> str:
    """Format a name or metadata that is passed to a writer, and describe strings given in parts."""
    if isinstance(value, Mapping) and set(value) == {"parts"}:
        return f"(text of {' then '.join(recipe.describe(value['parts']).splitlines())})"
    if isinstance(value, Mapping) and set(value) == {"items"}:
        return ", ".join(": ".join(map(spelled_text, pair)) for pair in value["items"])
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)}: {spelled_text(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def remote_text(action: Mapping[str, Any]) -> str:
    after = action.get("after", 0)
    times = "once" if after == 1 else f"{after} times"
    usual = f"answers correctly {times}, then " if after else ""
    other = f": {byte_count(recipe.size(action['bytes']))}" if "bytes" in action else ""
    return f"{action['server']}: it {usual}{BEHAVIOURS[action['server']]}{other}"


def step_text(step: Mapping[str, Any]) -> str:
    name = step["step"]
    if name == "tensor":
        return f"the reader returns {json.dumps(step['tensor'])}"
    if name == "try":
        return "the reader opens the file, which it may reject, and closes it"
    if name in ("open", "close"):
        return f"the reader {name}s the file"
    if name == "truncate":
        return f"another program truncates the file to {plural(step['size'], 'byte')}"
    if name == "unlink":
        return "another program deletes the file"
    parts = step.get("bytes", [])
    data = f"{plural(recipe.size(parts), 'byte')} ({'; '.join(recipe.describe(parts).splitlines())})"
    if name == "rewrite":
        return f"another program writes {data} at byte {step.get('at', 0):,}"
    if name == "append":
        return f"another program appends {data}"
    if name == "replace":
        return f"another program renames another file over it: {data}"
    rest = {key: value for key, value in step.items() if key != "step"}
    return f"{name} {json.dumps(rest) if rest else ''}".rstrip()
