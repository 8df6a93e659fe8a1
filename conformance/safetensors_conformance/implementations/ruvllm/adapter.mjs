// @ruvector/ruvllm: SafeTensorsReader, which knows F32 only and does not tell the dtype.
import { readFileSync } from "node:fs";

const LACKS = [
  ...["bf16", "bool", "c64", "f16", "f4", "f6-e2m3", "f6-e3m2", "f64", "f8-e4m3", "f8-e4m3fnuz", "f8-e5m2"],
  ...["f8-e5m2fnuz", "f8-e8m0", "i16", "i32", "i64", "i8", "u16", "u32", "u64", "u8"],
];

export async function make(load, { require, version, call, refused, UNTOLD }) {
  const { SafeTensorsReader } = require("@ruvector/ruvllm");
  return {
    name: "ruvllm",
    version: version("@ruvector/ruvllm"),
    lacks: LACKS.map((name) => `dtype-${name}`),
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
