// Runs before anything else is loaded, on whatever Node there is: only syntax that old versions read.
const [major, minor] = process.versions.node.split(".").map(Number);

if (major < 20 || (major === 20 && minor < 19)) {
  console.error(
    `Turno needs Node.js 20.19 or newer, and this is ${process.versions.node} (${process.execPath}).\n` +
      "Install a current version from https://nodejs.org or with your version manager, for example: nvm install 22",
  );
  process.exit(1);
}
