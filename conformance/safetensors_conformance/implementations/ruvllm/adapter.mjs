// Adapter for SafeTensorsReader in @ruvector/ruvllm, which treats every tensor as F32 and does not report the dtype.
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
        return { name, dtype: UNTOLD, shape: tensor.shape, data: tensor.data };
      });
      return { tensors: rows, metadata: call(() => reader.getMetadata()) };
    },
  };
}
