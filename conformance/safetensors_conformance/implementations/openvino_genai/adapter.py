"""Adapter for OpenVINO GenAI's ``Adapter``, which uses a C parser to read LoRA adapters.

A file is valid if it can be loaded. Its tensors are not accessible.
"""

import lacking
import openvino_genai
from stc_host.library import call, marked


@marked
class Adapter:
    lacks = lacking.all_but(("F32", "F16", "BF16"))

    def check(self, path: str) -> bool:
        call(openvino_genai.Adapter, path)
        return True
