"""``load_state_dict``, which PaddleNLP uses to load models, for comparison with the adapter."""

from __future__ import annotations

from typing import Any

from paddlenlp.transformers.model_utils import load_state_dict
from stc_host.library import call, marked


@marked
class LoadStateDict:
    """Calls ``load_state_dict``. The result, a mixture of arrays and tensors, is ignored."""

    def read(self, path: str) -> list[tuple[Any, ...]]:
        call(load_state_dict, path)
        return []
