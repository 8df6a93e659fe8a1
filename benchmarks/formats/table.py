"""The ten formats, with their packages and their marks in the README of safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors_conformance.implementations.descriptor import Entry, Install, LocatedDescriptor
from safetensors_conformance.implementations.environment import Environment, environment

README = "https://github.com/huggingface/safetensors/blob/24b0b2857fef49be734b9ab72ce97c09bb25f5b9/README.md"
PROPERTIES = ("safe", "zero_copy", "lazy", "size", "layout", "flexible", "bits")
"""Properties in the order of the README's columns. Each mark in ``claims`` corresponds to one of them."""
_DTYPES = ("numpy==2.4.6", "ml_dtypes==0.5.4")


@dataclass(frozen=True)
class Format:
    """A format in the table.

    Attributes:
        title: as in the README's row.
        claims: marks in the row: + yes, - no, ~ in part, ? left open.
        library: package whose version is reported.
        version: version of that package.
        requires: additional packages.
        homepage: documentation of the library.
        large: whether the format runs only with ``--large``.
    """

    title: str
    claims: str
    library: str
    version: str
    requires: tuple[str, ...]
    homepage: str
    large: bool = False

    def environment(self) -> Environment:
        """Return the environment of the format, whether it is installed or not."""
        needed = (f"{self.library}=={self.version}", *self.requires)
        facts = LocatedDescriptor(
            name=f"format-{self.library}",
            title=self.title,
            kind="reader",
            language="Python",
            independent=True,
            homepage=self.homepage,
            issues=self.homepage,
            entries=(entry := Entry("adapter.py:Way", "benchmarks/formats"),),
            install=Install("pip", self.version, needed),
            folder=Path(__file__).parent,
            outside=False,
        )
        return environment(facts, entry)


FORMATS: Mapping[str, Format] = {
    "pickle": Format("pickle (PyTorch)", "---+-++", "torch", "2.13.0", _DTYPES, "https://pytorch.org"),
    "h5": Format("H5 (TensorFlow)", "+-++~~-", "h5py", "3.16.0", _DTYPES, "https://www.h5py.org"),
    "savedmodel": Format(
        "SavedModel (TensorFlow)", "+--++-+", "tensorflow-cpu", "2.21.0", (), "https://tensorflow.org", True
    ),
    "msgpack": Format("MsgPack (flax)", "++-+--+", "flax", "0.12.8", (), "https://flax.readthedocs.io"),
    "protobuf": Format("Protobuf (ONNX)", "+-----+", "onnx", "1.23.2", _DTYPES, "https://onnx.ai"),
    "capnp": Format(
        "Cap'n Proto", "++~++~-", "pycapnp", "2.2.4", _DTYPES, "https://capnproto.github.io/pycapnp/"
    ),
    "arrow": Format("Arrow", "??????-", "pyarrow", "26.0.1", _DTYPES, "https://arrow.apache.org"),
    "numpy": Format("NumPy (npy, npz)", "+??-+--", "numpy", "2.4.6", _DTYPES[1:], "https://numpy.org"),
    "pdparams": Format(
        "pdparams (Paddle)",
        "---+-++",
        "paddlepaddle",
        "3.3.1",
        (_DTYPES[1], "setuptools==80.9.0"),
        "https://www.paddlepaddle.org.cn",
        True,
    ),
    "safetensors": Format(
        "SafeTensors",
        "+++++-+",
        "safetensors",
        "0.8.0",
        ("torch==2.13.0", *_DTYPES, "packaging==25.0"),
        "https://github.com/huggingface/safetensors",
    ),
}
