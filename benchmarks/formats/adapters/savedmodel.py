"""SavedModel: variables of a module, through TensorFlow. Its checkpoint reader reads individual variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ..way import Array, Arrays, Code, Shapes, Tensors, Way

_ENDING = "/.ATTRIBUTES/VARIABLE_VALUE"


class Module(Way):
    """A module with a dict of variables."""

    name = "saved_model.load"
    call = "tf.saved_model.load(path), tf.train.load_checkpoint(path)"
    file = "folder"

    def save(self, path: Path, arrays: Arrays) -> None:
        module = tf.Module()
        module.tensors = {name: tf.Variable(array) for name, array in arrays.items()}
        tf.saved_model.save(module, str(path))

    def load(self, path: Path) -> Tensors:
        return dict(tf.saved_model.load(str(path)).tensors)

    def one(self, path: Path, name: str) -> Any:
        return _checkpoint(path).get_tensor(f"tensors/{name}{_ENDING}")

    def shapes(self, path: Path) -> Shapes:
        found = _checkpoint(path).get_variable_to_shape_map()
        ours = {name for name in found if name.endswith(_ENDING)}
        return {name.removeprefix("tensors/").removesuffix(_ENDING): tuple(found[name]) for name in ours}

    def array(self, tensor: Any) -> Array:
        return tensor if isinstance(tensor, np.ndarray) else tensor.numpy()

    def dtype(self, tensor: Any) -> str:
        return str(getattr(tensor.dtype, "name", tensor.dtype))

    def trap(self, path: Path, code: Code) -> None:
        class Writes(tf.saved_model.experimental.TrackableResource):  # type: ignore[misc]
            def _create_resource(self) -> Any:
                return tf.raw_ops.VarHandleOp(dtype=tf.int32, shape=[])

            def _initialize(self) -> None:
                tf.io.write_file(code.marker, "left by an operator of the graph")

        module = tf.Module()
        module.resource = Writes()
        module.use = tf.function(lambda: module.resource.resource_handle, input_signature=[])
        tf.saved_model.save(module, str(path))

    def stored(self, path: Path, value: Any) -> Any:
        module = tf.Module()
        if callable(value):
            module.value = tf.function(value, input_signature=[tf.TensorSpec([], tf.int32)])
        else:  # the module stores strings as tensors
            module.value = tf.Variable(value) if isinstance(value, str | bytes) else value
        tf.saved_model.save(module, str(path))
        back = tf.saved_model.load(str(path)).value
        found = back.numpy() if isinstance(back, tf.Variable) else back
        return found.decode() if isinstance(value, str) else found


def _checkpoint(path: Path) -> Any:
    return tf.train.load_checkpoint(str(path / "variables" / "variables"))


WAYS = (Module(),)
