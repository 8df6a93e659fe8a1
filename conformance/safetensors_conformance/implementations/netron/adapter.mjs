// Adapter for Netron's safetensors.js, from the Python package, which contains the whole JavaScript viewer.
import { readFileSync, readdirSync, existsSync } from "node:fs";
import { dirname, join, resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";

const CODES = {
  boolean: "BOOL",
  int8: "I8",
  int16: "I16",
  int32: "I32",
  int64: "I64",
  uint8: "U8",
  uint16: "U16",
  uint32: "U32",
  uint64: "U64",
  bfloat16: "BF16",
  float16: "F16",
  float32: "F32",
  float64: "F64",
  float8e4m3fn: "F8_E4M3",
  float8e5m2: "F8_E5M2",
  float8e8m0: "F8_E8M0",
};

// Return the folder of the package in a Python environment.
export function packages(folder) {
  for (const root of [folder, process.env.VIRTUAL_ENV].filter((root) => root && existsSync(join(root, "lib")))) {
    for (const python of readdirSync(join(root, "lib"))) {
      const found = join(root, "lib", python, "site-packages");
      if (existsSync(join(found, "netron", "safetensors.js"))) return found;
    }
  }
  throw new Error(`netron is not installed in ${folder}`);
}

// Return the path of a file that is named relative to another. Like the viewer's server and desktop program, reject
// names that point outside the folder.
export function beside(path, name) {
  const folder = dirname(resolve(path));
  const found = join(folder, name);
  if (!found.startsWith(folder + sep)) throw new Error(`File not found: ${name}`);
  return found;
}

export async function make(load, { folder, call, refused }) {
  const where = packages(resolve(folder));
  const part = (name) => import(pathToFileURL(join(where, "netron", name)));
  const [{ ModelFactory }, { BinaryStream }, json] = await Promise.all(
    ["safetensors.js", "base.js", "json.js"].map(part),
  );
  const version = readdirSync(where).find((name) => /^netron-.*\.dist-info$/.test(name));

  // The object that the viewer passes to its formats: a stream, a preview as JSON, and files next to this one.
  class Context {
    constructor(path) {
      this.path = path;
      this.identifier = path;
      this.stream = new BinaryStream(new Uint8Array(readFileSync(path)));
    }
    async peek(kind) {
      if (kind !== "json" || !this.path.endsWith(".json")) return undefined;
      try {
        return json.TextReader.open(this.stream.peek()).read();
      } catch {
        return undefined; // the same as in the viewer, which only checks whether this is JSON
      }
    }
    async fetch(name) {
      return new Context(beside(this.path, name));
    }
    set(type, value) {
      this.type = type;
      this.value = value;
      return type;
    }
  }

  async function read(path) {
    const context = new Context(path);
    const factory = new ModelFactory();
    if (!(await call(() => factory.match(context)))) throw refused("not recognised as a safetensors file");
    const model = await call(() => factory.open(context));
    const values = model.modules[0].nodes.flatMap((node) => node.inputs.flatMap((input) => input.value));
    return values.map(({ name, initializer }) => {
      const { type } = initializer;
      return {
        name,
        dtype: CODES[type.dataType] ?? type.dataType,
        shape: type.shape.dimensions,
        data: call(() => initializer.values), // reads the values
      };
    });
  }

  return {
    name: "netron",
    version: version.slice("netron-".length, -".dist-info".length),
    lacks: ["c64", "f4", "f6-e2m3", "f6-e3m2", "f8-e4m3fnuz", "f8-e5m2fnuz"].map((name) => `dtype-${name}`),
    marked: true,
    read,
    index: read,
  };
}
