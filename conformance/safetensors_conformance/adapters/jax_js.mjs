// @jax-js/loaders: safetensors.parse(Uint8Array).
import { readFileSync } from "node:fs";

const LACKS = ["bf16", "c64", "f4", "f6-e2m3", "f6-e3m2", "f8-e4m3", "f8-e4m3fnuz", "f8-e5m2", "f8-e5m2fnuz", "f8-e8m0"];

export async function make(load, { version }) {
  const { safetensors } = await load("@jax-js/loaders", "dist/index.js");
  const halves = typeof Float16Array === "function"; // since Node.js 24
  return {
    name: "jax-js",
    version: version("@jax-js/loaders"),
    lacks: [...LACKS, ...(halves ? [] : ["f16"])].map((name) => `dtype-${name}`),
    read(path) {
      // A copy of its own: what Node.js reads may lie anywhere within a larger buffer.
      const bytes = new Uint8Array(readFileSync(path));
      let file;
      try {
        file = safetensors.parse(bytes);
      } catch (error) {
        if (error instanceof ReferenceError && !halves) throw new Error("this Node.js has no Float16Array");
        throw error;
      }
      const rows = Object.entries(file.tensors).map(([name, tensor]) => ({ name, ...tensor }));
      return { tensors: rows, metadata: file.metadata };
    },
  };
}
