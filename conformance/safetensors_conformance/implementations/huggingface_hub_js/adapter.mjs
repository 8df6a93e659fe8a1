// Adapter for parseSafetensorsMetadata in @huggingface/hub, with a fetch function that serves the folder of the file.
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

// Answer a request for a file in the folder, or for a range of a file, as the hub would.
function answer(folder, url, init) {
  const path = join(folder, decodeURIComponent(String(url).split("/resolve/main/")[1]));
  let file;
  try {
    if (!statSync(path).isFile()) throw new Error("no file");
    file = openSync(path, "r");
  } catch {
    return new Response("", { status: 404, headers: { "X-Error-Code": "EntryNotFound" } });
  }
  try {
    const { size } = fstatSync(file);
    const range = /bytes=(\d+)-(\d+)/.exec(init?.headers?.Range ?? "");
    const [first, last] = range ? [Number(range[1]), Math.min(Number(range[2]), size - 1)] : [0, size - 1];
    const bytes = Buffer.alloc(Math.max(last - first + 1, 0));
    readSync(file, bytes, 0, bytes.length, first);
    const headers = { ETag: '"local"', "Content-Range": `bytes ${first}-${last}/${size}` };
    return new Response(bytes, { status: range ? 206 : 200, headers });
  } finally {
    closeSync(file);
  }
}

export async function make(load, { version, call }) {
  const { parseSafetensorsMetadata } = await load("@huggingface/hub");
  async function parse(path) {
    let mistake; // an error of the fake hub, which the library passes on but did not cause
    const fetch = async (url, init) => {
      try {
        return answer(dirname(path), url, init);
      } catch (error) {
        mistake = error;
        throw error;
      }
    };
    try {
      return await call(() => parseSafetensorsMetadata({ repo: "local/folder", path: basename(path), fetch }));
    } catch (error) {
      throw mistake ?? error;
    }
  }
  // An entry may be something other than an object, and then it has no fields.
  const rows = (header) =>
    Object.entries(header)
      .filter(([name]) => name !== "__metadata__")
      .map(([name, entry]) => ({ name, dtype: entry?.dtype, shape: entry?.shape }));
  return {
    name: "huggingface-hub-js",
    version: version("@huggingface/hub"),
    language: "TypeScript",
    marked: true,
    async open(path) {
      const { header } = await parse(path);
      return { tensors: rows(header), metadata: header.__metadata__ };
    },
    async remote(url) {
      const [, hubUrl, name, path] = /^(https?:\/\/[^/]+)\/([^/]+\/[^/]+)\/resolve\/main\/(.*)$/.exec(url);
      const repo = { type: "model", name };
      const { header } = await call(() => parseSafetensorsMetadata({ repo, path, hubUrl }));
      return { tensors: rows(header), metadata: header.__metadata__ };
    },
    async index(path) {
      // The library returns the headers by shard, and separately the map that says which shard counts for a tensor.
      const { headers, index } = await parse(path);
      return Object.entries(headers).flatMap(([shard, header]) =>
        rows(header).filter(({ name }) => !(name in index.weight_map) || index.weight_map[name] === shard),
      );
    },
  };
}
