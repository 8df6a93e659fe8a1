// Adapter for safetensors.parse(Uint8Array) in @jax-js/loaders.
import { readFileSync } from "node:fs";

const LACKS = ["bf16", "c64", "f4", "f6-e2m3", "f6-e3m2", "f8-e4m3", "f8-e4m3fnuz", "f8-e5m2", "f8-e5m2fnuz", "f8-e8m0"];

export async function make(load, { version, call }) {
  const { safetensors } = await load("@jax-js/loaders", "dist/index.js");
  const halves = typeof Float16Array === "function"; // available since Node.js 24; without it, F16 raises a ReferenceError
  return {
    name: "jax-js",
    version: version("@jax-js/loaders"),
    lacks: [...LACKS, ...(halves ? [] : ["f16"])].map((name) => `dtype-${name}`),
    marked: true,
    read(path) {
      // Make a copy, because the data that Node.js reads may be anywhere within a larger buffer.
      const bytes = new Uint8Array(readFileSync(path));
      const file = call(() => safetensors.parse(bytes));
      const rows = Object.entries(file.tensors).map(([name, { dtype, shape, data }]) => ({ name, dtype, shape, data }));
      return { tensors: rows, metadata: file.metadata };
    },
  };
}
