"""Adapters for vLLM's iterators over model weights, cut out of ``model_loader/weight_utils.py``."""

import logging
from types import SimpleNamespace
from typing import Any

import cut_out
import torch_rows
from stc_host.library import marked
from weight_iterators import Weights

FOLDER = "vllm/model_executor/model_loader"
LOG = logging.getLogger("vllm")
LOG.info_once = LOG.warning_once = lambda *_: None  # type: ignore[attr-defined] # as vLLM's logger has them
NOT_INSTALLED = SimpleNamespace(placeholder_attr=lambda _: None)
"""Replacements for optional packages."""
# vLLM's own filter for the tensors of each rank. Every tensor is loaded in these tests.
EXPERTS = cut_out.module("vllm", f"{FOLDER}/ep_weight_filter.py")
UTILS = cut_out.module(
    "vllm",
    f"{FOLDER}/weight_utils.py",
    ("vllm", "transformers", "huggingface_hub"),
    {
        "vllm.utils.import_utils": {"PlaceholderModule": lambda _: NOT_INSTALLED},
        "vllm.logger": {"init_logger": lambda _: LOG},
        "vllm.model_executor.model_loader.ep_weight_filter": {
            "should_skip_weight": EXPERTS.should_skip_weight
        },
    },
)


@marked
class Lazy(Weights):  # type: ignore[misc]  # imported by its plain name
    utils = UTILS
    iterator = "safetensors_weights_iterator"
    arguments: tuple[Any, ...] = (False,)


@marked
class Eager(Lazy):
    """``safetensors_weights_iterator`` with the ``eager`` strategy, which uses ``safetensors.torch.load``."""

    lacks = ("dtype-f4", *torch_rows.LACKS)
    arguments = (False, "eager")


@marked
class Threads(Lazy):
    iterator = "multi_thread_safetensors_weights_iterator"
