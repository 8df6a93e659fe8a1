"""Adapters for this project's own strict reader and writer, and for its reader of files over HTTP."""

from pathlib import Path
from typing import Any, cast

from safetensors_conformance.host.library import Held, call, item, marked, opened
from safetensors_conformance.implementations.support import given
from safetensors_reference import InvalidFileError, UnreadableError, read_header, safe_open
from safetensors_reference.arrays.numpy import PackedTensor, numpy_dtype
from safetensors_reference.model.read import open_index
from safetensors_reference.model.write import save_sharded
from safetensors_reference.numpy import load_file
from safetensors_reference.rules.book import ProfileName
from safetensors_reference.rules.errors import AccessError, SafetensorsError, UnsupportedDtypeError
from safetensors_reference.writing.atomic import write_file
from safetensors_reference.writing.numpy import save_file
from safetensors_reference.writing.writer import TensorData, plan


class Strict:
    """Base class of both entry points, which read with the profile of the run."""

    version = "2026.11.0"
    rejects = (InvalidFileError, UnreadableError, SafetensorsError)

    def __init__(self) -> None:
        self._profile: ProfileName = "hardened"

    def profile(self, name: str) -> None:
        self._profile = cast(ProfileName, name)

    def _read(self, source: Any) -> dict[str, Any]:
        with opened(safe_open, source, "raw", profile=self._profile) as file:
            tensors = file.header.tensors.values()
            rows = [(t.name, t.dtype, t.shape, call(file.get_tensor, t.name)) for t in tensors]
            return {"tensors": rows, "metadata": call(file.metadata)}


@marked
class OverFsspec(Strict):
    def __init__(self) -> None:
        super().__init__()
        try:
            import aiohttp  # noqa: F401 - fsspec imports it when it first opens a file, which is too late
            import fsspec
        except ImportError as err:
            raise ImportError(f"{err}; pip install 'safetensors-conformance[remote]'") from err
        self._open = fsspec.open

    def remote(self, url: str) -> dict[str, Any]:
        with opened(self._open, url, "rb", cache_type="none", skip_instance_cache=True) as source:
            return self._read(source)


@marked
class Reference(Strict):
    def __init__(self) -> None:
        super().__init__()
        self._device_bytes = 0

    def profile(self, name: str) -> None:
        """Switch to a profile. Under the ``official`` profile, only reading is available."""
        super().profile(name)
        if name == "official":
            for method in ("slice", "write", "index", "save_sharded", "hold", "share"):
                setattr(self, method, None)

    def device_ready(self, _device: str) -> None:
        """Start counting the loader's requests for device memory."""
        from safetensors_reference.device import load as module

        load: Any = module
        plain_open = load.open_engine

        def counting(*arguments: Any) -> Any:
            engine = plain_open(*arguments)
            allocate = engine.allocate

            def counted(size: int) -> Any:
                self._device_bytes += size
                return allocate(size)

            engine.allocate = counted
            return engine

        load.open_engine = counting

    def device_bytes(self) -> int:
        return self._device_bytes

    def device(self, path: str, device: str) -> list[tuple[Any, ...]]:
        from safetensors_conformance.implementations.support import torch_rows
        from safetensors_reference.device import load_file as load_onto

        try:
            tensors = call(load_onto, path, device=device, profile=self._profile)
        except AccessError as err:
            if err.code == UnsupportedDtypeError.code:  # the file is valid, but torch has no such tensor
                raise NotImplementedError(str(err)) from err
            raise
        rows: list[tuple[Any, ...]] = []
        for name, tensor in tensors.items():
            if isinstance(tensor, PackedTensor):
                rows.append((name, tensor.dtype, tensor.shape, tensor.raw))
            else:
                rows.append(torch_rows.device_row(name, tensor))
        return rows

    def open(self, path: str) -> dict[str, Any]:
        header = call(read_header, path, self._profile)
        rows = [(t.name, t.dtype, t.shape) for t in header.tensors.values()]
        return {"tensors": rows, "metadata": None if header.metadata is None else dict(header.metadata)}

    def read(self, path: str) -> dict[str, Any]:
        return self._read(path)

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> tuple[str, Any, Any]:
        with opened(safe_open, path, "np", profile=self._profile) as file:
            view = call(file.get_slice, tensor)
            dtype = call(view.get_dtype)
            try:
                part: Any = item(view, index)
            except UnsupportedDtypeError as err:
                raise NotImplementedError(str(err)) from err
        if isinstance(part, PackedTensor):
            return dtype, part.shape, part.raw
        return dtype, part.shape, part.tobytes()

    def index(self, path: str) -> list[tuple[Any, ...]]:
        folder = Path(path).parent
        rows = []
        for name, (shard, info) in call(open_index, path, self._profile).tensors.items():
            with opened(safe_open, folder / shard, "raw", profile=self._profile) as file:
                rows.append((name, info.dtype, info.shape, bytes(call(file.get_tensor, name))))
        return rows

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        """Save arrays, or buffers for dtypes that NumPy lacks and for sizes that the writer must check."""
        arrays = {*given.NUMPY, *given.OTHER, "OBJECT"}
        if all(t.dtype in arrays and t.nbytes is None for t in tensors):
            call(save_file, given.named(tensors), path, metadata)
            return
        rows = [call(TensorData, t.name, t.dtype, t.shape, self._buffer(t)) for t in tensors]
        call(write_file, path, call(call(plan, rows, metadata).chunks))

    def save_sharded(self, folder: str, tensors: list[Any], metadata: Any, max_shard_size: int) -> None:
        buffers = given.named(tensors, self._buffer)
        rows = {t.name: call(TensorData, t.name, t.dtype, t.shape, buffers[t.name]) for t in tensors}
        sizes = {name: len(buffer) for name, buffer in buffers.items()}

        def save(shard: dict[str, TensorData], path: Path) -> None:
            write_file(path, plan(list(shard.values())).chunks())

        call(save_sharded, save, rows, sizes, folder, max_shard_size, metadata=metadata)

    @staticmethod
    def _buffer(tensor: Any) -> Any:
        if tensor.strides is None and tensor.byteorder == "little":
            return given.raw(tensor)
        try:
            dtype = numpy_dtype(tensor.dtype)
        except UnsupportedDtypeError as err:
            raise NotImplementedError(str(err)) from err
        import numpy as np

        order = dtype.newbyteorder(">") if tensor.byteorder == "big" else dtype
        view = np.ndarray(tensor.shape, order, tensor.storage, tensor.offset, tensor.strides)
        return np.ascontiguousarray(view, dtype).reshape(-1).view(np.uint8).data

    def resave(self, path: str) -> None:
        call(save_file, call(load_file, path), path)

    def hold(self, path: str) -> Held:
        file = call(safe_open, path, "raw", profile=self._profile)

        def tensor(name: str) -> tuple[str, Any, Any]:
            info = call(file.info, name)
            return info.dtype, info.shape, call(file.get_tensor, name)

        return Held(tensor, lambda: call(file.close))

    share = hold
