/**
 * The entry file of a thread, which lies beside the module that starts it. `stem`: relative, without extension
 * (`./tool-threads.worker`). `base`: the caller's `import.meta.url`; its extension is kept, `.ts` from source and `.js`
 * from the built package.
 */
export function workerUrl(stem: string, base: string): URL {
  return new URL(stem + (new URL(base).pathname.endsWith('.ts') ? '.ts' : '.js'), base);
}
