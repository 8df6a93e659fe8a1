"""MsgPack as written by flax. Arrays have extension type 1, and arrays of one gibibyte or more are split."""

from __future__ import annotations

from pathlib import Path

from flax.serialization import msgpack_restore, msgpack_serialize

from ..way import CLAIMED, Arrays, Tensors, Way


class Flax(Way):
    """A map from names to arrays."""

    name = "flax"
    call = "flax.serialization.msgpack_restore(data)"
    file = "model.msgpack"

    def save(self, path: Path, arrays: Arrays) -> None:
        path.write_bytes(msgpack_serialize(dict(arrays)))

    def load(self, path: Path) -> Tensors:
        return msgpack_restore(path.read_bytes())

    def claim(self, path: Path) -> None:
        path.write_bytes(b"\x81\xa7claimed\xc6" + CLAIMED.to_bytes(4, "big"))


WAYS = (Flax(),)
