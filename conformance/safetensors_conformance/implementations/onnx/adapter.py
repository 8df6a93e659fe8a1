"""Adapter for ``onnx.save_model``, which exports the tensors as initializers of a model without nodes."""

import onnx
from onnx import helper, numpy_helper
from safetensors.numpy import load_file
from stc_host.library import call, marked


@marked
class ExternalData:
    def export(self, path: str, folder: str) -> None:
        arrays = call(load_file, path)
        initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
        call(
            onnx.save_model,
            helper.make_model(helper.make_graph([], "graph", [], [], initializers)),
            f"{folder}/model.onnx",
            save_as_external_data=True,
            all_tensors_to_one_file=False,
            size_threshold=0,
        )
