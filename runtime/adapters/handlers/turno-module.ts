import type { Plugin } from "esbuild";
import * as handlerModule from "../../handler.ts";
import { HOST_MODULE_KEY } from "./realm.ts";

/**
 * What bundles get for `import … from "turno"`: names that are looked up in the running Turno when the bundle loads.
 * So a bundle holds no code of Turno, its hash depends on neither Turno's version nor its place, and one bundle runs
 * wherever a worker of Turno runs. A name that nobody imports leaves no trace.
 */
export const turnoModule: Plugin = {
  name: "turno-host",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^turno$/ }, () => ({ path: "turno", namespace: "turno-host", sideEffects: false }));
    onLoad({ filter: /.*/, namespace: "turno-host" }, () => ({ contents: moduleText(), loader: "js" }));
  },
};

function moduleText(): string {
  const names = Object.keys(handlerModule).sort();
  return [
    "const ofHost = (name) => {",
    `  const host = globalThis[Symbol.for(${JSON.stringify(HOST_MODULE_KEY)})];`,
    '  if (host === undefined) throw new Error("this module runs in a Turno worker only");',
    "  return host[name];",
    "};",
    ...names.map((name) => `export const ${name} = /* @__PURE__ */ ofHost("${name}");`),
  ].join("\n");
}
