// A JavaScript reader that speaks the worker protocol. It needs only Node:
//     pytest conformance --impl="cmd:node docs/examples/stdio_reader.mjs"
// The reader itself is corpus_reader.mjs. Replace it with yours.
import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { createInterface } from "node:readline";
import { list } from "./corpus_reader.mjs";

const CHUNK = 1 << 20;
const CAP = 100_000_000;

function bytesAt(fd, position, length) {
  const buffer = Buffer.alloc(length);
  let got = 0;
  for (let n = 1; got < length && n > 0; got += n) n = readSync(fd, buffer, got, length - got, position + got);
  return buffer.subarray(0, got);
}

function digest(fd, begin, end) {
  const hash = createHash("sha256");
  for (let at = begin; at < end; at += CHUNK) hash.update(bytesAt(fd, at, Math.min(CHUNK, end - at)));
  return hash.digest("hex");
}

// Returns one tensor as JSON text. It writes the digits of each dimension, because a double may be inexact.
function row(fd, tensor, step) {
  const { name, dtype, shape, begin, end } = tensor;
  const told = [`"name":${JSON.stringify(name)}`, `"dtype":"${dtype}"`, `"shape":[${shape.join(",")}]`];
  if (step === "read") told.push(`"nbytes":${end - begin}`, `"sha256":"${digest(fd, Number(begin), Number(end))}"`);
  return `{${told.join(",")}}`;
}

function run({ seq, step, path, summary }) {
  if (step !== "open" && step !== "read") return { seq, outcome: "unsupported", message: `no step ${step}` };
  let fd;
  try {
    fd = openSync(path);
    const { size } = fstatSync(fd);
    const prefix = bytesAt(fd, 0, Math.min(8, size));
    const length = prefix.length < 8 ? 0n : prefix.readBigUInt64LE();
    const whole = length <= CAP && length <= size - 8; // if false, list() rejects the file because of its prefix
    const { tensors, metadata } = list(whole ? bytesAt(fd, 0, 8 + Number(length)) : prefix, size);
    const answer = { seq, outcome: "accept", metadata: metadata ?? null };
    if (summary) return { ...answer, tensor_count: tensors.length };
    return { ...answer, tensors: tensors.map((tensor) => row(fd, tensor, step)) };
  } catch (error) {
    return { seq, outcome: "reject", message: String(error?.message ?? error).slice(0, 500) };
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function send({ tensors, ...answer }) {
  const text = JSON.stringify(answer);
  process.stdout.write(tensors ? `${text.slice(0, -1)},"tensors":[${tensors}]}\n` : `${text}\n`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.cmd === "stop") break;
  if (request.cmd === "start") {
    const implementation = { name: "JavaScript example", version: "1.0", language: "JavaScript" };
    send({ protocol: 1, implementation, steps: ["open", "read"] });
  } else {
    send(run(request));
  }
}
process.exit(0);
