"""Files beside a libFuzzer target, generated from grammar and corpus: dictionary, seed corpus and options.

``python -m safetensors_fuzz.engines.atheris.files FOLDER TARGET...`` writes all three for each target, under
the names that OSS-Fuzz and ClusterFuzzLite expect.
"""

from __future__ import annotations

import hashlib
import random
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from safetensors_corpus import ManifestError, load_manifest
from safetensors_reports.text import visible

from ...grammar import vocabulary as words
from ...grammar.grammar import Grammar, faults_by_rule
from ...grammar.valid import valid_file

MAX_LEN = 1024
"""Longest input in bytes: faults show in small files as well as in large ones, and faster."""
LARGEST_SEED = 1024
LONGEST_WORD = 64
"""Longest dictionary entry in bytes that libFuzzer accepts."""
_FRESH_SEEDS = 32
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


def dictionary() -> tuple[bytes, ...]:
    """Return every word of the vocabulary that libFuzzer accepts, sorted, each once."""
    sets: tuple[Sequence[bytes], ...] = (
        words.FIELDS, (words.RESERVED,), words.NO_DTYPES, words.TOO_BIG, words.WORDS, words.BAD_WORDS,
        words.SPACES, words.NO_SPACES, words.NOT_UTF8, words.CONTROLS, words.BAD_ESCAPES, words.BOMS,
        words.MAGIC, words.NEAR_RESERVED, *words.NEAR_FIELDS.values(), words.NAMES, words.META_KEYS,
        words.META_VALUES, words.UNKNOWN_FIELDS, words.HUGE_NUMBERS, words.spellings(8),
        words.bad_spellings(8),
    )  # fmt: skip
    found = {word for group in sets for word in group}
    found |= {b'"%b"' % dtype for dtype in words.DTYPES}
    found |= {b"%d" % number for number in words.BIG}
    found |= {number.to_bytes(8, "little") for number in words.LENGTHS}
    return tuple(sorted(word for word in found if 0 < len(word) <= LONGEST_WORD))


def quoted(word: bytes) -> str:
    """Return a word in the syntax of libFuzzer's dictionaries."""
    out = ""
    for byte in word:
        char = chr(byte)
        if char in '\\"':
            out += "\\" + char
        elif 0x20 <= byte < 0x7F:
            out += char
        else:
            out += f"\\x{byte:02X}"
    return f'"{out}"'


def write_dictionary(path: Path) -> None:
    lines = ["# Words of the safetensors format, generated from safetensors_fuzz.grammar.vocabulary."]
    path.write_text("\n".join([*lines, *map(quoted, dictionary())]) + "\n", "ascii")


def seeds() -> dict[str, bytes]:
    """Return name -> input: small distinct files of the corpus and of the grammar, valid and broken.

    Raises ManifestError when the corpus cannot be read.
    """
    out: dict[str, bytes] = {}
    known: set[bytes] = set()
    for name, data in (*_of_corpus(), *_of_grammar()):
        digest = hashlib.sha256(data).digest()
        if 0 < len(data) <= LARGEST_SEED and digest not in known:
            known.add(digest)
            out[f"{name}.safetensors"] = data
    return out


def _of_corpus() -> Iterator[tuple[str, bytes]]:
    smallest: dict[tuple[str, str], tuple[int, str]] = {}
    manifest = load_manifest()
    for case in manifest.reading:
        outcome = case.expect.outcome if case.expect is not None else f"choice {case.choice}"
        for rule in case.rules[:1] if case.size else ():
            row = (case.size, case.id)
            smallest[rule, outcome] = min(row, smallest.get((rule, outcome), row))
    for size, name in sorted(set(smallest.values())):
        if size <= LARGEST_SEED:
            yield name.replace("/", "--"), manifest.by_id[name].read_input()


def _of_grammar() -> Iterator[tuple[str, bytes]]:
    rng = random.Random(1)  # noqa: S311 - reproducible on purpose
    grammar = Grammar(rng)
    for number in range(_FRESH_SEEDS):
        yield f"grammar-valid-{number:02}", grammar.fresh().render()
    for rule, mutations in faults_by_rule().items():
        for _ in range(8):
            file = valid_file(rng)
            if rng.choice(mutations).apply(rng, file):
                yield f"grammar-{rule.lower()}", file.render()
                break


def write_seeds(folder: Path, most: int | None = None) -> list[Path]:
    """Write at most ``most`` seeds into a folder, and return them in order. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(seeds().items())
    if most is not None and most < len(rows):
        rows = [rows[i * len(rows) // most] for i in range(most)]  # some of each kind
    for name, data in rows:
        (folder / name).write_bytes(data)
    return [folder / name for name, _ in rows]


def write_seed_corpus(path: Path) -> None:
    """Write the seeds as a reproducible ZIP file. Raises OSError."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(seeds().items()):
            archive.writestr(zipfile.ZipInfo(name, _ZIP_DATE), data, zipfile.ZIP_DEFLATED)


def write_options(path: Path) -> None:
    path.write_text(f"[libfuzzer]\nmax_len = {MAX_LEN}\n", "ascii")


def write_all(folder: Path, target: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_dictionary(folder / f"{target}.dict")
    write_seed_corpus(folder / f"{target}_seed_corpus.zip")
    write_options(folder / f"{target}.options")


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit("usage: python -m safetensors_fuzz.engines.atheris.files FOLDER TARGET...")
    try:
        for target in sys.argv[2:]:
            write_all(Path(sys.argv[1]), target)
    except (OSError, ManifestError) as err:
        raise SystemExit(visible(str(err), 1000)) from err


if __name__ == "__main__":
    main()
