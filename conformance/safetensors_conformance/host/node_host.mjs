// The worker's side for JavaScript readers: loads an adapter, answers requests on standard input.
//
// No dependencies. Usage: node node_host.mjs ADAPTER.mjs FOLDER [MEMORY_BYTES]; FOLDER holds node_modules with
// the library under test. An adapter exports `make(load)`, which returns (a promise of) an object with `name`,
// `version` and the methods of the Python host: `open(path)`, `read(path)`, `slice(path, tensor, index)`,
// `index(path)`, `write(path, tensors, metadata)`, `resave(path)`, or `check(path)`. `load(package)` imports a
// package out of FOLDER, `load(package, file)` one file of it; the second argument has `folder`, `require` and
// `version(package)`. A row is {name, dtype, shape, data}; a tensor to write is {name, dtype, shape, storage,
// offset, strides, byteorder, nbytes} with a Uint8Array as its storage, and metadata to write is a Map or null. An
// error means refused; one whose name is "Unsupported" means well formed but not supported.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { readFileSync, writeSync } from "node:fs";

const PROTOCOL = 1;
const METHODS = ["open", "read", "slice", "write", "index"];

// Whatever a library prints goes to standard error; only answers go to standard output.
for (const name of ["log", "info", "debug"]) console[name] = console.error;

function send(answer) {
  // BigInt dimensions are exact in JSON only as digits; numbers beyond 2^53 are what the reader made of them.
  const text = JSON.stringify(answer, (_, v) => (typeof v === "bigint" ? `\u0001${v}\u0001` : v));
  const data = Buffer.from(text.replace(/"\\u0001(-?\d+)\\u0001"/g, "$1") + "\n");
  for (let at = 0; at < data.length; ) {
    try {
      at += writeSync(1, data, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

function describe(error) {
  return `${error?.name ?? "Error"}: ${error?.message ?? error}`.slice(0, 2000);
}

// A dimension or metadata value as an answer can carry it; a nest of any depth becomes a word.
function plain(value) {
  if (typeof value !== "object" || value === null) return value ?? null;
  return Array.isArray(value) ? "(a list)" : "(an object)";
}

function row(item) {
  const shape = item.shape == null ? null : Array.from(item.shape, plain);
  const out = { name: item.name, dtype: plain(item.dtype), shape };
  if (item.data != null) {
    const { buffer, byteOffset, byteLength } = item.data;
    const bytes = buffer ? new Uint8Array(buffer, byteOffset, byteLength) : new Uint8Array(item.data);
    out.nbytes = bytes.length;
    out.sha256 = createHash("sha256").update(bytes).digest("hex");
  }
  return out;
}

function content(answer, summary) {
  const rows = Array.isArray(answer) ? answer : answer.tensors;
  const out = summary ? { tensor_count: rows.length } : { tensors: rows.map(row) };
  if (!Array.isArray(answer) && "metadata" in answer) {
    const { metadata } = answer;
    const map = metadata && typeof metadata === "object" && !Array.isArray(metadata);
    // Pairs keep a key that is the name of a member of every object.
    out.metadata = map ? Object.fromEntries(Object.entries(metadata).map(([k, v]) => [k, plain(v)])) : plain(metadata);
  }
  return out;
}

// The bytes that the parts of a recipe describe.
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

// A text; one that JSON cannot carry is spelled in parts, as UTF-8 with lone surrogates.
function textOf(value) {
  if (typeof value !== "object" || value === null || Object.keys(value).join() !== "parts") return value;
  const pieces = bytesOf(value.parts).toString("latin1").split(/(\xed[\xa0-\xbf][\x80-\xbf])/);
  const unit = (p) => 0xd000 | ((p.charCodeAt(1) & 0x3f) << 6) | (p.charCodeAt(2) & 0x3f);
  return pieces
    .map((p, i) => (i % 2 ? String.fromCharCode(unit(p)) : Buffer.from(p, "latin1").toString("utf8")))
    .join("");
}

// The metadata to write: a Map, or what is no map. One that JSON cannot carry is spelled as a list of items.
function metadataOf(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const items = Array.isArray(value.items) ? value.items : Object.entries(value);
  return new Map(items.map(([key, text]) => [textOf(key), textOf(text)]));
}

// Write a file out of memory that is described in the request.
function write(adapter, request) {
  if (request.file_size_limit != null) throw unsupported("Node.js cannot limit the size of files");
  const memory = Object.fromEntries(
    Object.entries(request.storages).map(([name, parts]) => [name, new Uint8Array(bytesOf(parts))]),
  );
  const tensors = request.tensors.map((t) => ({ ...t, name: textOf(t.name), storage: memory[t.storage] }));
  return adapter.write(request.path, tensors, metadataOf(request.metadata));
}

async function step(adapter, request) {
  if (request.step === "write") {
    await write(adapter, request);
    return {};
  }
  if (typeof adapter[request.step] !== "function") throw unsupported(`the adapter has no ${request.step}`);
  const given = await adapter[request.step](request.path, request.tensor, request.index);
  return request.step === "resave" ? {} : content(given, request.summary);
}

async function run(adapter, request) {
  const answer = { seq: request.seq };
  const began = process.cpuUsage();
  try {
    if (adapter.check) {
      answer.outcome = (await adapter.check(request.path)) ? "accept" : "reject";
    } else {
      Object.assign(answer, await step(adapter, request), { outcome: "accept" });
    }
  } catch (error) {
    const outcome = error?.name === "Unsupported" ? "unsupported" : "reject";
    Object.assign(answer, { outcome, message: describe(error), exception: error?.name ?? typeof error });
    if (error instanceof ReferenceError) answer.outcome = "harness-error";
  }
  const used = process.cpuUsage(began);
  answer.cpu_ms = (used.user + used.system) / 1000;
  return answer;
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
  adapter = await module.make(load, { folder, require, version });
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
