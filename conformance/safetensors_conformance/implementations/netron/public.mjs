// Netron's public ModelFactoryService, which opens every file in the viewer, for comparison with the adapter.
import { readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { beside, packages } from "./adapter.mjs";

export async function make(load, { folder, call }) {
  const where = join(packages(resolve(folder)), "netron");
  const part = (name) => import(pathToFileURL(join(where, `${name}.js`)));
  const { ModelFactoryService } = await part("view");
  const { BinaryStream } = await part("base");
  const stream = (path) => new BinaryStream(new Uint8Array(readFileSync(path)));
  const service = new ModelFactoryService({ require: part });
  return {
    name: "netron",
    version: "public",
    marked: true,
    async read(path) {
      const fetch = (name) => stream(beside(path, name));
      await call(() => service.open({ identifier: basename(path), stream: stream(path), fetch }));
      return [];
    },
  };
}
