/** Load hook before the TypeScript loader: it replaces the source of one file by the one with the planted bug. */
let planted = { url: '', code: '' };

export function initialize(data) {
  planted = data;
}

export function load(url, context, nextLoad) {
  const [address] = url.split(/[?#]/u);
  if (address !== planted.url) return nextLoad(url, context);
  return { format: 'module', source: planted.code, shortCircuit: true };
}
