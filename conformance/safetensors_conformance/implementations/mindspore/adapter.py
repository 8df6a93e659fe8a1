"""Adapter for MindSpore's ``load_checkpoint``, which loads every tensor of a file as a parameter."""

from typing import Any

import given
import lacking
import mindspore
from stc_host.library import call, marked


@marked
class Load:
    rejects = (ValueError,)  # the exception that the function documents for a file with the wrong format
    lacks = lacking.all_but(given.NUMPY.keys() - {"C64"})

    def read(self, path: str) -> list[tuple[Any, ...]]:
        try:
            loaded = call(mindspore.load_checkpoint, path, format="safetensors")
        except ValueError as err:
            if "parameter dict is empty" not in str(err):
                raise
            raise NotImplementedError("documented: a file without parameters is an error") from err
        return [(name, *given.part(call(parameter.asnumpy))) for name, parameter in loaded.items()]
