"""A small and correct exporter, which names files after the position of a tensor instead of its name."""

from __future__ import annotations

from pathlib import Path

from .reader import READER


class SmallExporter:
    """Writes the bytes of every tensor to a file, with methods that a variant can break."""

    def export(self, path: Path, folder: Path) -> None:
        data = path.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        rows = READER.read(path)["tensors"]
        begin = start
        tensors = []
        for row in rows:  # the tensors of the cases are in the order of their bytes
            tensors.append((row["name"], data[begin : begin + row["nbytes"]]))
            begin += row["nbytes"]
        self.put_all(tensors, folder)

    def put_all(self, tensors: list[tuple[str, bytes]], folder: Path) -> None:
        for number, (name, data) in enumerate(tensors):
            self.put(folder / self.place(name, number), data)

    def place(self, name: str, number: int) -> str:  # noqa: ARG002 - for variants
        return f"{number:06}.bin"

    def put(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
