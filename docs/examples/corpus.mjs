// Runs a JavaScript reader for safetensors over the corpus. It needs only Node:
//     node corpus.mjs path/to/corpus.json ./corpus_reader.mjs
// The reader exports open(bytes) -> [{name, dtype, shape}], which throws to reject, and optionally
// lacks = ["dtype-f4", ...], the features that it lacks. The program runs only the "open" step of each case.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [manifest, module] = process.argv.slice(2);
if (!module) {
  console.error("usage: node corpus.mjs CORPUS.JSON READER.MJS");
  process.exit(2);
}
const corpus = JSON.parse(readFileSync(manifest, "utf8"));
if (corpus.schema_version !== 2) throw new Error(`schema version ${corpus.schema_version}, not 2`);
const reader = await import(pathToFileURL(resolve(module)));
const required = Object.fromEntries(corpus.choices.map((choice) => [choice.id, choice.required]));

const literal = (part) => ("hex" in part ? Buffer.from(part.hex, "hex") : Buffer.from(part.text));
function expand(part) {
  if ("zeros" in part) return Buffer.alloc(part.zeros);
  if ("repeat" in part) return Buffer.concat(Array(part.count).fill(literal(part.repeat)));
  if (!("each" in part)) return literal(part);
  const first = part.first ?? 0;
  const item = (_, k) => part.each.replace(/\{(i|next)\}/g, (m) => first + k + (m === "{i}" ? 0 : 1));
  return Buffer.from(Array.from({ length: part.count }, item).join(part.separator ?? ""));
}

// Returns the bytes of an input. The digest of a recipe excludes its zeros.
function bytesOf({ file, recipe, sha256, size }) {
  const hash = createHash("sha256");
  let bytes;
  if (file) hash.update((bytes = readFileSync(join(dirname(manifest), file))));
  else bytes = Buffer.concat(recipe.map((part) => {
    const made = expand(part);
    if (!("zeros" in part)) hash.update(made);
    return made;
  }));
  if (bytes.length !== size || hash.digest("hex") !== sha256) throw new Error("damaged corpus: wrong size or digest");
  return bytes;
}

// Returns a string from the manifest. A string with a lone surrogate is stored as UTF-8 parts.
function textOf(value) {
  if (typeof value === "string") return value;
  const pieces = Buffer.concat(value.parts.map(expand)).toString("latin1").split(/(\xed[\xa0-\xbf][\x80-\xbf])/);
  const half = (p) => String.fromCharCode(0xd000 | ((p.charCodeAt(1) & 0x3f) << 6) | (p.charCodeAt(2) & 0x3f));
  return pieces.map((p, i) => (i % 2 ? half(p) : Buffer.from(p, "latin1").toString())).join("");
}

// Returns one string per tensor with its name and dtype, and its shape if doubles can represent all dimensions.
function differs(found, wanted) {
  wanted = wanted.map((t) => ({ ...t, name: textOf(t.name) }));
  const exact = new Set(wanted.filter((t) => t.shape.every(Number.isSafeInteger)).map((t) => t.name));
  const text = (t) => JSON.stringify([t.name, t.dtype, exact.has(t.name) ? t.shape.map(Number) : null]);
  const [got, want] = [found, wanted].map((list) => list.map(text).sort().join(" "));
  return got === want ? "" : `got ${got.slice(0, 150)}, expected ${want.slice(0, 150)}`;
}

function judge(expect, found, error) {
  if (expect.outcome === "reject") return error ? "" : `accepted, must be refused (${expect.codes[0]})`;
  if (error) return `refused (${String(error.message).slice(0, 150)}), must be accepted`;
  return "tensors" in expect.content ? differs(found, expect.content.tensors) : "";
}

const count = { pass: 0, fail: 0, "not strict": 0, unsupported: 0, damaged: 0 };
const defaults = { features: [], heavy: false, status: "active" }; // omitted from cases that have these values
for (const test of corpus.cases.map((row) => ({ ...defaults, ...row }))) {
  if (test.status !== "active" || test.kind !== "read" || test.heavy) continue;
  let result, bytes, found, error;
  try {
    bytes = bytesOf(test.input);
  } catch (problem) { result = ["damaged", problem.message]; }
  if (!result) {
    try { found = reader.open(new Uint8Array(bytes)); } catch (problem) { error = problem ?? new Error("refused"); }
    const { choice, options } = test.expect;
    const allowed = !choice ? [test.expect] : required[choice] ? [options[required[choice]]] : Object.values(options);
    const faults = allowed.map((expect) => judge(expect, found, error));
    if (faults.includes("")) result = ["pass"];
    else if (error && test.features.some((f) => reader.lacks?.includes(f))) result = ["unsupported"];
    else result = [test.level === "must" ? "fail" : "not strict", faults[0]];
  }
  count[result[0]]++;
  // Names and messages contain text from the file, so print only plain characters to the terminal.
  const why = result[1]?.replace(/[^ -~]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  if (why) console.log(`${result[0].padEnd(10)}  ${test.id}  ${test.rules[0]}  ${why}`);
}
console.log(Object.entries(count).map(([what, n]) => `${what} ${n}`).join(" · "));
process.exit(count.fail || count.damaged ? 1 : 0);
