"""Adapter for ``SafetensorsStreamer`` in the Run:ai Model Streamer."""

from collections.abc import Iterator
from typing import Any

import lacking
import torch_rows
from runai_model_streamer import SafetensorsStreamer
from stc_host.library import call, each, marked, opened


@marked
class Streamer:
    lacks = (*torch_rows.LACKS, *lacking.dtypes("F8_E4M3FNUZ", "F8_E5M2FNUZ"))

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        with opened(SafetensorsStreamer) as streamer:
            call(streamer.stream_file, path)
            tensors = call(streamer.get_tensors)
            return [torch_rows.row(name, tensor) for name, tensor in each(tensors)]

    def device(self, path: str, device: str) -> Iterator[tuple[str, Any, Any, Any]]:
        with opened(SafetensorsStreamer) as streamer:
            call(streamer.stream_file, path, device=device)
            for name, tensor in each(call(streamer.get_tensors)):
                yield torch_rows.device_row(name, tensor)
