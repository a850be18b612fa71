/**
 * Runs the files of a bundle (`bundles.mjs`). A thread of a test starts from here, hundreds of times in a run. The code
 * that V8 compiles of a file is kept beside it, so that later threads do not compile it again. Modules of Node's own
 * loader cannot be kept on Node 20, so the files are scripts. That halves the start of a session thread.
 */
const { readFileSync, renameSync, writeFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const { dirname, join } = require('node:path');
const { Script } = require('node:vm');
const { threadId } = require('node:worker_threads');

/** By then a thread has run what it needs for its start. Code that has not run is not in what is kept. */
const KEEP_AFTER_MS = 100;
const loaded = new Map();

/**
 * The exports of a file, which imports other files of its bundle with `./`. `address` is that of its source. A file has
 * one instance for each query in the address.
 */
function load(file, address) {
  const instance = `${file}${address === undefined ? '' : new URL(address).search}`;
  const known = loaded.get(instance);
  if (known !== undefined) return known.exports;
  const module = { exports: {} };
  loaded.set(instance, module);
  const code = `${file}.code`;
  const cachedData = readIfThere(code);
  const script = new Script(readFileSync(file, 'utf8'), { filename: file, cachedData });
  if (cachedData === undefined) setTimeout(() => keep(code, script.createCachedData()), KEEP_AFTER_MS).unref();
  const outside = createRequire(file);
  const inside = (name) => (name.startsWith('./') ? load(join(dirname(file), name)) : outside(name));
  script.runInThisContext()(module.exports, inside, module, address);
  return module.exports;
}

function readIfThere(file) {
  try {
    return readFileSync(file);
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * The file is renamed to its final name, since other threads read at the same moment. A thread may live longer than the
 * directory, which is removed when the run ends.
 */
function keep(file, data) {
  const fresh = `${file}.${process.pid}.${threadId}`;
  try {
    writeFileSync(fresh, data);
    renameSync(fresh, file);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
}

module.exports = { load };
