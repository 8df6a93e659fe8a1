"""Adapter of the C parser inside OpenVINO GenAI, which reads LoRA adapters with it."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import lacking
import openvino_genai
from stc_host.library import Refused, call, marked

MAX_DIM = 20
CODES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL")


class Text(ctypes.Structure):
    """A string inside the buffer."""

    _fields_ = (("len", ctypes.c_int), ("ptr", ctypes.c_void_p))

    def decode(self) -> str:
        """Return the text as it stands in the header; the parser does not resolve escapes."""
        return ctypes.string_at(self.ptr, self.len).decode("utf-8", "surrogateescape") if self.len else ""


class Tensor(ctypes.Structure):
    """``safetensors_TensorDescriptor``."""

    _fields_ = (
        ("name", Text),
        ("dtype", ctypes.c_int),
        ("n_dimensions", ctypes.c_int),
        ("shape", ctypes.c_int64 * MAX_DIM),
        ("begin", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("ptr", ctypes.c_void_p),
    )


class Entry(ctypes.Structure):
    """``safetensors_MetadataEntry``."""

    _fields_ = (("name", Text), ("value", Text))


class File(ctypes.Structure):
    """``safetensors_File``."""

    _fields_ = (
        ("capacity", ctypes.c_int),
        ("error_context", ctypes.c_void_p),
        ("end_of_header", ctypes.c_void_p),
        ("tensors", ctypes.POINTER(Tensor)),
        ("metadata", ctypes.POINTER(Entry)),
        ("num_tensors", ctypes.c_int),
        ("num_metadata", ctypes.c_int),
    )


@marked
class Parser:
    """``safetensors_file_init``, which lists what the header says."""

    lacks = lacking.all_but(CODES)

    def __init__(self) -> None:
        folder = Path(openvino_genai.__file__).parent
        library = ctypes.CDLL(str(next(iter(sorted(folder.glob("libopenvino_genai.so*"))))))
        self._parse = library.safetensors_file_init
        self._parse.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(File))
        self._parse.restype = ctypes.c_char_p

    def open(self, path: str) -> dict[str, Any]:
        data = Path(path).read_bytes()
        buffer = ctypes.create_string_buffer(data, len(data))
        file = File()
        problem = call(self._parse, ctypes.addressof(buffer), len(data), ctypes.byref(file))
        if problem is not None:
            raise Refused(problem.decode("utf-8", "replace"))
        tensors = [file.tensors[i] for i in range(file.num_tensors)]
        entries = [file.metadata[i] for i in range(file.num_metadata)]
        rows = [(t.name.decode(), *_kind(t)) for t in tensors]
        return {"tensors": rows, "metadata": {e.name.decode(): e.value.decode() for e in entries}}


def _kind(tensor: Tensor) -> tuple[str, Any]:
    """Return dtype and shape. Numbers that stand for nothing are told as they are."""
    known = 0 <= tensor.dtype < len(CODES)
    fits = 0 <= tensor.n_dimensions <= MAX_DIM
    return (
        CODES[tensor.dtype] if known else f"dtype {tensor.dtype}",
        tensor.shape[: tensor.n_dimensions] if fits else f"{tensor.n_dimensions} dimensions",
    )
