"""Fakes of the libraries with an adapter: they return values chosen by a test, or raise errors.

``FOLDERS`` has one for every adapter in Python, as the names that the adapter imports. What a real library
hands out is imitated as far as the adapter looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from types import SimpleNamespace as Names
from typing import Any

import numpy as np

from safetensors_conformance.implementations.descriptor import descriptors


class OwnError(Exception):
    """The exception type of a library."""


class Library:
    """Behaviour of a library when it is called.

    Attributes:
        path: the file that is asked for.
        dtype: what it says of its one tensor ``w``: a code of the format, or something that is none.
        shape, data: the same.
        narrow: whether its functions take no arguments.
        nothing: whether it gives None for everything that is called.
        error: raised by everything of the library that is called.
    """

    def __init__(
        self,
        path: str,
        dtype: str = "F32",
        shape: Any = (2,),
        data: bytes = bytes(8),
        narrow: bool = False,
        nothing: bool = False,
    ) -> None:
        self.path, self.dtype, self.shape, self.data = path, dtype, shape, data
        self.narrow, self.nothing = narrow, nothing
        self.error: BaseException | None = None
        self.entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}
        self.header = {"w": self.entry, "__metadata__": {"a": "b"}}
        self.numpy_dtype = "float32" if dtype == "F32" else "float77"
        self.array, self.tensor = Array(self), Tensor(self)

    def give(self, value: Any) -> Any:
        if self.error is not None:
            raise self.error
        return None if self.nothing else value

    def function(self, value: Any = None) -> Callable[..., Any]:
        """A function of the library that gives ``value``, or what calling it gives."""

        def made() -> Any:
            return self.give(value() if callable(value) else value)

        return made if self.narrow else lambda *_, **__: made()

    def names(self, names: dict[str, Any]) -> dict[str, Any]:
        """Make the functions among names: ``f()`` gives its value, ``f(*)`` is called with its arguments."""
        found = {}
        for name, value in names.items():
            plain = name.removesuffix("()").removesuffix("(*)")
            own = name == plain or (name.endswith("(*)") and not self.narrow)
            found[plain] = value if own else self.function(None if name.endswith("(*)") else value)
        return found

    def thing(self, names: dict[str, Any]) -> Names:
        return Names(**self.names(names))

    def row(self, more: dict[str, Any] | None = None) -> Names:
        """A description of the tensor."""
        return self.thing({"name": "w", "dtype": self.dtype, "shape": self.shape, **(more or {})})

    def listed(self, more: dict[str, Any] | None = None) -> Names:
        return Names(tensors=[self.row(more)], metadata={"a": "b"})

    def parsed(self) -> Names:
        return Names(tensors={"w": self.row()}, metadata={"a": "b"})

    def pairs(self) -> Iterator[tuple[str, Any]]:
        return iter([("w", self.tensor)])

    def into_model(self, model: Any, *_: Any, **__: Any) -> None:
        model.load_state_dict(self.give({"w": self.tensor}))

    def manager(self, names: dict[str, Any] | None = None) -> Any:
        """A context manager of the library that is its own value."""
        members = {
            name: staticmethod(member) if callable(member) and not name.startswith("__") else member
            for name, member in self.names(names or {}).items()
        }
        members |= {"__enter__": lambda self: self, "__exit__": lambda *_: None}
        return type("Opened", (), members)()

    def opened(self, tensor: Any, more: dict[str, Any] | None = None) -> Any:
        """A file opened in the way of ``safe_open``."""
        view = type("View", (), {"__getitem__": lambda *_: self.give(tensor)})()
        vars(view).update(self.names({"get_dtype()": self.dtype, "get_shape()": self.shape}))
        view.info = self.entry
        names = {"keys()": ["w"], "get_slice()": view, "get_tensor()": tensor, "metadata()": {"a": "b"}}
        return self.manager({**names, "close()": None, **(more or {})})

    def prefetched(self, *_: Any, **__: Any) -> Any:
        return self.give(self.manager({"__iter__": lambda _: self.pairs()}))

    def safe_open(self, _path: Any, framework: str, **_: Any) -> Any:
        tensor = {"np": self.array, "pt": self.tensor, "raw": self.data}[framework]
        more = {"header": self.parsed(), "info()": self.row(), "prefetch": self.prefetched}
        return self.give(self.opened(tensor, more))


class Array:
    """The part of a NumPy array that adapters use."""

    def __init__(self, library: Library) -> None:
        self.dtype: Any = Names(name=library.numpy_dtype)
        self.shape, self.size, self._library = library.shape, 2, library

    def tobytes(self) -> bytes:
        return self._library.data

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.frombuffer(self.tobytes(), np.uint8)


class Tensor(Array):
    """The part of a tensor of other frameworks that adapters use; its dtype is a text."""

    def __init__(self, library: Library) -> None:
        super().__init__(library)
        self.dtype = library.numpy_dtype

    def numel(self) -> int:
        return len(self.tobytes())

    def same(self, *_: Any) -> Tensor:
        return self

    contiguous = view = same

    def numpy(self) -> Array:
        return Array(self._library)

    def reshape(self, *_: Any) -> Any:
        return Names(view=lambda _: self.tobytes())


class Made:
    """A tensor that an adapter makes to be saved, or to be filled."""

    def __init__(self, **more: Any) -> None:
        vars(self).update(more)

    def same(self, *_: Any) -> Made:
        return self

    reshape = view = to_dtype = set_ = untyped_storage = same

    def element_size(self) -> int:
        return 4


def make(*_: Any, **__: Any) -> Made:
    return Made()


FRAMEWORKS: dict[str, Any] = {
    "torch.__version__": "1.0",
    "torch.float32": "float32",
    "torch.uint8": "uint8",
    "torch.zeros": lambda _: np.zeros(1),
    "torch.nn": Names(Parameter=lambda tensor: tensor),
    "torch.empty": make,
    "torch.frombuffer": make,
    "mlx.core.set_default_device": lambda _: None,
    "mlx.core.cpu": None,
    "mlx.core.array": make,
    "mlx.core.eval()": None,
    **{f"mlx.core.{name}": name for name in ("bool_", "uint8", "float32")},
    "jax.config": Names(update=lambda *_: None),
    "jax.numpy": Names(asarray=make),
}
"""Names that adapters of every library find."""


def a_class(**members: Any) -> type:
    return type("OfTheLibrary", (), members)


def paddleformers(lib: Library) -> dict[str, Any]:
    return {
        "dummy_paddleformers.numpy_dtype": {"F32": np.float32},
        "dummy_paddleformers.fast_safe_open()": lib.opened(lib.array),
        "dummy_paddleformers.fast_load_file()": {"w": lib.array},
    }


def cut_out(lib: Library) -> dict[str, Any]:
    """The module that vLLM and SGLang have in common."""
    iterators = ("", "multi_thread_", "buffered_multi_thread_")
    return {
        "dummy_paddleformers.should_skip_weight()": False,
        "dummy_paddleformers.filter_duplicate_safetensors_files()": ["one"],
        **{f"dummy_paddleformers.{kind}safetensors_weights_iterator()": lib.pairs for kind in iterators},
    }


def numpy_file(lib: Library, *saved: str) -> dict[str, Any]:
    return {"safetensors.numpy.load_file()": {"w": None}, **dict.fromkeys(saved)}


def pure_safetensors(lib: Library) -> dict[str, Any]:
    dtype = Names(name=lib.dtype)
    found = (lib.data, dtype, lib.shape)
    buffers = a_class(__getitem__=lambda *_: lib.give(found), items=lambda _: iter([("w", found)]))()
    rows = {"w": lib.row({"dtype": dtype})}
    more = {"tensors": rows, "metadata": {"a": "b"}, "as_buffer()": buffers}
    return {
        "pure_safetensors.SafeTensors()": lib.opened(None, more),
        "pure_safetensors.safetensors.dtypes": {"F32": None},
    }


def safetensors(lib: Library, package: str = "safetensors") -> dict[str, Any]:
    found = {
        "SafetensorError": OwnError,
        "deserialize()": [("w", {**lib.entry, "data": lib.data})],
        "serialize_file()": None,
        "TensorSpec()": Names(),
        "safe_open(*)": lib.safe_open,
        **{f"numpy.{name}()": {"w": lib.array} for name in ("load", "load_file")},
        "numpy.save()": b"",
        "numpy.save_file()": None,
        **{f"torch.{name}()": {"w": lib.tensor} for name in ("load", "load_file")},
        "torch.save_file()": None,
    }
    return {f"{package}.{name}": value for name, value in found.items()}


def safetensors_frameworks(lib: Library) -> dict[str, Any]:
    """Arrays of JAX are like those of NumPy; those of the others say their dtype in their own way."""
    found = {"SafetensorError": OwnError, "flax.load_file()": {"w": lib.array}, "flax.save_file()": None}
    for name in ("mlx", "paddle", "tensorflow"):
        found |= {f"{name}.load_file()": {"w": lib.tensor}, f"{name}.save_file()": None}
    return {
        **{f"safetensors.{name}": value for name, value in found.items()},
        "paddle.float32": "float32",
        "paddle.to_tensor": make,
        "tensorflow.convert_to_tensor": make,
    }


def tinygrad(lib: Library) -> dict[str, Any]:
    data = {"data()": memoryview(lib.data)}
    flat = lib.thing(data)
    flat.bitcast = lib.function(flat)
    return {
        "tinygrad.Tensor": make,
        "tinygrad.dtypes": Names(uint8="uint8"),
        "tinygrad.nn.state.safe_dtypes": {"F32": "F32"},
        "tinygrad.nn.state.inverse_safe_dtypes": {"F32": "F32"},
        "tinygrad.nn.state.safe_load()": {"w": lib.row({**data, "flatten()": flat})},
        "tinygrad.nn.state.safe_load_metadata()": (None, 8, lib.header),
        "tinygrad.nn.state.safe_save()": None,
    }


def torch_dcp(lib: Library) -> dict[str, Any]:
    listed = Names(size=lib.shape, properties=Names(dtype=lib.tensor.dtype))
    metadata = Names(state_dict_metadata={"w": listed})
    checkpoint = {
        "HuggingFaceStorageReader()": lib.manager({"read_metadata()": metadata}),
        "HuggingFaceStorageWriter()": Names(),
        "load()": None,
        "save()": None,
    }
    named = {f"torch.distributed.checkpoint.{name}": value for name, value in checkpoint.items()}
    made = Made(reshape=lib.function(lib.tensor))
    return {"torch.empty": lib.function(made), **named}


FOLDERS: dict[str, Callable[[Library], dict[str, Any]]] = {
    "accelerate": lambda lib: {
        "torch.Tensor": a_class(),
        "torch.device": lambda _: None,
        "torch.nn": Names(Module=a_class()),
        "accelerate.load_checkpoint_in_model(*)": lib.into_model,
        "accelerate.utils.load_state_dict()": {"w": lib.tensor},
    },
    "adaptersentry": lambda lib: {
        "adaptersentry.parsers.adapter_file.open_adapter()": Names(not_analyzed=[Names(category="other")]),
        "adaptersentry.parsers.safetensors.ALLOWED_DTYPES": {"F32": 4},
        "adaptersentry.schemas.errors.ErrorCategory": Names(MALFORMED="malformed"),
    },
    "candle": lambda lib: {
        "candle.Tensor": make,
        "candle.utils.load_safetensors()": {"w": lib.row()},
        "candle.utils.save_safetensors()": None,
    },
    "cryptotensors": lambda lib: safetensors(lib, "cryptotensors"),
    "diffusers": lambda lib: {
        "diffusers.ConfigMixin": a_class(),
        "diffusers.ModelMixin": a_class(),
        "diffusers.configuration_utils.register_to_config": lambda function: function,
        "diffusers.models.model_loading_utils.load_state_dict()": {"w": lib.tensor},
        "diffusers.utils.hub_utils._get_checkpoint_shard_files()": (["one"], None),
    },
    "fastsafetensors": lambda lib: {
        "fastsafetensors.SafeTensorsFileLoader()": lib.thing(
            {"add_filenames()": None, "get_keys()": ["w"], "get_shape()": lib.shape, "close()": None}
            | {"copy_files_to_device()": lib.thing({"get_tensor()": lib.tensor, "close()": None})}
        ),
        "fastsafetensors.SingleGroup()": Names(),
        "fastsafetensors.fastsafe_open()": lib.opened(lib.tensor, {"metadata()": {lib.path: {"a": "b"}}}),
        "fastsafetensors.st_types.DType": [Names(value="F32")],
    },
    "georefine_verify": lambda lib: {
        "georefine_verify.sources.LocalFile()": Names(close=lambda: None),
        "georefine_verify.sources.read_safetensors_header()": ({"w": lib.row()}, {"a": "b"}, 8),
    },
    "gguf": lambda lib: {
        "gguf.utility.SafetensorsLocal()": Names(
            tensors={"w": lib.row({"mmap_bytes()": np.frombuffer(lib.data, np.uint8)})}
        )
    },
    "grit_datatype": lambda lib: {
        "grit.scan.SEV_VIOLATION": 1,
        "grit.scan.ScanReport()": Names(findings=[], unparseable=[], tensors=[lib.row()]),
        "grit.scan.scan_file()": True,
    },
    "hayward": lambda lib: {"hayward.ModelFileScanner": lambda: lib.thing({"scan_file()": []})},
    "huggingface_hub": lambda lib: {
        "huggingface_hub.parse_local_safetensors_file_metadata()": lib.parsed(),
        "huggingface_hub.load_state_dict_from_file()": {"w": lib.tensor},
        "huggingface_hub.load_torch_model(*)": lib.into_model,
        "huggingface_hub.save_torch_state_dict()": None,
        "huggingface_hub.HfApi": lambda **_: lib.thing({"parse_safetensors_file_metadata()": lib.parsed()}),
        "huggingface_hub.set_client_factory": lambda _: None,
        "huggingface_hub.errors.SafetensorsParsingError": OwnError,
        "huggingface_hub.errors.NotASafetensorsRepoError": OwnError,
        "huggingface_hub.utils._http.default_client_factory": None,
        "httpx2.": None,
    },
    "instanttensor": lambda lib: {
        "instanttensor.safe_open()": lib.manager({"tensors()": lib.pairs}),
    },
    "mindspore": lambda lib: {"mindspore.load_checkpoint()": {"w": lib.thing({"asnumpy()": lib.array})}},
    "mlx": lambda lib: {
        "mlx.core.load(*)": lambda *_, return_metadata=False, **__: lib.give(
            ({"w": lib.tensor}, {"a": "b"}) if return_metadata else {"w": lib.tensor}
        ),
        "mlx.core.save_safetensors()": None,
    },
    "model_fingerprint": lambda lib: {
        "model_fingerprint.FileReader()": lib.manager(),
        "model_fingerprint.main()": 0,
        "model_fingerprint.parse_safetensors()": lib.listed({"dims": lib.shape}),
    },
    "modelaudit": lambda lib: {
        "modelaudit.IssueSeverity": Names(DEBUG=0, INFO=1),
        "modelaudit.scan_file()": Names(success=True, issues=[]),
    },
    "modelinfo_cli": lambda lib: {
        "modelinfo.cli.main()": 0,
        "modelinfo.parsers.safetensors.parse_safetensors_header()": lib.header
        | {"__metadata__": {"missing_shards": 0}},
    },
    "modelvet": lambda lib: {
        "modelvet.verify_path()": Names(accepted=True),
        "modelvet.ModelvetError": OwnError,
    },
    "numpy": lambda lib: numpy_file(lib, "numpy.savez()"),
    "onnx": lambda lib: {
        **numpy_file(lib, "onnx.save_model()"),
        "onnx.helper": Names(make_graph=make, make_model=make),
        "onnx.numpy_helper": Names(from_array=make),
    },
    "onnx_safetensors": lambda lib: {
        "onnx_safetensors.save_file()": None,
        "onnx_safetensors._safetensors_io._read_safetensors()": {"w": lib.row({"tobytes()": lib.data})},
        "onnx_safetensors._safetensors_io._SAFETENSORS_DTYPE_TO_IR_DTYPE": {"F32": "F32"},
        **{f"onnx_ir.{name}": make for name in ("Value", "Graph", "Model", "Tensor")},
    },
    "openvino_genai": lambda lib: {"openvino_genai.Adapter()": Names()},
    "orbax": lambda lib: {
        "orbax.checkpoint.experimental.v1.options": Names(CheckpointLayout=Names(SAFETENSORS=1)),
        "orbax.checkpoint.experimental.v1.Context()": lib.manager(),
        "orbax.checkpoint.experimental.v1.load()": {
            "w": np.zeros(2, np.float32 if lib.dtype == "F32" else np.longdouble)
        },
    },
    "paddleformers": paddleformers,
    "paddlenlp": paddleformers,
    "pure_safetensors": pure_safetensors,
    "quantbenchx": lambda lib: {
        "quantbenchx.profile_safetensors()": lib.listed({"dtype": Names(value=lib.dtype.lower())})
    },
    "reference": lambda lib: {
        "stc_adapter.read_header()": lib.parsed(),
        "stc_adapter.safe_open(*)": lib.safe_open,
        "stc_adapter.open_index()": Names(tensors={"w": ("shard", lib.row())}),
        "stc_adapter.load_file()": {},
        "stc_adapter.save_file()": None,
        "stc_adapter.save_sharded()": None,
    },
    "reference/adapter.py:OverFsspec": lambda lib: {
        "stc_adapter.safe_open(*)": lib.safe_open,
        "fsspec.open": lambda *_, **__: lib.manager(),
        "aiohttp.": None,
    },
    "reminis": lambda lib: {
        "reminis.safetensors_to_sqlite()": "model.db",
        "reminis.safetensors_io.SAFETENSORS_DTYPES": {"F32": 4},
        "reminis.safetensors_io.load_tensors()": {"w": (lib.dtype, lib.shape, lib.data)},
    },
    "runai_model_streamer": lambda lib: {
        "runai_model_streamer.SafetensorsStreamer()": lib.manager(
            {"stream_file()": None, "get_tensors()": lib.pairs}
        ),
    },
    "safetensors": safetensors,
    **{
        f"safetensors/adapter_frameworks.py:{name}": safetensors_frameworks
        for name in ("Flax", "Mlx", "Paddle", "TensorFlow")
    },
    "safetensors_arch": lambda lib: {"safetensors_arch.read_header()": lib.header},
    "safetensors_print": lambda lib: {"safetensors_print.cli.main()": 0},
    "safetensors_streaming": lambda lib: {
        "safetensors_streaming.load_file()": {"w": lib.tensor},
        "safetensors_streaming.safe_open()": lib.opened(lib.tensor),
    },
    "sft_cli": lambda lib: {
        "sft.cli.app()": 0,
        "sft.index.TensorIndex": lib.thing({"from_file()": lib.listed({"full_name": "w"})}),
    },
    "sglang": cut_out,
    "tinygrad": tinygrad,
    "torch_dcp": torch_dcp,
    "transformers": lambda lib: {
        "transformers.PretrainedConfig": a_class(),
        "transformers.PreTrainedModel": a_class(
            __init__=lambda *_: None, post_init=lambda _: None, save_pretrained=staticmethod(lib.function())
        ),
        "transformers.modeling_utils.load_state_dict()": {"w": lib.tensor},
        "transformers.utils.hub.get_checkpoint_shard_files()": (["one"], None),
    },
    "unifiedefficientloader": lambda lib: {
        "unifiedefficientloader.UnifiedSafetensorsLoader()": lib.opened(
            lib.tensor, {"get_dtype()": lib.tensor.dtype, "get_shape()": lib.shape}
        ),
    },
    "vllm": cut_out,
    "zarr": lambda lib: numpy_file(lib, "zarr.save_group()"),
}
"""Folder of adapters, or one adapter -> the names of its library."""
ADAPTERS = {e.adapter: e for known in descriptors().values() for e in known.entries if ".py:" in e.adapter}
"""The adapters in Python."""


def modules(adapter: str, library: Library) -> dict[str, ModuleType]:
    """Make the modules of a library, each of which counts as a package of whatever is below it."""
    made: dict[str, ModuleType] = {}
    names = (FOLDERS.get(adapter) or FOLDERS[adapter.partition("/")[0]])(library)
    for full, value in library.names(FRAMEWORKS | names).items():
        module, _, name = full.rpartition(".")
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            made.setdefault(package := ".".join(parts[:end]), ModuleType(package)).__path__ = []
        vars(made[module])[name] = value
    for full, module_of in made.items():
        parent, _, last = full.rpartition(".")
        if parent and not hasattr(made[parent], last):
            setattr(made[parent], last, module_of)
    return made
