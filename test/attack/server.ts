/** A server to attack, in a separate process, and the requests to it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';

/** Addresses of this machine that the clients use. */
export const ADDRESSES = 100;

/** The answers to health checks during the attack. */
export interface Health {
  readonly healthAsked: number;
  /** Probes without a 200. */
  readonly healthFailed: number;
  readonly healthWorstMs: number;
}

/** An answer with its body read. */
export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** A model that answers at once, and a model that never answers. */
const MODELS = {
  quick: `scripted({ rules: [], otherwise: 'done' })`,
  silent: `{ name: 'silent', generate: (_request, { signal }) => new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  }) }`,
};

/** Starts `troupe serve` over the store `data` in a directory. */
export async function startServer(
  directory: string,
  model: keyof typeof MODELS = 'quick',
): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const source = (path: string): string => new URL(`../../${path}`, import.meta.url).href;
  await writeFile(
    join(directory, 'agents.mjs'),
    `import { agent } from ${JSON.stringify(source('src/index.ts'))};
     import { scripted } from ${JSON.stringify(source('src/testing/scripted.ts'))};
     export default { agents: [agent({ name: 'a' })], provider: ${MODELS[model]} };`,
  );
  const main = fileURLToPath(source('src/cli/main.ts'));
  const loader = fileURLToPath(new URL('../loader/register.mjs', import.meta.url));
  const line = ['--import', pathToFileURL(loader).href, main, 'serve', 'data', '--port', '0', '--json'];
  const child = spawn(process.execPath, [...line, '--agents', 'agents.mjs'], {
    cwd: directory,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  for await (const piece of child.stdout) {
    said += String(piece);
    if (!said.includes('\n')) continue;
    return { child, url: (JSON.parse(said) as { readonly url: string }).url };
  }
  throw new Error(`the server ended: ${said}`);
}

/** Sends a request on a separate connection. */
export function ask(url: string, body?: unknown, localAddress = '127.0.0.1'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const options = { method: body === undefined ? 'GET' : 'POST', headers, localAddress, agent: new Agent() };
    const asked = request(url, options, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (piece: string) => {
        text += piece;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      response.on('error', reject);
    });
    asked.on('error', reject);
    asked.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** Asks for health from a separate thread until it is stopped. */
export function watchHealth(url: string): { readonly stop: () => Promise<Health> } {
  const worker = new Worker(new URL('health-watch.ts', import.meta.url), { workerData: { url } });
  const told = once(worker, 'message');
  return {
    async stop() {
      worker.postMessage('stop');
      const [health] = (await told) as [Health];
      return health;
    },
  };
}

/** Acknowledged messages that the logs or the mailboxes have. */
export async function countFound(
  url: string,
  receipts: readonly { readonly session: string; readonly text: string }[],
): Promise<number> {
  const said = new Map<string, Set<string>>();
  for (const session of new Set(receipts.map((receipt) => receipt.session))) {
    const texts = new Set<string>();
    for (const list of ['messages', 'pending']) {
      for (let after = ''; ; ) {
        const { text } = await ask(`${url}/sessions/${session}/${list}?limit=1000${after}`);
        const page = JSON.parse(text) as Readonly<Record<string, unknown>>;
        for (const { content } of page[list] as readonly { readonly content: unknown }[]) {
          texts.add(String(content).split(' ', 2).join(' '));
        }
        if (page['next'] === undefined) break;
        after = `&after=${String(page['next'])}`;
      }
    }
    said.set(session, texts);
  }
  return receipts.filter(({ session, text }) => said.get(session)?.has(text) === true).length;
}

/** The peak memory of the server, in megabytes. */
export async function peakOf(child: ChildProcess): Promise<number> {
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1_024;
}
