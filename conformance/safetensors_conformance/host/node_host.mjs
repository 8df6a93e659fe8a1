// The host for JavaScript readers, which loads an adapter and answers requests on standard input.
//
// It has no dependencies. Usage: node node_host.mjs ADAPTER.mjs FOLDER [MEMORY_BYTES]. FOLDER contains node_modules
// with the library under test. An adapter exports `make(load, tools)`, which returns an object (or a promise of one)
// with `name`, `version` and the methods of the Python host: `open(path)`, `read(path)`, `slice(path, tensor,
// index)`, `index(path)`, `write(path, tensors, metadata)`, `resave(path)`, `remote(url)`, or `check(path)`.
// `load(package)` imports a package from FOLDER, and `load(package, file)` imports one file of a package. `tools` has
// `folder`, `require`, `version(package)` and the marks below. A row is {name, dtype, shape, data}. A tensor to write
// is {name, dtype, shape, storage, offset, strides, byteorder, nbytes} with a Uint8Array as its storage. Metadata to
// write is a Map or null.
//
// An error is a rejection. An error with the name "Unsupported" means that the file is valid but not supported. In an
// adapter with `marked: true`, only errors from the marks belong to the library: `call(work)` runs a function (and
// awaits its promise) whose errors belong to the library, and `refused(text)` creates an error for a library that
// rejects without throwing. Any other error in such an adapter is a mistake in the adapter. In all adapters, a failure
// while the host reads the answer is a mistake in the adapter, too. `UNTOLD` stands for a dtype or shape that the
// library does not report. In a marked adapter, null and undefined are reported values.
import { createHash, randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { readFileSync, writeSync } from "node:fs";

const PROTOCOL = 1;
const METHODS = ["open", "read", "slice", "write", "index", "remote"];

// The library's own output goes to standard error. Only answers go to standard output.
for (const name of ["log", "info", "debug"]) console[name] = console.error;

// Unlike JavaScript, JSON has integers of any size. Until the answer is written, the digits of a BigInt are therefore
// kept as a string between these marks, which no reader can know.
const MARK = randomBytes(16).toString("hex");
const DIGITS = new RegExp(`"${MARK}(-?\\d+)${MARK}"`, "g");

function send(answer) {
  const data = Buffer.from(JSON.stringify(answer).replace(DIGITS, "$1") + "\n");
  for (let at = 0; at < data.length; ) {
    try {
      at += writeSync(1, data, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

// A thrown value is not necessarily an error, and accessing an error may throw.
function nameOf(error) {
  try {
    return typeof error?.name === "string" ? error.name : error instanceof Error ? "Error" : typeof error;
  } catch {
    return "Error";
  }
}

function describe(error) {
  let text = "(no message)";
  try {
    text = String(error?.message ?? error);
  } catch {}
  return `${nameOf(error)}: ${text}`.slice(0, 2000);
}

// A mistake in the adapter, for which the library is not responsible.
class AdapterError extends Error {}

// Wraps a value thrown by the library. It is not an Error, so that no adapter catches it by accident.
class OfLibrary {
  constructor(error) {
    this.error = error;
  }
}

// The library rejected a file without throwing.
class Refused extends Error {}

const UNTOLD = Symbol("untold");

function call(work) {
  const mark = (error) => {
    throw error instanceof OfLibrary ? error : new OfLibrary(error);
  };
  let given;
  try {
    given = work();
  } catch (error) {
    mark(error);
  }
  return given instanceof Promise ? given.catch(mark) : given;
}

const MAX_VALUES = 1 << 22;

// Return a dtype, dimension or metadata value for JSON. Deeply nested values are replaced by a word.
function plain(value) {
  if (typeof value === "bigint") return digits(value);
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (typeof value === "symbol" || typeof value === "function") return `(a ${typeof value})`;
  if (typeof value !== "object" || value === null) return value ?? null;
  return Array.isArray(value) ? "(a list)" : "(an object)";
}

// JSON parsers can read integers with a few thousand digits.
function digits(value) {
  const text = value.toString();
  return text.length <= 4000 ? `${MARK}${text}${MARK}` : `${text.slice(0, 40)}... (${text.length} digits)`;
}

// Return a field of a row. In a marked adapter, null and undefined are reported values.
function field(value, marked, tell = plain) {
  if (value === UNTOLD) return null;
  if (value == null) return marked ? String(value) : null;
  return tell(value);
}

// Return a shape for JSON. A value that is not a list stays as it is.
function dimensions(shape) {
  if (!Array.isArray(shape) && !(ArrayBuffer.isView(shape) && Symbol.iterator in shape)) return plain(shape);
  if (shape.length > MAX_VALUES) throw new AdapterError(`a shape has ${shape.length} dimensions`);
  return Array.from(shape, (size) => (size === undefined ? "undefined" : plain(size)));
}

function bytesOfTensor(name, data) {
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (data instanceof ArrayBuffer || data instanceof SharedArrayBuffer) return new Uint8Array(data);
  const whose = JSON.stringify(name).slice(0, 80);
  throw new AdapterError(`data of ${whose} is ${kindOf(data)}, which is not a buffer or a view of one`);
}

function kindOf(value) {
  return value === null ? "null" : Array.isArray(value) ? "an array" : `of the type ${typeof value}`;
}

// Return the name of a tensor for JSON. Bytes, which careless readers return, are written in hex.
function tensorName(name) {
  if (name instanceof Uint8Array) return { hex: Buffer.from(name).toString("hex") };
  if (typeof name !== "string") throw new AdapterError(`the name of a tensor is ${kindOf(name)}, which is not a string`);
  return name;
}

function row(item, marked) {
  if (typeof item !== "object" || item === null) throw new AdapterError(`a tensor is ${kindOf(item)}`);
  const { name, dtype, shape, data } = item;
  const out = { name: tensorName(name), dtype: field(dtype, marked), shape: field(shape, marked, dimensions) };
  if ("data" in item && (data != null || marked)) {
    const bytes = bytesOfTensor(name, data);
    out.nbytes = bytes.length;
    out.sha256 = createHash("sha256").update(bytes).digest("hex");
  }
  return out;
}

function content(answer, summary, marked) {
  const rows = Array.isArray(answer) ? answer : answer?.tensors;
  if (!Array.isArray(rows)) throw new AdapterError("the result is neither an array of tensors nor {tensors: array}");
  const out = summary ? { tensor_count: rows.length } : { tensors: Array.from(rows, (item) => row(item, marked)) };
  if (!Array.isArray(answer) && "metadata" in answer) {
    const { metadata } = answer;
    const map = metadata && typeof metadata === "object" && !Array.isArray(metadata);
    const entries = map ? (metadata instanceof Map ? [...metadata] : Object.entries(metadata)) : [];
    // Build the object from pairs, which also works for keys that every object inherits, such as "__proto__".
    out.metadata = map ? Object.fromEntries(entries.map(([k, v]) => [k, plain(v)])) : plain(metadata);
  }
  return out;
}

// Run the host's own code on an answer. A failure is never a rejection.
function lookedAt(look, wrong) {
  try {
    return look();
  } catch (error) {
    throw error instanceof AdapterError ? error : new AdapterError(`${wrong} (${describe(error)})`);
  }
}

// Return the bytes of a recipe.
function bytesOf(parts) {
  const pieces = parts.map((part) => {
    if ("zeros" in part) return Buffer.alloc(part.zeros);
    if ("repeat" in part) return Buffer.concat(Array(part.count).fill(bytesOf([part.repeat])));
    if ("hex" in part) return Buffer.from(part.hex, "hex");
    return Buffer.from(part.text, "utf8");
  });
  return Buffer.concat(pieces);
}

function unsupported(message) {
  return Object.assign(new Error(message), { name: "Unsupported" });
}

// Return a string. A string that JSON cannot express arrives in parts, as UTF-8 with lone surrogates.
function textOf(value) {
  if (typeof value !== "object" || value === null || Object.keys(value).join() !== "parts") return value;
  const pieces = bytesOf(value.parts).toString("latin1").split(/(\xed[\xa0-\xbf][\x80-\xbf])/);
  const unit = (p) => 0xd000 | ((p.charCodeAt(1) & 0x3f) << 6) | (p.charCodeAt(2) & 0x3f);
  return pieces
    .map((p, i) => (i % 2 ? String.fromCharCode(unit(p)) : Buffer.from(p, "latin1").toString("utf8")))
    .join("");
}

// Return the metadata to write: a Map, or another value. A map that JSON cannot express arrives as a list of items.
function metadataOf(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const items = Array.isArray(value.items) ? value.items : Object.entries(value);
  return new Map(items.map(([key, text]) => [textOf(key), textOf(text)]));
}

// Build the tensors and the metadata to write from the request.
function toWrite(request) {
  const memory = Object.fromEntries(
    Object.entries(request.storages).map(([name, parts]) => [name, new Uint8Array(bytesOf(parts))]),
  );
  const tensors = request.tensors.map((t) => ({ ...t, name: textOf(t.name), storage: memory[t.storage] }));
  return [tensors, metadataOf(request.metadata)];
}

async function step(adapter, request) {
  const { path, summary } = request;
  if (adapter.check) {
    const valid = await adapter.check(path);
    if (typeof valid !== "boolean") throw new AdapterError(`check() gave ${kindOf(valid)} instead of true or false`);
    return { outcome: valid ? "accept" : "reject" };
  }
  if (typeof adapter[request.step] !== "function") throw unsupported(`the adapter has no ${request.step}`);
  const marked = adapter.marked === true;
  if (request.step === "write") {
    if (request.file_size_limit != null) throw unsupported("Node.js cannot limit the size of files");
    await adapter.write(path, ...lookedAt(() => toWrite(request), "the tensors to write cannot be created"));
    return { outcome: "accept" };
  }
  const given = await adapter[request.step](path, request.tensor, request.index);
  if (request.step === "resave") return { outcome: "accept" };
  const told = lookedAt(() => content(given, summary, marked), "the result cannot be reported");
  return { ...told, outcome: "accept" };
}

// Classify a thrown value as a mistake in the adapter or an outcome of the library.
function failed(thrown, marked) {
  const own = !(thrown instanceof OfLibrary);
  const error = own ? thrown : thrown.error;
  const message = describe(error);
  if (thrown instanceof AdapterError) {
    return { outcome: "harness-error", message: `the adapter failed: ${thrown.message}` };
  }
  if (nameOf(error) === "Unsupported") return { outcome: "unsupported", message };
  if (error instanceof Refused) return { outcome: "reject", message: error.message };
  if (own && (marked || error instanceof ReferenceError)) {
    const place = /[^/(\s]+:\d+:\d+/.exec(String(error?.stack ?? "").split("\n    at ")[1] ?? "");
    return { outcome: "harness-error", message: `the adapter failed: ${message}${place ? ` (${place[0]})` : ""}` };
  }
  return { outcome: "reject", message, exception: nameOf(error) };
}

async function run(adapter, request) {
  const answer = { seq: request.seq };
  const began = process.cpuUsage();
  try {
    Object.assign(answer, await step(adapter, request));
  } catch (thrown) {
    Object.assign(answer, failed(thrown, adapter.marked === true));
  }
  const used = process.cpuUsage(began);
  answer.cpu_ms = (used.user + used.system) / 1000;
  return answer;
}

// Describe an invalid part of an adapter.
function misuse(adapter) {
  if (typeof adapter !== "object" || adapter === null) return { message: `make() gave ${kindOf(adapter)}` };
  for (const name of [...METHODS, "resave", "check"]) {
    if (adapter[name] != null && typeof adapter[name] !== "function") {
      return { message: `${name} of the adapter must be a method, not ${kindOf(adapter[name])}` };
    }
  }
  const { lacks } = adapter;
  if (lacks !== undefined && !(Array.isArray(lacks) && lacks.every((x) => typeof x === "string"))) {
    return { message: `lacks of the adapter must be an array of names, such as ["dtype-f4"], not ${kindOf(lacks)}` };
  }
  return undefined;
}

const [adapterPath, folder] = process.argv.slice(2);
const require = createRequire(pathToFileURL(resolve(folder, "package.json")));
const inside = (name, file) => resolve(folder, "node_modules", name, file);
const load = async (name, file) => import(pathToFileURL(file ? inside(name, file) : require.resolve(name)));
const version = (name) => JSON.parse(readFileSync(inside(name, "package.json"), "utf8")).version;
let adapter;
let problem;
try {
  const module = await import(pathToFileURL(resolve(adapterPath)));
  const refused = (text) => new Refused(text);
  adapter = await module.make(load, { folder, require, version, call, refused, unsupported, UNTOLD });
  problem = misuse(adapter);
} catch (error) {
  problem = { message: describe(error), traceback: String(error?.stack ?? "").slice(-2000) };
}
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const request = JSON.parse(line);
  if (request.cmd === "stop") break;
  if (request.cmd === "start") {
    send(
      problem
        ? { error: problem }
        : {
            protocol: PROTOCOL,
            implementation: {
              name: adapter.name,
              version: adapter.version ?? "unknown",
              language: adapter.language ?? "JavaScript",
            },
            steps: adapter.check ? ["open"] : METHODS.filter((m) => typeof adapter[m] === "function"),
            verdict_only: typeof adapter.check === "function",
            lacks: adapter.lacks ?? [],
          },
    );
  } else {
    send(await run(adapter, request));
  }
}
process.exit(0);
