// The conformance corpus of the safetensors format, as data.
import { readFileSync } from "node:fs";

const LARGEST = 256 * 2 ** 20; // bytes of the largest file that is made in memory
const stored = readFileSync(new URL("files.bin", import.meta.url));

/** All of it: version, rules, choices, codes and cases. */
export const corpus = JSON.parse(readFileSync(new URL("corpus.json", import.meta.url), "utf8"));
export const cases = corpus.cases;

/** The file of a case; null where it has a folder or nothing. */
export function bytes(item) {
  return item.input && !item.input.files ? made(item.input) : null;
}

/** Returns the files of a directory input placed at `root`, path -> bytes. */
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
  if (file.size > LARGEST) throw new RangeError(`a file of ${file.size} bytes is not made in memory`);
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
