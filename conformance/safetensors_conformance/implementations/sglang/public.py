"""SGLang's iterators when the whole package is imported, for comparison with the adapter."""

from collections.abc import Iterator
from typing import Any

import torch_rows
from sglang.srt.model_loader import weight_utils
from stc_host.library import call, each, marked


@marked
class Lazy:
    def read(self, path: str) -> Iterator[tuple[Any, ...]]:
        for name, tensor in each(call(weight_utils.safetensors_weights_iterator, [path])):
            yield torch_rows.row(name, tensor)


@marked
class Threads:
    def read(self, path: str) -> Iterator[tuple[Any, ...]]:
        weights = call(weight_utils.buffered_multi_thread_safetensors_weights_iterator, [path], 4)
        for name, tensor in each(weights):
            yield torch_rows.row(name, tensor)
