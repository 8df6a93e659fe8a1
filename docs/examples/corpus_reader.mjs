// A strict reader of safetensors headers in JavaScript, as an example for corpus.mjs and stdio_reader.mjs.
// JSON.parse decides whether the header is JSON. The tokens show what JSON.parse hides: duplicate keys, the way
// numbers are written, and numbers beyond 2^53.
const BITS = {
  BOOL: 8, U8: 8, I8: 8, F8_E5M2: 8, F8_E4M3: 8, F8_E8M0: 8, F8_E4M3FNUZ: 8, F8_E5M2FNUZ: 8,
  I16: 16, U16: 16, F16: 16, BF16: 16, I32: 32, U32: 32, F32: 32, I64: 64, U64: 64, F64: 64, C64: 64,
  F4: 4, F6_E2M3: 6, F6_E3M2: 6,
};
const HEADER_CAP = 100_000_000n;
const TOKEN = /[ \t\n\r]*([{}[\],:]|"(?:[^"\\]|\\.)*"|[^ \t\n\r{}[\],:"]+)/gy;
const DEPTH = 128; // the same limit as in the official reader

function demand(condition, what) {
  if (!condition) throw new Error(what);
}

// Parses text that JSON.parse accepts. Objects become Map, and plain integers become BigInt.
function parse(text) {
  JSON.parse(text);
  const tokens = Array.from(text.matchAll(TOKEN), (match) => match[1]);
  let at = 0;
  function value(depth) {
    demand(depth < DEPTH, "nested too deep");
    const token = tokens[at++];
    if (token === "{") {
      const map = new Map();
      while (tokens[at] !== "}") {
        if (tokens[at] === ",") at++;
        const key = string(tokens[at]);
        demand(!map.has(key), `key ${JSON.stringify(key).slice(0, 80)} stands twice`);
        at += 2; // skip the key and its colon
        map.set(key, value(depth + 1));
      }
      at++;
      return map;
    }
    if (token === "[") {
      const list = [];
      while (tokens[at] !== "]") {
        if (tokens[at] === ",") at++;
        list.push(value(depth + 1));
      }
      at++;
      return list;
    }
    if (token[0] === '"') return string(token);
    return /^[0-9]{1,20}$/.test(token) ? BigInt(token) : JSON.parse(token);
  }
  return value(0);
}

function string(token) {
  const text = JSON.parse(token);
  demand(text.isWellFormed(), "half of a surrogate pair");
  return text;
}

const isSize = (value) => typeof value === "bigint" && value < 1n << 64n;

// The function that corpus.mjs calls.
export const open = (bytes) => list(bytes, bytes.length).tensors;

// Returns tensors and metadata from the bytes before the data buffer of a file with `size` bytes. The `begin` and
// `end` of a tensor are relative to the beginning of the file.
export function list(bytes, size) {
  demand(bytes.length >= 8, "no length prefix");
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true);
  demand(length <= HEADER_CAP, "header length above the cap");
  demand(8n + length <= BigInt(size), "header past the end of the file");
  const end = 8 + Number(length);
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(8, end));
  demand(text[0] === "{", "the header begins with no brace");
  demand(/\} *$/.test(text), "something other than spaces behind the header");
  const header = parse(text);
  const metadata = header.get("__metadata__");
  if (header.delete("__metadata__")) {
    demand(metadata instanceof Map, "metadata is no object");
    for (const item of metadata.values()) demand(typeof item === "string", "metadata value is no string");
  }
  const ranges = [];
  const base = BigInt(end);
  const tensors = Array.from(header, ([name, entry]) => {
    demand(entry instanceof Map, "a tensor entry is no object");
    const [dtype, shape, offsets] = ["dtype", "shape", "data_offsets"].map((field) => entry.get(field));
    demand(typeof dtype === "string" && Object.hasOwn(BITS, dtype), "unknown dtype");
    demand(Array.isArray(shape) && shape.every(isSize), "shape is no array of sizes");
    demand(Array.isArray(offsets) && offsets.length === 2 && offsets.every(isSize), "no pair of offsets");
    let bits = BigInt(BITS[dtype]);
    for (const size of shape) demand((bits *= size) < 1n << 67n, "size overflows");
    demand(bits % 8n === 0n && offsets[1] - offsets[0] === bits / 8n, "range and shape disagree");
    ranges.push(offsets);
    return { name, dtype, shape, begin: base + offsets[0], end: base + offsets[1] };
  });
  ranges.sort((a, b) => Number(a[0] - b[0]) || Number(a[1] - b[1]));
  let position = 0n;
  for (const [begin, stop] of ranges) {
    demand(begin === position, "hole or overlap");
    position = stop;
  }
  demand(position === BigInt(size - end), "data buffer of another length");
  return { tensors, metadata: metadata && Object.fromEntries(metadata) };
}
