"""Fakes of the libraries with an adapter: they return values chosen by a test, or raise errors.

Each function gives the modules of one library, by the names that its adapter imports. What a real library
hands out is imitated as far as the adapter looks at it. ``DUMMIES`` has one for every adapter in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from safetensors_conformance.implementations.descriptor import descriptors


class OwnError(Exception):
    """The exception type of a library."""


class Library:
    """Behaviour of a library when it is called.

    Attributes:
        dtype: what it says of its one tensor ``w``: a code of the format, or something that is none.
        shape, data: the same.
        error: raised by everything of the library that is called.
        nothing: whether it gives None for everything that is called.
        narrow: whether its functions take no arguments.
        path: the file that is asked for.
        after: what stands for names in the adapter's module, where these come from real modules.
    """

    def __init__(self, path: str, **more: Any) -> None:
        self.path = path
        self.dtype: str = more.pop("dtype", "F32")
        self.shape: Any = more.pop("shape", (2,))
        self.data: bytes = more.pop("data", bytes(8))
        self.narrow: bool = more.pop("narrow", False)
        self.nothing: bool = more.pop("nothing", False)
        self.error: BaseException | None = None
        self.after: dict[str, Any] = {}
        assert not more

    def give(self, value: Any) -> Any:
        if self.error is not None:
            raise self.error
        return None if self.nothing else value

    def function(self, value: Any = None) -> Callable[..., Any]:
        """A function of the library that gives ``value``, or what calling it gives."""

        def made() -> Any:
            return self.give(value() if callable(value) else value)

        return made if self.narrow else lambda *_, **__: made()

    @property
    def entry(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "shape": self.shape, "data_offsets": [0, len(self.data)]}

    @property
    def header(self) -> dict[str, Any]:
        return {"w": self.entry, "__metadata__": {"a": "b"}}

    @property
    def info(self) -> SimpleNamespace:
        return SimpleNamespace(dtype=self.dtype, shape=self.shape)

    @property
    def array(self) -> Array:
        return Array(self)

    @property
    def tensor(self) -> Tensor:
        return Tensor(self)

    def manager(self, **members: Any) -> Any:
        """A context manager of the library that is its own value."""
        members = {
            name: staticmethod(member) if callable(member) and not name.startswith("__") else member
            for name, member in members.items()
        }
        members |= {"__enter__": lambda self: self, "__exit__": lambda *_: None}
        return type("Opened", (), members)()

    def opened(self, tensor: Any, **more: Any) -> Any:
        """A file opened in the way of ``safe_open``."""
        view = type("View", (), {"__getitem__": lambda *_: self.give(tensor())})()
        view.get_dtype = self.function(lambda: self.dtype)
        view.get_shape = self.function(lambda: self.shape)
        view.info = self.entry
        members = {
            "keys": self.function(["w"]),
            "get_slice": self.function(view),
            "get_tensor": self.function(tensor),
            "metadata": self.function({"a": "b"}),
            "close": self.function(),
            **more,
        }
        return self.manager(**members)


NUMPY_NAMES = {"F32": "float32"}


class Array:
    """The part of a NumPy array that adapters use."""

    def __init__(self, library: Library) -> None:
        self.dtype = SimpleNamespace(name=NUMPY_NAMES.get(library.dtype, "float77"))
        self.shape = library.shape
        self._data = library.data

    def tobytes(self) -> bytes:
        return self._data

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.frombuffer(self._data, np.uint8)


class Tensor:
    """The part of a torch tensor that ``torch_rows`` uses."""

    def __init__(self, library: Library) -> None:
        self.dtype = NUMPY_NAMES.get(library.dtype, "torch.float77")
        self.shape = library.shape
        self._data = library.data

    def same(self, *_: Any) -> Tensor:
        return self

    contiguous = view = numpy = same

    def numel(self) -> int:
        return len(self._data)

    def tobytes(self) -> bytes:
        return self._data


Modules = dict[str, dict[str, Any]]

MADE: Any = SimpleNamespace(element_size=lambda: 4, set_=lambda *_: MADE, untyped_storage=lambda: MADE)
"""A tensor of torch that an adapter makes to be saved."""

TORCH: Modules = {
    "torch": {
        "float32": "float32",
        "uint8": "uint8",
        "__version__": "1.0",
        "zeros": lambda _: np.zeros(1),
        "nn": SimpleNamespace(Parameter=lambda tensor: tensor),
        "empty": lambda *_, **__: MADE,
        "frombuffer": lambda *_, **__: MADE,
    }
}


def accelerate(lib: Library) -> Modules:
    def load_checkpoint_in_model(model: Any, *_: Any, **__: Any) -> None:
        model.load_state_dict(lib.give({"w": lib.tensor}))

    index = lib.function() if lib.narrow else load_checkpoint_in_model
    tensor = {"Tensor": type("Tensor", (), {}), "device": lambda _: None}
    return {
        "torch": {**TORCH["torch"], **tensor, "nn": SimpleNamespace(Module=type("Module", (), {}))},
        "accelerate": {"load_checkpoint_in_model": index},
        "accelerate.utils": {"load_state_dict": lib.function(lambda: {"w": lib.tensor})},
    }


def adaptersentry(lib: Library) -> Modules:
    taken: Any = SimpleNamespace(not_analyzed=[SimpleNamespace(category="unsupported")])
    return {
        "adaptersentry.parsers.adapter_file": {"open_adapter": lib.function(taken)},
        "adaptersentry.parsers.safetensors": {"ALLOWED_DTYPES": {"F32": 4}},
        "adaptersentry.schemas.errors": {"ErrorCategory": SimpleNamespace(MALFORMED="malformed")},
    }


def candle(lib: Library) -> Modules:
    tensor = SimpleNamespace(dtype=lib.dtype, shape=lib.shape)
    made: Any = SimpleNamespace(to_dtype=lambda _: made, reshape=lambda _: made)
    utils = {"load_safetensors": lib.function({"w": tensor}), "save_safetensors": lib.function()}
    return {"candle": {"Tensor": lambda _: made}, "candle.utils": utils}


def cryptotensors(lib: Library) -> Modules:
    names = {
        "SafetensorError": OwnError,
        "deserialize": lib.function([("w", {**lib.entry, "data": lib.data})]),
        "serialize_file": lib.function(),
        "safe_open": lib.function(lambda: lib.opened(lambda: lib.array)),
    }
    arrays = {"load_file": lib.function({}), "save_file": lib.function()}
    return {"cryptotensors": names, "cryptotensors.numpy": arrays}


def cut_out(lib: Library) -> Modules:
    """The module that vLLM and SGLang have in common."""
    weights = lib.function(lambda: iter([("w", lib.tensor)]))
    names = {
        "should_skip_weight": lib.function(False),
        "filter_duplicate_safetensors_files": lib.function(["one"]),
        "safetensors_weights_iterator": weights,
        "multi_thread_safetensors_weights_iterator": weights,
        "buffered_multi_thread_safetensors_weights_iterator": weights,
    }
    return {**TORCH, "dummy_paddleformers": names}


def diffusers(lib: Library) -> Modules:
    mixins = {name: type(name, (), {}) for name in ("ConfigMixin", "ModelMixin")}
    return {
        **TORCH,
        "diffusers": mixins,
        "diffusers.configuration_utils": {"register_to_config": lambda function: function},
        "diffusers.models.model_loading_utils": {"load_state_dict": lib.function(lambda: {"w": lib.tensor})},
        "diffusers.utils.hub_utils": {"_get_checkpoint_shard_files": lib.function((["one"], None))},
    }


def fastsafetensors(lib: Library) -> Modules:
    buffer = SimpleNamespace(get_tensor=lib.function(lambda: lib.tensor), close=lib.function())
    loader = SimpleNamespace(
        add_filenames=lib.function(),
        get_keys=lib.function(["w"]),
        get_shape=lib.function(lambda: lib.shape),
        copy_files_to_device=lib.function(buffer),
        close=lib.function(),
    )
    names = {
        "SafeTensorsFileLoader": lib.function(loader),
        "SingleGroup": lib.function(SimpleNamespace()),
        "fastsafe_open": lib.function(
            lambda: lib.opened(lambda: lib.tensor, metadata=lib.function({lib.path: {"a": "b"}}))
        ),
    }
    return {
        **TORCH,
        "fastsafetensors": names,
        "fastsafetensors.st_types": {"DType": [SimpleNamespace(value="F32")]},
    }


def georefine_verify(lib: Library) -> Modules:
    names = {
        "LocalFile": lib.function(SimpleNamespace(close=lambda: None)),
        "read_safetensors_header": lib.function(lambda: ({"w": lib.info}, {"a": "b"}, 8)),
    }
    return {"georefine_verify.sources": names}


def gguf(lib: Library) -> Modules:
    tensor = lib.info
    tensor.mmap_bytes = lib.function(np.frombuffer(lib.data, np.uint8))
    names = {"SafetensorsLocal": lib.function(SimpleNamespace(tensors={"w": tensor}))}
    return {"gguf.utility": names}


def grit_datatype(lib: Library) -> Modules:
    row = lib.info
    row.name = "w"
    report = SimpleNamespace(findings=[], unparseable=[], tensors=[row])
    names = {"SEV_VIOLATION": 1, "ScanReport": lib.function(report), "scan_file": lib.function(True)}
    return {"grit.scan": names}


def hayward(lib: Library) -> Modules:
    scanner = SimpleNamespace(scan_file=lib.function([]))
    return {"hayward": {"ModelFileScanner": lambda: scanner}}


def huggingface_hub(lib: Library) -> Modules:
    parsed = SimpleNamespace(tensors={"w": lib.info}, metadata={"a": "b"})
    api = SimpleNamespace(parse_safetensors_file_metadata=lib.function(parsed))

    def load_torch_model(model: Any, *_: Any, **__: Any) -> None:
        model.load_state_dict(lib.give({"w": lib.tensor}))

    names = {
        "parse_local_safetensors_file_metadata": lib.function(parsed),
        "load_state_dict_from_file": lib.function(lambda: {"w": lib.tensor}),
        "load_torch_model": lib.function() if lib.narrow else load_torch_model,
        "save_torch_state_dict": lib.function(),
        "HfApi": lambda **_: api,
        "set_client_factory": lambda _: None,
    }
    errors = {"SafetensorsParsingError": OwnError, "NotASafetensorsRepoError": OwnError}
    http = {"huggingface_hub.utils._http": {"default_client_factory": None}, "httpx2": {}}
    return {**TORCH, "huggingface_hub": names, "huggingface_hub.errors": errors, **http}


def instanttensor(lib: Library) -> Modules:
    tensors = lib.function(lambda: iter([("w", lib.tensor)]))
    return {
        **TORCH,
        "instanttensor": {"safe_open": lib.function(lambda: lib.manager(tensors=tensors))},
    }


def mindspore(lib: Library) -> Modules:
    parameter = SimpleNamespace(asnumpy=lib.function(lambda: lib.array))
    return {"mindspore": {"load_checkpoint": lib.function({"w": parameter})}}


def mlx(lib: Library) -> Modules:
    class Lazy(Array):
        size = 2

        def __init__(self) -> None:
            super().__init__(lib)
            self.dtype: Any = self.dtype.name

        def reshape(self, *_: Any) -> Any:
            return SimpleNamespace(view=lambda _: lib.data)

    def load(*_: Any, return_metadata: bool = False, **__: Any) -> Any:
        arrays = {"w": Lazy()}
        return lib.give((arrays, {"a": "b"}) if return_metadata else arrays)

    made: Any = SimpleNamespace(view=lambda _: made, reshape=lambda _: made)
    words = "bool_ uint8 int8 uint16 int16 float16 bfloat16 uint32 int32 uint64 int64 float64 complex64"
    types = {word: word for word in [*words.split(), "float32"]}
    names = {
        "load": lib.function() if lib.narrow else load,
        "eval": lib.function(),
        "save_safetensors": lib.function(),
        "array": lambda _: made,
        "set_default_device": lambda _: None,
        "cpu": None,
    }
    return {"mlx.core": types | names}


def model_fingerprint(lib: Library) -> Modules:
    row = SimpleNamespace(name="w", dtype=lib.dtype, dims=lib.shape)
    names = {
        "FileReader": lib.function(lib.manager),
        "main": lib.function(0),
        "parse_safetensors": lib.function(SimpleNamespace(tensors=[row], metadata={"a": "b"})),
    }
    return {"model_fingerprint": names}


def modelaudit(lib: Library) -> Modules:
    result = SimpleNamespace(success=True, issues=[])
    names = {"IssueSeverity": SimpleNamespace(DEBUG=0, INFO=1), "scan_file": lib.function(result)}
    return {"modelaudit": names}


def modelinfo_cli(lib: Library) -> Modules:
    header = {"w": lib.entry, "__metadata__": {"missing_shards": 0}}
    return {
        "modelinfo.cli": {"main": lib.function(0)},
        "modelinfo.parsers.safetensors": {"parse_safetensors_header": lib.function(header)},
    }


def modelvet(lib: Library) -> Modules:
    report = SimpleNamespace(accepted=True)
    return {"modelvet": {"verify_path": lib.function(report), "ModelvetError": OwnError}}


def onnx_safetensors(lib: Library) -> Modules:
    row = SimpleNamespace(dtype=lib.dtype, shape=lib.shape, tobytes=lib.function(lib.data))
    tensors = {
        "_read_safetensors": lib.function({"w": row}),
        "_SAFETENSORS_DTYPE_TO_IR_DTYPE": {"F32": "F32"},
    }
    made = {name: lambda *_, **__: SimpleNamespace() for name in ("Value", "Graph", "Model", "Tensor")}
    names = {"save_file": lib.function(), "_safetensors_io": SimpleNamespace(**tensors)}
    return {"onnx_ir": made, "onnx_safetensors": names}


def openvino_genai(lib: Library) -> Modules:
    return {"openvino_genai": {"Adapter": lib.function(object())}}


def onnx(lib: Library) -> Modules:
    make = lambda *_: None  # noqa: E731
    helpers = {"helper": SimpleNamespace(make_graph=make, make_model=make)}
    helpers["numpy_helper"] = SimpleNamespace(from_array=make)
    return {"onnx": {"save_model": lib.function(), **helpers}, **_loaded(lib)}


def numpy(lib: Library) -> Modules:
    return {"numpy": {"savez": lib.function()}, **_loaded(lib)}


def zarr(lib: Library) -> Modules:
    return {"zarr": {"save_group": lib.function()}, **_loaded(lib)}


def _loaded(lib: Library) -> Modules:
    return {"safetensors.numpy": {"load_file": lib.function({"w": None})}}


def orbax(lib: Library) -> Modules:
    names = {
        "options": SimpleNamespace(CheckpointLayout=SimpleNamespace(SAFETENSORS=1)),
        "Context": lib.function(lib.manager),
        "load": lib.function({"w": np.zeros(2, np.float32 if lib.dtype == "F32" else np.longdouble)}),
    }
    return {
        "jax": {"config": SimpleNamespace(update=lambda *_: None)},
        "orbax.checkpoint.experimental.v1": names,
    }


def paddleformers(lib: Library) -> Modules:
    names = {
        "numpy_dtype": {"F32": np.float32},
        "fast_safe_open": lib.function(lambda: lib.opened(lambda: lib.array)),
        "fast_load_file": lib.function(lambda: {"w": lib.array}),
    }
    return {"dummy_paddleformers": names}


def pure_safetensors(lib: Library) -> Modules:
    row = SimpleNamespace(dtype=SimpleNamespace(name=lib.dtype), shape=lib.shape)
    found = (lib.data, row.dtype, row.shape)
    buffers = type("Buffers", (), {"__getitem__": lambda *_: lib.give(found)})()
    buffers.items = lambda: iter([("w", found)])

    def opened() -> Any:
        more = {"tensors": {"w": row}, "metadata": {"a": "b"}, "as_buffer": lib.function(buffers)}
        return lib.opened(lambda: None, **more)

    return {
        "pure_safetensors": {"SafeTensors": lib.function(opened)},
        "pure_safetensors.safetensors": {"dtypes": {"F32": None}},
    }


def quantbenchx(lib: Library) -> Modules:
    row = SimpleNamespace(name="w", dtype=SimpleNamespace(value=lib.dtype.lower()), shape=lib.shape)
    profile = SimpleNamespace(tensors=[row], metadata={"a": "b"})
    return {"quantbenchx": {"profile_safetensors": lib.function(profile)}}


def reference(lib: Library) -> Modules:
    row = lib.info
    row.name = "w"
    header = SimpleNamespace(tensors={"w": row}, metadata={"a": "b"})

    def opened(_path: Any, kind: str, **_: Any) -> Any:
        tensor = (lambda: lib.array) if kind == "np" else (lambda: lib.data)
        return lib.give(lib.opened(tensor, header=header, info=lib.function(row)))

    index = SimpleNamespace(tensors={"w": ("shard", row)})
    lib.after = {
        "read_header": lib.function(header),
        "safe_open": lib.function() if lib.narrow else opened,
        "open_index": lib.function(index),
        "load_file": lib.function({}),
        "save_file": lib.function(),
        "save_sharded": lib.function(),
    }
    return {}


def reference_fsspec(lib: Library) -> Modules:
    reference(lib)
    lib.after = {"safe_open": lib.after["safe_open"]}
    return {"fsspec": {"open": lambda *_, **__: lib.manager()}, "aiohttp": {}}


def reminis(lib: Library) -> Modules:
    rows = {"w": (lib.dtype, lib.shape, lib.data)}
    return {
        "reminis": {"safetensors_to_sqlite": lib.function("model.db")},
        "reminis.safetensors_io": {"SAFETENSORS_DTYPES": {"F32": 4}, "load_tensors": lib.function(rows)},
    }


def runai_model_streamer(lib: Library) -> Modules:
    def streamer() -> Any:
        tensors = lib.function(lambda: iter([("w", lib.tensor)]))
        return lib.manager(stream_file=lib.function(), get_tensors=tensors)

    return {**TORCH, "runai_model_streamer": {"SafetensorsStreamer": lib.function(streamer)}}


def safetensors(lib: Library) -> Modules:
    def prefetch(*_: Any, **__: Any) -> Any:
        return lib.give(lib.manager(__iter__=lambda _: iter([("w", lib.tensor)])))

    def opened(*_: Any, framework: str, **__: Any) -> Any:
        tensor = (lambda: lib.tensor) if framework == "pt" else (lambda: lib.array)
        return lib.give(lib.opened(tensor, prefetch=prefetch))

    names = {
        "SafetensorError": OwnError,
        "deserialize": lib.function([("w", {**lib.entry, "data": lib.data})]),
        "serialize_file": lib.function(),
        "TensorSpec": lib.function(SimpleNamespace()),
        "safe_open": lib.function() if lib.narrow else opened,
    }
    arrays = {
        **{name: lib.function(lambda: {"w": lib.array}) for name in ("load", "load_file")},
        "save": lib.function(b""),
        "save_file": lib.function(),
    }
    tensors = {
        "load": lib.function(lambda: {"w": lib.tensor}),
        "load_file": lib.function(lambda: {"w": lib.tensor}),
        "save_file": lib.function(),
    }
    return {**TORCH, "safetensors": names, "safetensors.numpy": arrays, "safetensors.torch": tensors}


def safetensors_frameworks(lib: Library) -> Modules:
    """Arrays of JAX are like those of NumPy; those of the others say their dtype in their own way."""

    class Theirs:
        dtype = NUMPY_NAMES.get(lib.dtype, "float77")
        shape = lib.shape
        size = len(lib.data)

        def view(self, *_: Any) -> Any:
            return self

        def numpy(self) -> Any:
            return lib.array

        def reshape(self, *_: Any) -> Any:
            return SimpleNamespace(view=lambda _: lib.data)

    def modules(name: str, array: Callable[[], Any]) -> Modules:
        names = {"load_file": lib.function(lambda: {"w": array()}), "save_file": lib.function()}
        return {f"safetensors.{name}": names}

    made: Any = SimpleNamespace(view=lambda _: made, reshape=lambda _: made)
    jax = {
        "config": SimpleNamespace(update=lambda *_: None),
        "numpy": SimpleNamespace(asarray=lambda _: made),
    }
    types = {"float32": "float32", "bool_": "bool", "uint8": "uint8", "cpu": None}
    calls = {"eval": lib.function(), "set_default_device": lambda _: None, "array": lambda _: made}
    return {
        "safetensors": {"SafetensorError": OwnError},
        **modules("flax", lambda: lib.array),
        **modules("mlx", Theirs),
        **modules("paddle", Theirs),
        **modules("tensorflow", Theirs),
        "jax": jax,
        "mlx.core": {**types, **calls},
        "paddle": {"float32": "float32", "to_tensor": lambda _: made},
        "tensorflow": {"convert_to_tensor": lambda _: made},
    }


def safetensors_arch(lib: Library) -> Modules:
    return {"safetensors_arch": {"read_header": lib.function(lib.header)}}


def safetensors_print(lib: Library) -> Modules:
    return {"safetensors_print.cli": {"main": lib.function(0)}}


def safetensors_streaming(lib: Library) -> Modules:
    names = {
        "load_file": lib.function(lambda: {"w": lib.tensor}),
        "safe_open": lib.function(lambda: lib.opened(lambda: lib.tensor)),
    }
    return {**TORCH, "safetensors_streaming": names}


def sft_cli(lib: Library) -> Modules:
    row = SimpleNamespace(full_name="w", dtype=lib.dtype, shape=lib.shape)
    index = SimpleNamespace(tensors=[row], metadata={"a": "b"})
    return {
        "sft.cli": {"app": lib.function(0)},
        "sft.index": {"TensorIndex": SimpleNamespace(from_file=lib.function(index))},
    }


def tinygrad(lib: Library) -> Modules:
    flat = SimpleNamespace(data=lib.function(memoryview(lib.data)))
    flat.bitcast = lib.function(flat)
    more = {"data": flat.data, "flatten": lib.function(flat)}
    tensor = SimpleNamespace(dtype=lib.dtype, shape=lib.shape, **more)
    made: Any = SimpleNamespace(reshape=lambda _: made)
    state = {
        "safe_dtypes": {"F32": "F32"},
        "inverse_safe_dtypes": {"F32": "F32"},
        "safe_load": lib.function({"w": tensor}),
        "safe_load_metadata": lib.function(lambda: (None, 8, lib.header)),
        "safe_save": lib.function(),
    }
    types = SimpleNamespace(uint8="uint8")
    return {"tinygrad": {"Tensor": lambda *_, **__: made, "dtypes": types}, "tinygrad.nn.state": state}


def torch_dcp(lib: Library) -> Modules:
    listed = SimpleNamespace(size=lib.shape, properties=SimpleNamespace(dtype=lib.tensor.dtype))
    metadata = SimpleNamespace(state_dict_metadata={"w": listed})
    names = {
        "HuggingFaceStorageReader": lib.function(lib.manager(read_metadata=lib.function(metadata))),
        "HuggingFaceStorageWriter": lib.function(object()),
        "load": lib.function(),
        "save": lib.function(),
    }
    made = SimpleNamespace(**vars(MADE) | {"reshape": lib.function(lambda: lib.tensor)})
    torch = TORCH["torch"] | {"empty": lib.function(made)}
    return {"torch": torch, "torch.distributed.checkpoint": names}


def transformers(lib: Library) -> Modules:
    save = staticmethod(lib.function())
    model = {"__init__": lambda *_: None, "post_init": lambda _: None, "save_pretrained": save}
    return {
        **TORCH,
        "transformers": {
            "PretrainedConfig": type("PretrainedConfig", (), {}),
            "PreTrainedModel": type("PreTrainedModel", (), model),
        },
        "transformers.modeling_utils": {"load_state_dict": lib.function(lambda: {"w": lib.tensor})},
        "transformers.utils.hub": {"get_checkpoint_shard_files": lib.function((["one"], None))},
    }


def unifiedefficientloader(lib: Library) -> Modules:
    def opened() -> Any:
        more = {
            "get_dtype": lib.function(lambda: lib.tensor.dtype),
            "get_shape": lib.function(lambda: lib.shape),
        }
        return lib.opened(lambda: lib.tensor, **more)

    return {**TORCH, "unifiedefficientloader": {"UnifiedSafetensorsLoader": lib.function(opened)}}


paddlenlp = paddleformers
sglang = vllm = cut_out
OTHERS = {
    "reference/adapter.py:OverFsspec": reference_fsspec,
    **{
        f"safetensors/adapter_frameworks.py:{name}": safetensors_frameworks
        for name in ("Flax", "Mlx", "Paddle", "TensorFlow")
    },
}
_ADAPTERS = [entry.adapter for known in descriptors().values() for entry in known.entries]
DUMMIES: dict[str, Callable[[Library], Modules]] = {
    spec: OTHERS.get(spec) or globals()[spec.partition("/")[0]] for spec in _ADAPTERS if ".py:" in spec
}
"""Adapter -> the stand-in for its library, which is called like the folder of the adapter."""


def module(name: str, names: dict[str, Any]) -> ModuleType:
    """A module, which counts as a package of whatever is below it."""
    made = ModuleType(name)
    made.__path__ = []
    vars(made).update(names)
    return made
