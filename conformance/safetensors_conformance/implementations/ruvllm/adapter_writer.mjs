// @ruvector/ruvllm: SafeTensorsWriter, which takes arrays of F32.
import { writeFileSync } from "node:fs";

// What is to be written as an array, or nothing where there is no such array.
function array({ dtype, shape, storage, offset, strides, byteorder, nbytes }) {
  const size = nbytes ?? 4 * shape.reduce((a, b) => a * b, 1);
  if (dtype !== "F32" || strides || byteorder !== "little" || offset % 4 || size % 4) return undefined;
  // The writer takes the whole buffer of an array, so each gets one of its own.
  return new Float32Array(storage.slice(offset, offset + size).buffer);
}

export async function make(load, { require, version, call, unsupported }) {
  const { SafeTensorsWriter } = require("@ruvector/ruvllm");
  return {
    name: "ruvllm",
    version: version("@ruvector/ruvllm"),
    marked: true,
    write(path, tensors, metadata) {
      if (new Set(tensors.map((t) => t.name)).size !== tensors.length) throw unsupported("names are keys of a map");
      if (metadata !== null && !(metadata instanceof Map)) throw unsupported("takes keys and values");
      const arrays = tensors.map(array);
      if (arrays.includes(undefined)) throw unsupported("no such array of F32");
      const bytes = call(() => {
        const writer = new SafeTensorsWriter();
        tensors.forEach(({ name, shape }, place) => writer.addTensor(name, arrays[place], shape));
        for (const [key, value] of metadata ?? []) writer.addMetadata(key, value);
        return writer.build();
      });
      try {
        writeFileSync(path, bytes);
      } catch (error) {
        throw unsupported(`it gives bytes, and no file of its own (${error.message})`);
      }
    },
  };
}
