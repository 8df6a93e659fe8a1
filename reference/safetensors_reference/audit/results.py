"""Rows of an audit, each of which describes one file or one model, and the files that contain them.

The rows are written to a JSON Lines file or to a folder of Parquet files. An interrupted audit can be resumed
with either format.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import sys
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from ..files.names import FileInput
from ..files.reading import NotRead, NotReadError, listed
from ..text import shown_name
from ..writing.atomic import NotSavedError, write_file

Verdict = Literal["valid", "invalid", "per-profile", NotRead]
NOT_READ = get_args(NotRead)
Count = Annotated[int, msgspec.Meta(ge=0)]
MAX_TEXT = 200
"""Maximum number of characters of a metadata key, a `format` value or a note in a row."""
PART_ROWS = 50_000
RETRYABLE = ("unreachable", "changed", "kills-worker")
_START = b'{"address":"'


class Profiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Verdict under each profile.

    Attributes:
        text: verdict under the written rules only.
        official: verdict under the rules of the newest official release.
        hardened: verdict under our recommendation for untrusted files.
    """

    text: Literal["valid", "invalid"]
    official: Literal["valid", "invalid"]
    hardened: Literal["valid", "invalid"]

    @property
    def verdict(self) -> Verdict:
        answers = {self.text, self.official, self.hardened}
        return "per-profile" if len(answers) > 1 else answers.pop()


class Tally(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tensors of one dtype in a file.

    Attributes:
        dtype: code of the dtype.
        tensors: number of tensors with this dtype.
        bytes: total number of bytes in these tensors.
    """

    dtype: str
    tensors: Count
    bytes: Count


class Writer(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Properties of the header that depend on the program that wrote it.

    Attributes:
        fields: field names of the first entry in header order, joined by commas.
        padding: number of spaces after the header object; at most 4,096 spaces are counted.
        alignment: largest power of two up to 4,096 that divides the file position of the first data byte.
        compact: whether the header object has no spaces between its tokens, judged by the first entry.
        order: whether the header lists the tensors in the order of their bytes.
        format: value of the metadata key `format`, cut off at 200 characters; null if there is no such key.
    """

    fields: str
    padding: Count
    alignment: Count
    compact: bool
    order: bool
    format: str | None = None


class Row(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Row for one file, or for one model with its index and shards. Unknown and unused fields are absent.

    Attributes:
        address: path or address of the file, or of the index of a model. Bytes that are not UTF-8 are
            escaped, for example as `\\udcff`. If a name contains such a byte or `\\u`, each of its
            backslashes is doubled.
        time: time of the audit in UTC.
        verdict: `valid` or `invalid` if all profiles agree, otherwise `per-profile`. Any other value is the
            reason why the validity is unknown: `missing`, `refused` (no permission), `unreachable` (after
            several attempts), `changed` (during the audit), `no-ranges` (the server sends only whole files),
            `unreadable` (not a regular file, or a system error), `kills-worker` (every process that reads the
            file dies).
        kind: `file`, or `model` for an index with its shards.
        size: size of the file in bytes; for a model, size of its index.
        tag: ETag, digest or version from the store, or else the modification time; empty if there is neither.
            A file with the same address, size and tag is not audited again.
        profiles: verdict under each profile.
        codes: sorted list of the fault codes reported under any profile, without duplicates.
        rules: sorted list of the rules broken under any profile, without duplicates.
        faults: number of faults reported under any profile; at most 10,000 are counted per file.
        tensors: number of tensors.
        dtypes: sorted list of the dtypes used, with the number of tensors and bytes of each.
        data_bytes: size of the data buffer in bytes; for a model, the total for all shards.
        header_bytes: length N of the header in bytes.
        metadata_keys: keys of the metadata in header order; at most 64 keys, each cut off at 200 characters.
        writer: properties of the header that depend on the program that wrote the file.
        header_sha256: SHA-256 of the N header bytes.
        shards: number of shards listed in the index of a model.
        data_sha256: SHA-256 of the whole file; present only with `--data`.
        odd_bools: number of bytes other than 0 and 1 in BOOL tensors; present only with `--data`.
        requests: number of requests or reads, including repeated ones.
        read: number of bytes read.
        note: one line that says why the validity is unknown, or describes the first fault.
        aligned_tensors: number of non-empty tensors that begin at a multiple of N; present only with
            `--alignment N`.
        aligned_bytes: number of bytes in these tensors; present only with `--alignment N`.
        looks_like: kind of file that an invalid file or index looks like, such as `git-lfs`, `html` or
            `cut-short`.
    """

    address: str
    time: datetime
    verdict: Verdict
    kind: Literal["file", "model"]
    size: Count | None = None
    tag: str = ""
    profiles: Profiles | None = None
    codes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    faults: Count = 0
    tensors: Count | None = None
    dtypes: tuple[Tally, ...] = ()
    data_bytes: Count | None = None
    header_bytes: Count | None = None
    metadata_keys: tuple[str, ...] = ()
    writer: Writer | None = None
    header_sha256: str | None = None
    shards: Count | None = None
    data_sha256: str | None = None
    odd_bools: Count | None = None
    requests: Count = 0
    read: Count = 0
    note: str = ""
    aligned_tensors: Count | None = None
    aligned_bytes: Count | None = None
    looks_like: str = ""


_encoder = msgspec.json.Encoder()


def encode_row(row: Row) -> bytes:
    """Return a row as one line of JSON, including the newline. Never raises, whatever the row contains."""
    address = row_address(row.address)
    if address is not row.address:
        row = msgspec.structs.replace(row, address=address)
    try:
        try:
            return _encoder.encode(row) + b"\n"
        except UnicodeEncodeError:  # the row contains text from a server, such as an ETag
            return _encoder.encode(_unicode(row)) + b"\n"
    except Exception as err:  # one row must not stop the audit
        error = NotReadError("unreadable", f"this program failed: {type(err).__name__}: {err}")
        return _encoder.encode(unread_row(address, error, None, "", row.kind)) + b"\n"


def row_address(name: str) -> str:
    if name.isascii() and "\\u" not in name:
        return name
    plain = unicode(name)
    return plain if plain == name and "\\u" not in name else unicode(name.replace("\\", "\\\\"))


def unicode(text: str) -> str:
    """Return ``text`` with surrogates escaped. Names and HTTP fields may contain surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


def _unicode(value: Any) -> Any:
    if isinstance(value, str):
        return unicode(value)
    if isinstance(value, tuple):
        return tuple(map(_unicode, value))
    if isinstance(value, msgspec.Struct):
        fields = {name: _unicode(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    return value


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def unread_row(
    address: str, error: NotReadError, size: int | None, tag: str, kind: Literal["file", "model"] = "file"
) -> Row:
    note, requests = shown_name(error.note, MAX_TEXT), error.requests
    return Row(
        address, now(), error.verdict, kind, size, tag, requests=requests, read=error.received, note=note
    )


class ResultsError(Exception):
    """Raised if results cannot be read or written. The message is a single line that identifies the file."""


class RowKey(msgspec.Struct):
    """Fields of a row that determine whether a file must be audited again."""

    address: str
    verdict: str = ""
    size: int | None = None
    tag: str | None = ""  # a column value may be missing
    kind: str | None = "file"


decode_key = msgspec.json.Decoder(RowKey).decode


class ProcessedFiles:
    """Files that already have a row, stored as keyed hashes. ``seen`` is None if no file can appear twice."""

    def __init__(self) -> None:
        self._verdicts: dict[int, str] = {}
        self._skipped: Counter[str] = Counter()
        self._models: dict[int, str] = {}
        self.seen: set[int] | None = None
        # Because the key is secret, nobody can choose file names whose hashes collide.
        self._secret = secrets.token_bytes(16)

    def __len__(self) -> int:
        return len(self._verdicts)

    def add(self, key: RowKey, retry: bool) -> None:
        if retry and key.verdict in RETRYABLE:
            return
        verdict = sys.intern(f"{key.kind or 'file'} {key.verdict}")
        self._verdicts[self._number(key.address, key.size, key.tag or "")] = verdict
        if key.address.startswith(("http://", "https://")):
            # A file from a list of addresses has no size or tag.
            self._verdicts[self._number(key.address, None, "")] = verdict

    def __call__(self, item: FileInput) -> bool:
        """Return whether a file was already seen or has a row with the same address, size and tag."""
        address = row_address(item.address)
        if self.seen is not None:
            count = len(self.seen)
            self.seen.add(self._number(address, None, ""))
            if len(self.seen) == count:
                return True
        if not self._verdicts:
            return False
        size, tag = listed(item)
        verdict = self._verdicts.get(self._number(address, size, unicode(tag)))
        if verdict is None:
            return False
        if verdict.startswith("model "):
            self._models[self._number(address, None, "")] = verdict
        else:
            self._skipped[verdict] += 1
        return True

    def mark_rejudged(self, address: str) -> None:
        """Forget the old row of a skipped model that was checked again because a shard had changed."""
        self._models.pop(self._number(address, None, ""), None)

    @property
    def left_out(self) -> Counter[str]:
        return self._skipped + Counter(self._models.values())

    def _number(self, address: str, size: int | None, tag: str) -> int:
        text = f"{address}\0{size}\0{tag}".encode()
        return int.from_bytes(blake2b(text, digest_size=8, key=self._secret).digest(), "little")


class JsonlResults:
    """A JSON Lines file. Each batch is written in one piece, and an incomplete last line is removed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._new = not path.exists()
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        except (OSError, ValueError) as err:  # the path contains a null byte
            raise _not_written(path, err) from err
        _lock(self._fd, path)
        try:
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise ResultsError(f"{shown_name(path)}: not written because it is not a regular file")
            self._end = self._whole_lines()
        except BaseException:
            os.close(self._fd)
            raise

    def _whole_lines(self) -> int:
        """Remove an incomplete last row and return the new size. Raises ResultsError for other content."""
        end = os.fstat(self._fd).st_size
        while end:
            start = max(0, end - 65_536)
            newline = os.pread(self._fd, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        torn = os.pread(self._fd, len(_START), end)
        if not _START.startswith(torn) or not _START.startswith(os.pread(self._fd, len(_START), 0)):
            raise ResultsError(f"{shown_name(self.path)}: this file contains something other than audit rows")
        if torn:
            os.ftruncate(self._fd, end)
        return end

    def load_processed(self, processed: ProcessedFiles, retry: bool) -> None:
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    processed.add(decode_key(line), retry)
                except (msgspec.DecodeError, ValueError, RecursionError) as err:
                    text = f"line {number:,} is not an audit row: {error_text(err)}"
                    raise ResultsError(f"{shown_name(self.path)}: {text}") from err

    def add(self, rows: bytes) -> None:
        at = self._end
        try:
            while at - self._end < len(rows):
                at += os.pwrite(self._fd, rows[at - self._end :], at)
        except OSError as err:
            os.ftruncate(self._fd, self._end)
            raise _not_written(self.path, err) from err
        self._end = at

    def close(self) -> None:
        try:
            os.fsync(self._fd)
        except OSError as err:
            raise _not_written(self.path, err) from err
        finally:
            os.close(self._fd)

    def remove_if_empty(self) -> None:
        if self._new and not self._end:
            self.path.unlink(missing_ok=True)


class ParquetResults:
    """A folder of Parquet files. A file appears in the folder only when it is complete."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow.json
            import pyarrow.parquet  # noqa: F401
        except ImportError as err:
            text = "a Parquet data set needs the fleet extra: pip install 'safetensors-conformance[fleet]'"
            raise ResultsError(f"{shown_name(path)}: {text}") from err
        self.path = path
        self._new = not path.exists()
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as err:
            raise _not_written(path, err) from err
        _lock(self._fd, path)
        self._rows: list[bytes] = []
        self._count = 0
        if not self._parts() and any(not entry.name.startswith(".") for entry in path.iterdir()):
            os.close(self._fd)
            raise ResultsError(f"{shown_name(path)}: this folder contains something other than audit rows")
        self._number = max((int(part.stem[5:]) for part in self._parts()), default=0)

    def _parts(self) -> list[Path]:
        return sorted(part for part in self.path.glob("part-*.parquet") if part.stem[5:].isdecimal())

    def load_processed(self, processed: ProcessedFiles, retry: bool) -> None:
        import pyarrow as pa
        import pyarrow.parquet as parquet

        for part in self._parts():
            try:
                if not part.is_file():  # opening a pipe could block
                    raise TypeError("not a regular file")
                with parquet.ParquetFile(part) as file:
                    _check_columns(file.schema_arrow)
                    for piece in file.iter_batches(columns=list(RowKey.__struct_fields__)):
                        if piece.column("address").null_count:
                            raise TypeError("a row has no address")
                        for values in piece.to_pylist():
                            processed.add(RowKey(**values), retry)
            # pyarrow raises ValueError if the text is not valid UTF-8.
            except (pa.ArrowException, OSError, TypeError, ValueError) as err:
                text = f"this is not an audit result: {error_text(err)}"
                raise ResultsError(f"{shown_name(part)}: {text}") from err

    def add(self, rows: bytes) -> None:
        self._rows.append(rows)
        self._count += rows.count(b"\n")
        if self._count >= PART_ROWS:
            self._write()

    def _write(self) -> None:
        import pyarrow.json
        import pyarrow.parquet as parquet

        if not self._count:
            return
        out = BytesIO()
        options = pyarrow.json.ParseOptions(explicit_schema=schema(), unexpected_field_behavior="error")
        reading = pyarrow.json.ReadOptions(block_size=64 << 20)
        rows = BytesIO(b"".join(self._rows))
        table = pyarrow.json.read_json(rows, parse_options=options, read_options=reading)
        parquet.write_table(table, out, compression="zstd")
        self._number += 1
        try:
            write_file(self.path / f"part-{self._number:06d}.parquet", [out.getbuffer()])
        except NotSavedError as err:
            raise ResultsError(str(err)) from err
        self._rows, self._count = [], 0

    def close(self) -> None:
        try:
            self._write()
        finally:
            os.close(self._fd)

    def remove_if_empty(self) -> None:
        if self._new:
            with suppress(OSError):  # the folder is not empty
                self.path.rmdir()


def schema() -> Any:
    import pyarrow as pa

    def of(kind: msgspec.inspect.Type) -> Any:
        if isinstance(kind, msgspec.inspect.UnionType):
            return of(next(k for k in kind.types if not isinstance(k, msgspec.inspect.NoneType)))
        if isinstance(kind, msgspec.inspect.StructType):
            return pa.struct([(field.name, of(field.type)) for field in kind.fields])
        if isinstance(kind, msgspec.inspect.VarTupleType):
            return pa.list_(of(kind.item_type))
        plain = {"IntType": pa.int64(), "BoolType": pa.bool_(), "DateTimeType": pa.timestamp("ms", "UTC")}
        return plain.get(type(kind).__name__, pa.string())

    described = msgspec.inspect.type_info(Row)
    assert isinstance(described, msgspec.inspect.StructType)
    return pa.schema([(field.name, of(field.type)) for field in described.fields])


def _check_columns(columns: Any) -> None:
    wanted = schema()
    for name in RowKey.__struct_fields__:
        at = columns.get_field_index(name)
        if at < 0 or columns.field(at).type != wanted.field(name).type:
            raise TypeError(f"there is no column {name} of type {wanted.field(name).type}")


def open_results(path: Path) -> JsonlResults | ParquetResults:
    return JsonlResults(path) if path.suffix in (".jsonl", ".ndjson") else ParquetResults(path)


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        os.close(fd)
        raise ResultsError(f"{shown_name(path)}: another audit is writing to this folder") from err


def error_text(err: Exception) -> str:
    return shown_name(" ".join(str(err).split()), 300)


def _not_written(path: Path, err: OSError | ValueError) -> ResultsError:
    text = getattr(err, "strerror", None) or err
    return ResultsError(f"{shown_name(path)}: not written: {text}")
