import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { type BuildOptions, build, type Message, type Metafile, type Plugin, stop } from "esbuild";
import { describeError } from "../../core/errors.ts";
import { bundleHash } from "./bundle-cache.ts";
import { turnoModule } from "./turno-module.ts";

export interface HandlerBundleResult {
  /** Path below the handlers' folder, as declared. */
  readonly handler: string;
  /** `sha256:` and the hash of the code; equal files give equal hashes on every machine. */
  readonly hash: string;
  /** One ES module with its inline source map. */
  readonly code: string;
  /** Versions of native packages that stay out of the bundle; they are part of the code's first line too. */
  readonly externals: Readonly<Record<string, string>>;
  /** Every file the bundle was made of, relative to the project's root. */
  readonly inputs: readonly string[];
}

/** Why a handler does not bundle or type-check; line and column count from 1. */
export interface HandlerProblem {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

export interface BundleRequest {
  /** The project's folder. */
  readonly root: string;
  /** Folder of the handlers, absolute or relative to the root. */
  readonly handlersDir: string;
  /** Handler paths below it; those that ship with Turno are left to the caller. */
  readonly entries: readonly string[];
}

export interface BundleOutcome {
  readonly bundles: readonly HandlerBundleResult[];
  /** Sorted by file and position; when there are any, their handlers are not among the bundles. */
  readonly problems: readonly HandlerProblem[];
}

/** Node resolves what stays external from here, and source maps point from here. */
const BUNDLE_FOLDER = join(".turno", "bundles");
/** CommonJS packages ask for Node's own modules by `require`, which ES modules do not have. */
const BANNER = `import { createRequire as turnoCreateRequire } from "node:module"; const require = turnoCreateRequire(import.meta.url);`;
/** What a package with compiled parts lists among its dependencies. */
const NATIVE_LOADERS = [
  "bindings",
  "node-gyp-build",
  "node-addon-api",
  "prebuild-install",
  "@mapbox/node-pre-gyp",
  "nan",
];

/** Bundles every handler into one ES module, each on its own, so that no handler's hash depends on another. */
export async function bundleHandlers({ root, handlersDir, entries }: BundleRequest): Promise<BundleOutcome> {
  const realRoot = realpathSync(root);
  const folder = resolve(realRoot, handlersDir);
  const results = await Promise.all([...new Set(entries)].map((entry) => bundleOne(realRoot, folder, entry)));
  const problems = new Map<string, HandlerProblem>();
  for (const { problems: found } of results) {
    // A module that several handlers import has its errors once.
    for (const problem of found) problems.set(JSON.stringify(problem), problem);
  }
  return {
    bundles: results.flatMap(({ bundle }) => (bundle === null ? [] : [bundle])),
    problems: [...problems.values()].sort(
      (left, right) => compare(left.file, right.file) || left.line - right.line || left.column - right.column,
    ),
  };
}

interface OneResult {
  readonly bundle: HandlerBundleResult | null;
  readonly problems: readonly HandlerProblem[];
}

async function bundleOne(root: string, folder: string, handler: string): Promise<OneResult> {
  const file = resolve(folder, handler);
  const shown = slashes(relative(root, file));
  const problem = (message: string): OneResult => ({
    bundle: null,
    problems: [{ file: shown, line: 1, column: 1, message }],
  });
  if (!file.startsWith(folder + sep)) return problem(`the handler ${handler} lies outside of the handlers' folder`);
  if (!existsSync(file) || !statSync(file).isFile()) return problem(`there is no handler file ${shown}`);
  try {
    const native = new Map<string, string>();
    let built = await buildOnce(root, file, native);
    // Which packages are native shows only while they are resolved: those found are left out of a second build.
    for (let known = 0; known < native.size; ) {
      known = native.size;
      built = await buildOnce(root, file, native);
    }
    const output = Object.values(built.metafile.outputs)[0];
    const code = built.outputFiles[0]?.text;
    if (output === undefined || code === undefined) return problem("esbuild gave no output");
    if (!output.exports.includes("default")) {
      return problem("a handler file needs a default export: export default defineHandler(async (payload, ctx) => …)");
    }
    const externals = Object.fromEntries([...native].sort(([left], [right]) => compare(left, right)));
    const named = native.size === 0 ? code : `// native packages: ${JSON.stringify(externals)}\n${code}`;
    return {
      bundle: { handler, hash: bundleHash(named), code: named, externals, inputs: inputsOf(built.metafile) },
      problems: [],
    };
  } catch (error) {
    const { errors } = error as { readonly errors?: readonly Message[] };
    if (!Array.isArray(errors)) return problem(describeError(error));
    return { bundle: null, problems: errors.map((message: Message) => toProblem(message, shown)) };
  }
}

async function buildOnce(root: string, entry: string, native: Map<string, string>) {
  const tsconfig = join(root, "tsconfig.json");
  const options = {
    absWorkingDir: root,
    entryPoints: [entry],
    outfile: join(root, BUNDLE_FOLDER, "bundle.mjs"),
    // Without the project's own file, one further up on this machine must not decide.
    ...(existsSync(tsconfig) ? { tsconfig } : { tsconfigRaw: {} }),
    bundle: true,
    write: false,
    metafile: true,
    platform: "node",
    format: "esm",
    target: "node20",
    charset: "utf8",
    sourcemap: "inline",
    sourcesContent: false,
    legalComments: "none",
    banner: { js: BANNER },
    logLevel: "silent",
    plugins: [turnoModule, nativePackages(native)],
  } as const satisfies BuildOptions;
  return buildSurely(() => build(options));
}

/** Each life of esbuild's own process. */
let serviceLife = 0;

/** One build; a service that died since the last one, as by want of memory, is started again and asked once more. */
async function buildSurely<Result>(run: () => Promise<Result>): Promise<Result> {
  const life = serviceLife;
  try {
    return await run();
  } catch (error) {
    if (Array.isArray((error as { readonly errors?: unknown }).errors)) throw error;
    // Of many builds that failed together only the first ends the old service: the second would end the new one.
    if (life === serviceLife) {
      serviceLife += 1;
      await stop();
    }
    return run();
  }
}

/**
 * Leaves packages with native addons out: the addon is found beside the package's own files, and is built for the
 * machine it runs on. Found ones are added to `native` with their versions.
 */
function nativePackages(native: Map<string, string>): Plugin {
  return {
    name: "native-packages",
    setup({ onResolve, resolve: resolveModule }) {
      onResolve({ filter: /^[^./]/ }, async ({ path, importer, resolveDir, kind, pluginData }) => {
        if (pluginData === SKIP || kind === "entry-point" || path.startsWith("node:")) return undefined;
        const name = packageName(path);
        if (native.has(name)) return { path, external: true };
        const resolved = await resolveModule(path, { importer, resolveDir, kind, pluginData: SKIP });
        if (resolved.errors.length > 0 || resolved.external || resolved.namespace !== "file") return undefined;
        const folder = packageFolder(resolved.path);
        if (folder !== null && (isNative(folder) || resolved.path.endsWith(".node"))) {
          // A platform's own package is an implementation detail of the package that asks for it.
          const owner = (resolved.path.endsWith(".node") ? packageFolder(importer) : null) ?? folder;
          native.set(...nameAndVersion(owner));
          return { path, external: true };
        }
        return resolved;
      });
      onResolve({ filter: /^\.{0,2}\/.*\.node$/ }, ({ path, importer }) => {
        const owner = packageFolder(importer);
        if (owner === null) {
          return {
            errors: [{ text: `${path}: a native addon has to come from a package, so that every worker has it` }],
          };
        }
        native.set(...nameAndVersion(owner));
        return { path, external: true };
      });
    },
  };
}

const SKIP = Symbol("resolved by the native-packages plugin itself");

function isNative(folder: string): boolean {
  if (existsSync(join(folder, "binding.gyp"))) return true;
  const { gypfile, napi, dependencies = {} } = readPackage(folder);
  return gypfile === true || napi !== undefined || NATIVE_LOADERS.some((name) => name in dependencies);
}

interface PackageFile {
  readonly name?: string;
  readonly version?: string;
  readonly gypfile?: boolean;
  readonly napi?: unknown;
  readonly dependencies?: Readonly<Record<string, string>>;
}

function readPackage(folder: string): PackageFile {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as PackageFile;
}

function nameAndVersion(folder: string): [name: string, version: string] {
  const { name = folder, version = "unknown" } = readPackage(folder);
  return [name, version];
}

/** The folder of the installed package a file belongs to; null for the project's own files. */
function packageFolder(file: string): string | null {
  if (!file.includes(`${sep}node_modules${sep}`)) return null;
  for (let folder = dirname(file); folder.includes(`${sep}node_modules${sep}`); folder = dirname(folder)) {
    const packageFile = join(folder, "package.json");
    if (existsSync(packageFile) && readPackage(folder).name !== undefined) return folder;
  }
  return null;
}

function packageName(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

function inputsOf({ inputs }: Metafile): readonly string[] {
  return Object.keys(inputs)
    .filter((path) => !path.startsWith(`${turnoModule.name}:`))
    .sort(compare);
}

function toProblem({ location, text }: Message, entry: string): HandlerProblem {
  if (location === null) return { file: entry, line: 1, column: 1, message: text };
  // esbuild counts columns from 0, in bytes.
  const before = Buffer.from(location.lineText).subarray(0, location.column).toString("utf8");
  return { file: slashes(location.file), line: location.line, column: before.length + 1, message: text };
}

function slashes(path: string): string {
  return sep === "/" ? path : path.replaceAll(sep, "/");
}

function compare(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
