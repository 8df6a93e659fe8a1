// Tests a minimal reader with the most basic cases.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { bytes, cases } from "safetensors-corpus-data";

function read(data) {
  const size = data.length < 8 ? Infinity : Number(data.readBigUInt64LE(0));
  if (size > data.length - 8 || data[8] !== 0x7b) throw new Error("no header");
  const { __metadata__: metadata = null, ...entries } = JSON.parse(data.toString("utf8", 8, 8 + size));
  const tensors = Object.entries(entries).map(([name, { dtype, shape, data_offsets: [begin, end] }]) => {
    const body = data.subarray(8 + size + begin, 8 + size + end);
    return { name, dtype, shape, nbytes: body.length, sha256: createHash("sha256").update(body).digest("hex") };
  });
  return { tensors, metadata };
}

for (const item of cases.filter((one) => one.smoke && one.kind === "read")) {
  test(item.id, () => {
    const { outcome, content } = item.expect;
    if (outcome === "reject") assert.throws(() => read(bytes(item)));
    else assert.deepEqual(read(bytes(item)), content);
  });
}
