"""``DefaultModelLoader.get_all_weights`` when all of vLLM is imported, for comparison with the adapter."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
import torch_rows
from stc_host.library import call, each, marked
from vllm.config import LoadConfig
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader


@marked
class GetAllWeights:
    options: ClassVar[dict[str, Any]] = {}

    def read(self, path: str) -> Iterator[tuple[Any, ...]]:
        yield from self.index(path)

    def index(self, path: str) -> Iterator[tuple[Any, ...]]:
        model = SimpleNamespace(model=str(Path(path).parent), revision=None)
        config = LoadConfig(load_format="safetensors", use_tqdm_on_load=False, **self.options)
        loader = call(DefaultModelLoader, config)
        for name, tensor in each(call(loader.get_all_weights, model, torch.nn.Module())):
            yield torch_rows.row(name, tensor)


@marked
class Eager(GetAllWeights):
    options: ClassVar[dict[str, Any]] = {"safetensors_load_strategy": "eager"}


@marked
class Threads(GetAllWeights):
    options: ClassVar[dict[str, Any]] = {"model_loader_extra_config": {"enable_multithread_load": True}}
