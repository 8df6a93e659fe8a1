// The conformance corpus of the safetensors format, as data.
import { readFileSync } from "node:fs";

const LARGEST = 256 * 2 ** 20; // maximum size in bytes of a file that is created in memory
const stored = readFileSync(new URL("files.bin", import.meta.url));

/** The whole manifest: version, rules, choices, codes and cases. */
export const corpus = JSON.parse(readFileSync(new URL("corpus.json", import.meta.url), "utf8"));
export const cases = corpus.cases;

/** Returns the file of a case, or null if the case has a folder or no input. */
export function bytes(item) {
  return item.input && !item.input.files ? made(item.input) : null;
}

/** Returns the files of a directory input that will be placed at `root`, as a map from paths to bytes. */
export function files(item, root) {
  const out = new Map();
  for (const file of item.input?.files ?? []) {
    const data = made(file);
    out.set(file.path, file.template ? Buffer.from(data.toString("latin1").replaceAll("@ROOT@", latin1(root)), "latin1") : data);
  }
  return out;
}

const latin1 = (text) => Buffer.from(text).toString("latin1");

function made(file) {
  if (file.size > LARGEST) throw new RangeError(`a file of ${file.size} bytes is too large to create in memory`);
  return Buffer.concat(file.parts.map(part));
}

function part(given) {
  if (Array.isArray(given)) {
    const [at, size, times = 1] = given;
    const once = stored.subarray(at, at + size);
    return times === 1 ? once : Buffer.alloc(size * times, once);
  }
  if ("zeros" in given) return Buffer.alloc(given.zeros);
  const texts = [];
  for (let i = given.first ?? 0, left = given.count; left > 0; i++, left--) {
    texts.push(given.each.replaceAll("{i}", i).replaceAll("{next}", i + 1));
  }
  return Buffer.from(texts.join(given.separator ?? ""));
}
