"""Adapters for SGLang's iterators over model weights, cut out of ``model_loader/weight_utils.py``."""

import cut_out
from stc_host.library import marked
from weight_iterators import Weights

UTILS = cut_out.module(
    "sglang",
    "sglang/srt/model_loader/weight_utils.py",
    ("sglang", "huggingface_hub", "pydantic"),
    {"sglang.srt.utils": {"BAR_FORMAT": None}},
)


@marked
class Lazy(Weights):  # type: ignore[misc]  # imported by its plain name
    utils = UTILS
    iterator = "safetensors_weights_iterator"
    order = sorted  # the default of SGLANG_SORT_WEIGHT_FILES


@marked
class Threads(Lazy):
    iterator = "buffered_multi_thread_safetensors_weights_iterator"
    arguments = (4,)
