/** What editors, version control and package managers leave beside the files: vim, Emacs, JetBrains, Nano, patch. */
const LITTER = [/^\./, /~$/, /^#.*#$/, /^4913$/, /\.sw[a-p]$/i, /\.(tmp|bak|orig|rej|part|crdownload)$/i, /^___jb_/];

/** Whether a file or folder of this name is never part of a project. */
export function isLitter(name: string): boolean {
  return name === "node_modules" || LITTER.some((pattern) => pattern.test(name));
}
