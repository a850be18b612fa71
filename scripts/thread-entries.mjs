/** The part of a build that all bundles of the sources share: entries of threads, and what is not bundled. */
import { dirname, relative, resolve, sep } from 'node:path';

/** The entry of a thread, or a module that threads import by its URL. */
const WORKER_URL = /\bworkerUrl\(\s*'([^']+)',\s*import\.meta\.url\s*,?\s*\)/g;

/** A plugin. Each `workerUrl` call names an entry. The call is given the name that this entry has in the output. */
export function threadEntries(project) {
  const names = new Map();
  return {
    name: 'thread-entries',
    transform(code, id) {
      if (!code.includes('workerUrl(')) return undefined;
      return code.replaceAll(WORKER_URL, (_, stem) => {
        const path = `${resolve(dirname(id), stem)}.ts`;
        if (!names.has(path)) {
          const name = relative(project, path).split(sep).slice(1).join('-').replace(/\.ts$/, '');
          names.set(path, name);
          this.emitFile({ type: 'chunk', id: path, fileName: `${name}.js`, preserveSignature: 'strict' });
        }
        return `workerUrl('./${names.get(path)}', import.meta.url)`;
      });
    },
  };
}

/** True for an import of a package, or of Node. */
export function isPackage(id) {
  return !id.startsWith('.') && !id.startsWith('/') && !id.startsWith('\0') && !/^[A-Za-z]:[\\/]/.test(id);
}
