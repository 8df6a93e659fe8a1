// @ruvector/ruvllm: SafeTensorsReader, which gives every tensor as an array of 32-bit floats.
import { readFileSync } from "node:fs";

export async function make(load, { require, version, call, refused, UNTOLD }) {
  const { SafeTensorsReader } = require("@ruvector/ruvllm");
  return {
    name: "ruvllm",
    version: version("@ruvector/ruvllm"),
    marked: true,
    read(path) {
      const bytes = new Uint8Array(readFileSync(path));
      const reader = call(() => new SafeTensorsReader(bytes));
      const rows = call(() => reader.getTensorNames()).map((name) => {
        const tensor = call(() => reader.getTensor(name));
        if (tensor === null) throw refused("getTensor gave null for a name that getTensorNames lists");
        const dtype = tensor.data instanceof Float32Array ? "F32" : UNTOLD;
        return { name, dtype, shape: tensor.shape, data: tensor.data };
      });
      return { tensors: rows, metadata: call(() => reader.getMetadata()) };
    },
  };
}
