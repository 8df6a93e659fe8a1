// @huggingface/hub: parseSafetensorsMetadata, with a fetch that answers from the folder of the file.
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

// Answer a request for a file of the folder, or for a range of it, as the hub would.
function local(folder) {
  return async (url, init) => {
    const path = join(folder, decodeURIComponent(String(url).split("/resolve/main/")[1]));
    let file;
    try {
      file = openSync(path, "r");
    } catch {
      return new Response("", { status: 404, headers: { "X-Error-Code": "EntryNotFound" } });
    }
    try {
      const { size } = statSync(path);
      const range = /bytes=(\d+)-(\d+)/.exec(init?.headers?.Range ?? "");
      const [first, last] = range ? [Number(range[1]), Math.min(Number(range[2]), size - 1)] : [0, size - 1];
      const bytes = Buffer.alloc(Math.max(last - first + 1, 0));
      readSync(file, bytes, 0, bytes.length, first);
      const headers = { ETag: '"local"', "Content-Range": `bytes ${first}-${last}/${size}` };
      return new Response(bytes, { status: range ? 206 : 200, headers });
    } finally {
      closeSync(file);
    }
  };
}

export async function make(load, { version }) {
  const { parseSafetensorsMetadata } = await load("@huggingface/hub");
  const parse = (path) =>
    parseSafetensorsMetadata({ repo: "local/folder", path: basename(path), fetch: local(dirname(path)) });
  const rows = (header) =>
    Object.entries(header)
      .filter(([name]) => name !== "__metadata__")
      .map(([name, { dtype, shape }]) => ({ name, dtype, shape }));
  return {
    name: "huggingface-hub-js",
    version: version("@huggingface/hub"),
    language: "TypeScript",
    async open(path) {
      const { header } = await parse(path);
      return { tensors: rows(header), metadata: header.__metadata__ };
    },
    async index(path) {
      const { headers } = await parse(path);
      return Object.values(headers).flatMap(rows);
    },
  };
}
