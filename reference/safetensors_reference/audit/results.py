"""Results on the disk: JSON lines that are appended to, or Parquet files in a folder; both can be resumed."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import sys
from collections import Counter
from contextlib import suppress
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..rules.faults import quote, shown_name
from ..writing.atomic import NotSavedError, write_file
from .reading import listed
from .row import Row, row_address, unicode

if TYPE_CHECKING:
    from .batches import AuditInput

PART_ROWS = 50_000
"""Rows in a part of a Parquet data set; those of one that is not complete are looked at again."""
PASSING = ("unreachable", "changed", "kills-worker")
"""Verdicts that another run may change."""


_START = b'{"address":"'
"""How each row begins."""


class ResultsError(Exception):
    """Results cannot be read or written; the text names the file and why, in one line."""


class _Key(msgspec.Struct):
    """What tells whether a file needs to be looked at again, and what is known of it."""

    address: str
    verdict: str = ""
    size: int | None = None
    tag: str | None = ""  # a column has None for none
    kind: str | None = "file"


class ProcessedFiles:
    """The files that have a row: a number for each instead of its name.

    Attributes:
        met: a set, to call a file done that is asked about again; None where no file is reached twice.
    """

    def __init__(self) -> None:
        self._seen: dict[int, str] = {}
        self._left: Counter[str] = Counter()
        self._models: dict[int, str] = {}
        self.met: set[int] | None = None
        # With a secret key nobody can name a file so that it passes for another one.
        self._secret = secrets.token_bytes(16)

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, key: _Key, retry: bool) -> None:
        """Take in a row; with ``retry`` not one that another run may change."""
        if retry and key.verdict in PASSING:
            return
        verdict = sys.intern(f"{key.kind or 'file'} {key.verdict}")
        self._seen[self._number(key.address, key.size, key.tag or "")] = verdict
        if key.address.startswith(("http://", "https://")):
            self._seen[self._number(key.address, None, "")] = verdict  # all that a list of addresses tells

    def __call__(self, item: AuditInput) -> bool:
        """Return whether a file has a row with the same address, size and tag."""
        address = row_address(item.address)
        if self.met is not None:
            before = len(self.met)
            self.met.add(self._number(address, None, ""))
            if len(self.met) == before:
                return True
        if not self._seen:
            return False
        size, tag = listed(item)
        verdict = self._seen.get(self._number(address, size, unicode(tag)))
        if verdict is None:
            return False
        if verdict.startswith("model "):
            self._models[self._number(address, None, "")] = verdict
        else:
            self._left[verdict] += 1
        return True

    def mark_rejudged(self, address: str) -> None:
        """Take note of a new row of a model that was left out, since a shard of it has a new row."""
        self._models.pop(self._number(address, None, ""), None)

    @property
    def left_out(self) -> Counter[str]:
        """How often the rows of what was left out have each verdict, such as ``file valid``."""
        return self._left + Counter(self._models.values())

    def _number(self, address: str, size: int | None, tag: str) -> int:
        text = f"{address}\0{size}\0{tag}".encode()
        return int.from_bytes(blake2b(text, digest_size=8, key=self._secret).digest(), "little")


class JsonlResults:
    """A file of JSON lines. Each batch is written as a whole; a line that was torn is cut off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._new = not path.exists()
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        except (OSError, ValueError) as err:  # a zero byte in the path
            raise _not_written(path, err) from err
        _lock(self._fd, path)
        try:
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise ResultsError(f"{shown_name(path)}: not written: not a regular file")
            self._end = self._whole_lines()
        except BaseException:
            os.close(self._fd)
            raise

    def _whole_lines(self) -> int:
        """Return where the last line ends, and cut off the torn row behind it.

        Of a file that others wrote nothing is cut off: its first line, or the end, is no row.
        """
        end = os.fstat(self._fd).st_size
        while end:
            start = max(0, end - 65_536)
            found = os.pread(self._fd, end - start, start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        torn = os.pread(self._fd, len(_START), end)
        if not _START.startswith(torn) or not _START.startswith(os.pread(self._fd, len(_START), 0)):
            raise ResultsError(f"{shown_name(self.path)}: holds something else than rows of an audit")
        if torn:
            os.ftruncate(self._fd, end)
        return end

    def known(self, done: ProcessedFiles, retry: bool) -> None:
        """Tell ``done`` what has a row already. Raises ResultsError for a line that is no row."""
        decode = msgspec.json.Decoder(_Key).decode
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    done.add(decode(line), retry)
                except (msgspec.DecodeError, ValueError, RecursionError) as err:
                    name = shown_name(self.path)
                    raise ResultsError(
                        f"{name}: line {number:,} is no row of an audit: {_error_text(err)}"
                    ) from err

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
        """Leave no empty file behind an audit that failed before its first row."""
        if self._new and not self._end:
            self.path.unlink(missing_ok=True)


class ParquetResults:
    """A folder of Parquet files, each of which is there as a whole or not at all."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow.json
            import pyarrow.parquet  # noqa: F401
        except ImportError as err:
            text = "a Parquet data set needs the extra: pip install 'safetensors-conformance[fleet]'"
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
            raise ResultsError(f"{shown_name(path)}: is a folder with something else than rows of an audit")
        self._number = max((int(part.stem[5:]) for part in self._parts()), default=0)

    def _parts(self) -> list[Path]:
        return sorted(part for part in self.path.glob("part-*.parquet") if part.stem[5:].isdecimal())

    def known(self, done: ProcessedFiles, retry: bool) -> None:
        """Tell ``done`` what has a row already. Raises ResultsError for a part that is none."""
        import pyarrow as pa
        import pyarrow.parquet as parquet

        for part in self._parts():
            try:
                if not part.is_file():  # opening a pipe may wait for ever
                    raise TypeError("not a regular file")
                with parquet.ParquetFile(part) as file:
                    _check_columns(file.schema_arrow)
                    for piece in file.iter_batches(columns=list(_Key.__struct_fields__)):
                        if piece.column("address").null_count:
                            raise TypeError("a row has no address")
                        for values in piece.to_pylist():
                            done.add(_Key(**values), retry)
            # What is no UTF-8 is a ValueError, also in the words of pyarrow.
            except (pa.ArrowException, OSError, TypeError, ValueError) as err:
                raise ResultsError(f"{shown_name(part)}: is no part of an audit: {_error_text(err)}") from err

    def add(self, rows: bytes) -> None:
        self._rows.append(rows)
        self._count += rows.count(b"\n")
        if self._count >= PART_ROWS:
            self._write()

    def _write(self) -> None:
        import pyarrow.parquet as parquet

        if not self._count:
            return
        out = BytesIO()
        parquet.write_table(table_of(b"".join(self._rows)), out, compression="zstd")
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
        """Leave no empty folder behind an audit that failed before its first row."""
        if self._new:
            with suppress(OSError):  # it holds a part
                self.path.rmdir()


def table_of(rows: bytes) -> Any:
    """Return JSON lines as a table of pyarrow with the columns of a row."""
    import pyarrow.json

    options = pyarrow.json.ParseOptions(explicit_schema=schema(), unexpected_field_behavior="error")
    return pyarrow.json.read_json(
        BytesIO(rows), parse_options=options, read_options=pyarrow.json.ReadOptions(block_size=64 << 20)
    )


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


def _check_columns(found: Any) -> None:
    """Raise TypeError unless a part has the columns that tell which files have a row."""
    wanted = schema()
    for name in _Key.__struct_fields__:
        at = found.get_field_index(name)
        if at < 0 or found.field(at).type != wanted.field(name).type:
            raise TypeError(f"it has no column {name} of {wanted.field(name).type}")


def open_results(path: Path) -> JsonlResults | ParquetResults:
    """Open results to write to: JSON lines for a name that ends in .jsonl, else a Parquet folder."""
    return JsonlResults(path) if path.suffix in (".jsonl", ".ndjson") else ParquetResults(path)


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        os.close(fd)
        raise ResultsError(f"{shown_name(path)}: another audit writes to it") from err


def _error_text(err: Exception) -> str:
    return quote(" ".join(str(err).split()), 300)[1:-1]


def _not_written(path: Path, err: OSError | ValueError) -> ResultsError:
    text = getattr(err, "strerror", None) or err
    return ResultsError(f"{shown_name(path)}: not written: {text}")
