// @ruvector/ruvllm: SafeTensorsWriter, which takes arrays of F32.
import { writeFileSync } from "node:fs";

function unsupported(message) {
  return Object.assign(new Error(message), { name: "Unsupported" });
}

// What is to be written as an array.
function array({ dtype, shape, storage, offset, strides, byteorder, nbytes }) {
  const size = nbytes ?? 4 * shape.reduce((a, b) => a * b, 1);
  if (dtype !== "F32" || strides || byteorder !== "little" || offset % 4 || size % 4) {
    throw unsupported("no such array of F32");
  }
  // The writer takes the whole buffer of an array, so each gets one of its own.
  return new Float32Array(storage.slice(offset, offset + size).buffer);
}

export async function make(load, { require, version }) {
  const { SafeTensorsWriter } = require("@ruvector/ruvllm");
  return {
    name: "ruvllm",
    version: version("@ruvector/ruvllm"),
    write(path, tensors, metadata) {
      if (new Set(tensors.map((t) => t.name)).size !== tensors.length) throw unsupported("names are keys of a map");
      if (metadata !== null && !(metadata instanceof Map)) throw unsupported("takes keys and values");
      const writer = new SafeTensorsWriter();
      for (const tensor of tensors) writer.addTensor(tensor.name, array(tensor), tensor.shape);
      for (const [key, value] of metadata ?? []) writer.addMetadata(key, value);
      writeFileSync(path, writer.build());
    },
  };
}
