"""Dictionary, seed corpus and options of a libFuzzer target, generated from the grammar and the corpus.

``python -m safetensors_fuzz.engines.atheris.files FOLDER TARGET...`` writes these files for each target,
under the names that OSS-Fuzz and ClusterFuzzLite expect.
"""

from __future__ import annotations

import random
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from safetensors_corpus import ManifestError, load_manifest
from safetensors_corpus.features import vocabulary as words
from safetensors_reports.text import visible

from ...grammar.faults.header import bad_spellings
from ...grammar.faults.tensors import spellings
from ...grammar.grammar import FAULTS_BY_RULE, Grammar, valid_file

MAX_LEN = 1024
"""Maximum length of an input in bytes. Small files reveal the same faults as large files and run faster."""
LARGEST_SEED = 1024
LONGEST_WORD = 64
_FRESH_SEEDS = 32
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


def dictionary() -> tuple[bytes, ...]:
    sets: tuple[Sequence[bytes], ...] = (
        words.FIELDS, (words.RESERVED,), words.NO_DTYPES, words.TOO_BIG, words.WORDS, words.BAD_WORDS,
        words.SPACES, words.NO_SPACES, words.NOT_UTF8, words.CONTROLS, words.BAD_ESCAPES, words.BOMS,
        words.MAGIC, words.NEAR_RESERVED, *words.NEAR_FIELDS.values(), words.NAMES, words.META_KEYS,
        words.META_VALUES, words.UNKNOWN_FIELDS, words.HUGE_NUMBERS, spellings(8),
        bad_spellings(8),
    )  # fmt: skip
    entries = {word for group in sets for word in group}
    entries |= {b'"%b"' % dtype for dtype in words.DTYPES}
    entries |= {b"%d" % number for number in words.BIG}
    entries |= {number.to_bytes(8, "little") for number in words.LENGTHS}
    return tuple(sorted(word for word in entries if 0 < len(word) <= LONGEST_WORD))


def quoted(word: bytes) -> str:
    text = re.sub(r'["\\]', r"\\\g<0>", word.decode("latin-1"))
    return '"' + re.sub("[^ -~]", lambda match: f"\\x{ord(match[0]):02X}", text) + '"'


def seeds() -> dict[str, bytes]:
    """Return small, distinct files from the corpus and the grammar, keyed by name. Raises ManifestError."""
    names: dict[bytes, str] = {}
    for name, data in (*_of_corpus(), *_of_grammar()):
        if 0 < len(data) <= LARGEST_SEED:
            names.setdefault(data, f"{name}.safetensors")
    return {name: data for data, name in names.items()}


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
    for rule, mutations in FAULTS_BY_RULE.items():
        for _ in range(8):
            file = valid_file(rng)
            if rng.choice(mutations).apply(rng, file):
                yield f"grammar-{rule.lower()}", file.render()
                break


def write_seeds(folder: Path, most: int | None = None) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(seeds().items())
    if most is not None and most < len(rows):
        rows = [rows[i * len(rows) // most] for i in range(most)]  # include seeds of all kinds
    for name, data in rows:
        (folder / name).write_bytes(data)
    return [folder / name for name, _ in rows]


def write_all(folder: Path, target: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["# Words of the safetensors format, generated from safetensors_corpus.features.vocabulary."]
    lines += map(quoted, dictionary())
    (folder / f"{target}.dict").write_text("\n".join(lines) + "\n", "ascii")
    with zipfile.ZipFile(folder / f"{target}_seed_corpus.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(seeds().items()):
            archive.writestr(zipfile.ZipInfo(name, _ZIP_DATE), data, zipfile.ZIP_DEFLATED)
    (folder / f"{target}.options").write_text(f"[libfuzzer]\nmax_len = {MAX_LEN}\n", "ascii")


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
