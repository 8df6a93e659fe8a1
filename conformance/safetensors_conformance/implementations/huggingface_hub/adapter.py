"""Adapters for huggingface_hub's own header parser, for local files and files on a server or fake hub."""

import importlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from huggingface_hub import HfApi, parse_local_safetensors_file_metadata
from huggingface_hub.errors import NotASafetensorsRepoError, SafetensorsParsingError
from stc_host.library import call, marked


@marked
class HeaderHelper:
    """``parse_local_safetensors_file_metadata``, which reads only the header, so there is no read step."""

    rejects = (SafetensorsParsingError, FileNotFoundError)  # the exceptions that the function documents

    def open(self, path: str) -> dict[str, Any]:
        return _answer(call(parse_local_safetensors_file_metadata, path))


def _answer(parsed: Any) -> dict[str, Any]:
    rows = [(name, info.dtype, info.shape) for name, info in parsed.tensors.items()]
    return {"tensors": rows, "metadata": parsed.metadata}


_ADDRESS = re.compile("(https?://[^/]+)/([^/]+/[^/]+)/resolve/main/(.*)")


def _http() -> Any:
    try:
        return importlib.import_module("httpx2")
    except ImportError:  # for older releases
        return importlib.import_module("httpx")


def _take_client(factory: Any) -> None:
    # Older releases have neither of these names.
    from huggingface_hub import set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    set_client_factory(factory or default_client_factory)


@marked
class RemoteHeader:
    """``HfApi.parse_safetensors_file_metadata``, which requests ranges of the file."""

    # the exceptions that the function documents
    rejects = (SafetensorsParsingError, NotASafetensorsRepoError)

    def __init__(self) -> None:
        self._http = _http()
        self._folder = Path()
        self._mistake: Exception | None = None

    def remote(self, url: str) -> dict[str, Any]:
        """Fetch the header of ``ENDPOINT/OWNER/MODEL/resolve/main/FILE``."""
        _take_client(None)
        endpoint, model, file = _ADDRESS.fullmatch(url).groups()  # type: ignore[union-attr]
        api = HfApi(endpoint=endpoint, token=False)
        return _answer(call(api.parse_safetensors_file_metadata, model, file))

    def open(self, path: str) -> dict[str, Any]:
        self._folder, self._mistake = Path(path).parent, None
        _take_client(lambda: self._http.Client(transport=self._http.MockTransport(self._answer)))
        api = HfApi(endpoint="https://hub.invalid", token=False)
        try:
            parsed = call(api.parse_safetensors_file_metadata, "local/folder", Path(path).name)
        except Exception:
            if self._mistake is not None:  # an error of the fake hub, which the library only passed on
                raise RuntimeError("the fake hub failed") from self._mistake
            raise
        return _answer(parsed)

    def _answer(self, request: Any) -> Any:
        try:
            return self._file(request)
        except Exception as err:
            self._mistake = err
            raise

    def _file(self, request: Any) -> Any:
        found = self._folder / unquote(request.url.path.rpartition("/resolve/main/")[2])
        if not found.is_file():
            return self._http.Response(404, headers={"X-Error-Code": "EntryNotFound"}, request=request)
        data = found.read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
        if asked is None:
            return self._http.Response(200, content=data, request=request)
        first, last = int(asked[1]), int(asked[2])
        if first >= len(data) or last < first:
            return self._http.Response(416, request=request)
        part = data[first : last + 1]
        where = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
        return self._http.Response(206, content=part, headers={"Content-Range": where}, request=request)
