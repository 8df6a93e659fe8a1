"""The items of the proof. Each one runs commands and returns a document about their results.

The documents exclude wording, timings and module locations.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .commands import ROOT, FailedError, json_lines, run, stc
from .document import Document, without
from .public import described, help_of

PROFILES = ("text", "official", "hardened")
READERS = ("safetensors", "safetensors:numpy", "safetensors:safe-open", "safetensors:torch", "reference")

PLANTED = ROOT / "proof/readers/planted.py"
BEHAVIOURS = {
    "abort": "is killed by SIGABRT",
    "hang": "never answers",
    "memory": "fills memory",
    "late": "accepts at open the files that it rejects at read",
    "heap": "returns bytes that are not in the file",
    "change": "changes its input file",
    "fork": "leaves a child process that keeps its pipes open",
    "noise": "prints lines that are not answers",
    "order": "rejects everything after certain files",
    "slow": "takes longer than usual but less than the limit",
}
SAMPLE = ("framing/*", "layout/*", "data/*")
LIMITS = ("--time-limit", "3", "--memory-limit", "128", "--max-hangs", "0", "--no-smoke", "--no-baseline")
PATIENT = ("--time-limit", "20")
"""Options for implementations that answer quickly, on a machine where other measurements run."""

PAGES = ("publish", "corpus stats", "corpus bugs", "trophies", "rules build")
EXECS = 2000

WORDING = {"message", "time", "tag", "note"}
"""Members in the JSON of stc check and stc audit that contain wording or the time of writing."""


@dataclass(frozen=True)
class Item:
    """A description and a function that creates the document. An item with ``full`` takes many minutes."""

    about: str
    make: Callable[[], Document]
    full: bool = False


def corpus() -> Document:
    """Return each case with its expectation, rules and choices, and the digest of every file."""
    stc("corpus", "build", "--check")
    built = json.loads((ROOT / "corpus/corpus.json").read_text(encoding="utf-8"))
    entries: dict[str, Any] = {"version": built["corpus_version"], "codes": sorted(built["codes"])}
    for case in built["cases"]:
        entries[f"case {case.pop('id')}"] = _other(case, "title", "description")
    for rule in built["rules"]:
        entries[f"rule {rule.pop('id')}"] = _other(rule, "title", "statement")
    for choice in built["choices"]:
        choice["options"] = sorted(choice["options"])
        entries[f"choice {choice.pop('id')}"] = _other(choice, "title", "description")
    for bug in built["field_bugs"]:
        entries[f"bug {bug.pop('id')}"] = _other(bug, "trigger", "fixed", "not_shown")
    files = ROOT / "corpus/files"
    for path in files.rglob("*"):
        if path.is_file():
            entries[f"file {path.relative_to(files)}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    digest = (ROOT / "corpus/corpus.sha256").read_text(encoding="utf-8").split()[0]
    return Document(entries, {"digest of corpus.json, which contains wording": digest})


def verdicts(selector: str, *options: str) -> Document:
    """Run an implementation. The entries are its cases and steps, and the choices that it made."""
    with tempfile.TemporaryDirectory() as folder:
        done = stc("run", "--impl", selector, "--report", folder, "-q", *options, statuses=(0, 1))
        records = list(Path(folder).glob("*.jsonl"))
        if len(records) != 1:
            raise FailedError(f"{len(records)} records for one run")
        rows = json_lines(records[0].read_text(encoding="utf-8"))
    entries: dict[str, Any] = {"exit status": done.returncode}
    for row in rows:
        match row["type"]:
            case "header":
                entries["header"] = _header(row)
            case "result":
                _put(entries, f"{row['case']} {row['step']}", _verdict(row))
            case "choice":
                _put(entries, f"choice {row['choice']}", row["verdict"])
    last = rows[-1]
    if last["type"] != "footer" or not (last["complete"] or "--case" in options):
        raise FailedError("the run did not finish")
    return Document(entries)


def _header(row: dict[str, Any]) -> dict[str, Any]:
    who = {key: row["implementation"][key] for key in ("name", "version", "steps", "areas", "lacks")}
    ran = {key: row["corpus"][key] for key in ("cases", "left_out")}
    return {**who, **ran, "profile": row["profile"]}


def _verdict(row: dict[str, Any]) -> dict[str, Any]:
    kept = ("outcome", "verdict", "rule", "basis", "choice", "options", "expected_failure", "documented")
    failures = [[one["verdict"], one["rule"], one["basis"], one["property"]] for one in row["failures"]]
    return {**{key: row[key] for key in kept}, "failures": failures}


def planted(behaviour: str) -> Document:
    cases = (word for pattern in SAMPLE for word in ("--case", pattern))
    return verdicts(_planted(behaviour), *LIMITS, *cases)


def _planted(behaviour: str) -> str:
    return f"cmd:{shlex.join([sys.executable, str(PLANTED), behaviour])}"


def pages() -> Document:
    """Check whether committed pages are current, by the exit statuses of the commands that check them."""
    checks = {words: stc(*words.split(), "--check", statuses=(0, 1)).returncode for words in PAGES}
    return Document({f"stc {words} --check": status for words, status in checks.items()})


def fuzz() -> Document:
    """Return the signatures of the findings of a short run with a careless reader.

    Sizes are compared before shrinking, because the result of shrinking depends on the available time.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = ("--seed", "1", "--max-execs", str(EXECS), "-j", "1", *PATIENT)
        done = stc("fuzz", "--impl", _planted("careless"), *options, "-o", folder, statuses=(0, 1))
        entries: dict[str, Any] = {"exit status": done.returncode}
        for path in Path(folder).glob("*/finding.json"):
            found = json.loads(path.read_text(encoding="utf-8"))
            kept = {key: found[key] for key in ("step", "verdict", "codes", "execs")}
            kept["rules"] = [rule["id"] for rule in found["rules"]]
            kept["cwe"] = [one["id"] for one in found["cwe"]]
            kept["size"] = found["size"]["found"]
            kept["outcome"] = found["expectation"]["outcome"]
            entries[found["signature"]] = kept
    if len(entries) == 1:
        raise FailedError("no findings in a careless reader")
    return Document(entries)


def check() -> Document:
    """Return the result of ``stc check`` for every file and model of the corpus under each profile."""
    entries: dict[str, Any] = {}
    for profile in PROFILES:
        done = stc("check", "corpus/files", "--json", "--profile", profile, statuses=(1,))
        for row in json_lines(done.stdout):
            _put(entries, f"{profile} {row['kind']} {row.get('file') or row['model']}", without(row, WORDING))
    return Document(entries)


def audit() -> Document:
    """Return the result of ``stc audit`` for every file of the corpus, as one row per file."""
    done = stc("audit", "corpus/files", "--jobs", "1", statuses=(1, 2))
    entries: dict[str, Any] = {"exit status": done.returncode}
    for row in json_lines(done.stdout):
        _put(entries, row.pop("address"), without(row, WORDING))
    return Document(entries)


def mutants() -> Document:
    """Return which committed mutants are killed; see ``mutants_of``."""
    return Document(
        mutants_of(json.loads((ROOT / "proof/mutation/mutants.json").read_text(encoding="utf-8")))
    )


def mutants_of(committed: dict[str, Any]) -> dict[str, Any]:
    """Return the outcomes of all mutants, under names that stay the same if code moves to another module.

    A name is ``module:function:operator:n``. The module is left out, so mutants with the same name in two
    modules share an entry, which counts the outcomes. Code outside of functions (``-``) is numbered within
    its module and gets other numbers when it moves, so the number is left out for such code, too.
    """
    ends = dict.fromkeys(committed["killers"], "killed") | dict.fromkeys(committed["stillborn"], "stillborn")
    ends |= {one["name"]: f"survives: {one['class']}" for one in committed["survivors"]}
    entries: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, end in ends.items():
        _module, function, operator, number = name.split(":")
        counts = entries[f"{function}:{operator}" if function == "-" else f"{function}:{operator}:{number}"]
        counts[end] = counts.get(end, 0) + 1
    totals = {key: committed[key] for key in ("mutants", "killed", "equivalent", "reasons", "score")}
    return {"totals": totals, **entries}


def matrix() -> Document:
    """Return which cases fail which broken implementations in the committed matrix."""
    committed = json.loads((ROOT / "proof/broken/matrix.json").read_text(encoding="utf-8"))
    entries: dict[str, Any] = {one["name"]: {**_other(one, "name", "about")} for one in committed["variants"]}
    return Document(entries | {key: value for key, value in committed.items() if key != "variants"})


def current(*command: str) -> Document:
    """Check whether a document equals a newly computed one."""
    return Document({" ".join(command): run(*command, statuses=(0, 1)).returncode})


def contracts() -> Document:
    """Count the import contracts that are kept."""
    done = run("lint-imports", statuses=(0, 1))
    counts = re.search(r"Contracts: (\d+) kept, (\d+) broken", done.stdout)
    if counts is None:
        raise FailedError("lint-imports reported no number of contracts")
    return Document({"exit status": done.returncode, "kept": int(counts[1]), "broken": int(counts[2])})


def api() -> Document:
    """Return the documented names with their signatures."""
    return Document(described())


def commands() -> Document:
    """Return the tree of commands with the names of their options and arguments."""
    return Document(help_of("stc"))


def _other(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in names}


def _put(entries: dict[str, Any], key: str, value: Any) -> None:
    """Add an entry. Raises FailedError for a second entry under the same key."""
    if key in entries:
        raise FailedError(f"two entries for {key}")
    entries[key] = value


_FULL = {
    "mutants-anew": ("mutants computed", ("python", "-m", "proof.mutation", "--check")),
    "matrix-anew": ("matrix computed", ("python", "-m", "proof.broken", "--check")),
}

ITEMS = {
    "corpus": Item("cases, rules, choices and digests of files", corpus),
    **{f"run-{who.replace(':', '-')}": Item(f"verdicts of {who}", partial(verdicts, who)) for who in READERS},
    **{
        f"run-reference-{name}": Item(
            f"verdicts of reference, profile {name}", partial(verdicts, "reference", "--profile", name)
        )
        for name in PROFILES
    },
    **{
        f"planted-{name}": Item(f"a reader that {what}", partial(planted, name))
        for name, what in BEHAVIOURS.items()
    },
    "pages": Item("whether published pages are current", pages),
    "fuzz": Item(f"findings of {EXECS:,} inputs with a careless reader", fuzz),
    "check": Item("results of stc check for the corpus, each profile", check),
    "audit": Item("results of stc audit for the corpus", audit),
    "mutants": Item("committed outcomes of mutants", mutants),
    "matrix": Item("committed matrix of cases and broken implementations", matrix),
    "contracts": Item("number of import contracts kept", contracts),
    "api": Item("documented names and signatures", api),
    "commands": Item("commands, options and arguments of stc", commands),
    **{name: Item(about, partial(current, *command), full=True) for name, (about, command) in _FULL.items()},
}
