// Adapter for SafeTensorsWriter in @ruvector/ruvllm, which accepts F32 arrays.
import { writeFileSync } from "node:fs";

// Return the tensor to write as an array, or undefined if there is no such array.
function array({ dtype, shape, storage, offset, strides, byteorder, nbytes }) {
  const size = nbytes ?? 4 * shape.reduce((a, b) => a * b, 1);
  if (dtype !== "F32" || strides || byteorder !== "little" || offset % 4 || size % 4) return undefined;
  // The writer uses the whole buffer of an array, so each array gets its own buffer.
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
