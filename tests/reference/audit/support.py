"""Audits run in a loop, rows read back, and files that are valid, long, odd and broken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from click.testing import CliRunner, Result

from safetensors_reference.audit.cli import audit
from safetensors_reference.audit.engine import Engine, run
from safetensors_reference.audit.results import Row
from safetensors_reference.audit.work import AuditOptions, make_batches
from safetensors_reference.files.walk import find_folders

from .. import support

read_row = msgspec.json.Decoder(Row).decode


def rows_of(
    sources: Sequence[str | Path],
    lists: Iterable[str | Path] = (),
    *,
    options: AuditOptions | None = None,
    engine: Engine | None = None,
    batch: int = 7,
) -> list[Row]:
    """Return the rows of an audit, sorted by address."""
    folders = find_folders([str(source) for source in sources], [str(name) for name in lists])
    batches = make_batches(folders, batch, lambda _: False)
    rows = [
        read_row(line)
        for part in run(batches, options or AuditOptions(), engine or Engine())
        for line in part.splitlines()
    ]
    return sorted(rows, key=lambda row: row.address)


def stc_audit(*arguments: str | Path, jobs: int = 1) -> Result:
    return CliRunner().invoke(audit, [*map(str, arguments), "--jobs", str(jobs)])


def alike(row: Row) -> Row:
    """Return a row without what differs from run to run and from place to place."""
    time = row.time.replace(year=2000, month=1, day=1, hour=0, minute=0, second=0)
    name = row.address.partition("::")[0].rpartition("/")[2]
    return msgspec.structs.replace(row, address=name, tag="", time=time, requests=0, read=0)


def all_alike(rows: Iterable[Row]) -> list[Row]:
    return [alike(row) for row in sorted(rows, key=lambda row: row.address)]


VALID = support.make(f'{{"w":{support.W}}}', support.ABCD)
BROKEN = support.make(f'{{"w":{support.W}}}', b"abc")
DISPUTED = support.make(f' {{"w":{support.W}}}', support.ABCD)


def long_file(tensors: int = 3000) -> bytes:
    """Return a file whose header is longer than the first request."""
    entries = ",".join(
        f'"layer.{n}.weight":{support.entry(shape="[1]", offsets=f"[{n},{n + 1}]")}' for n in range(tensors)
    )
    return support.make("{" + entries + "}", bytes(tensors))


def write_tree(top: Path, files: dict[str, bytes]) -> Path:
    """Write files below a folder, and return it."""
    for name, data in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return top


SHARDS = {
    "model-00001-of-00002.safetensors": VALID,
    "model-00002-of-00002.safetensors": support.make(f'{{"v":{support.W}}}', support.ABCD),
}
INDEX = (
    b'{"metadata":{"total_size":8},"weight_map":'
    b'{"w":"model-00001-of-00002.safetensors","v":"model-00002-of-00002.safetensors"}}'
)
MODEL = {**SHARDS, "model.safetensors.index.json": INDEX}
