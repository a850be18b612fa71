/**
 * Many sessions call the tools of one MCP server, which is killed again and again. Started by hand:
 * `node --import ./test/loader/register.mjs test/attack/mcp.ts [stdio|http] [sessions] [calls] [kills]`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { agent, type McpServer, mcpTools, open } from '../../src/index.ts';
import { scripted } from '../../src/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { freePort, isAlive } from '../support/processes.ts';

const SERVER = fileURLToPath(new URL('../tools/mcp/fixtures/counting-server.mjs', import.meta.url));
/** The tools of the calls, in turn: `pure`, `keyed`, `once`. */
const TOOLS = ['read', 'put', 'pay'] as const;
const DONE = /^\w+ \S+ done$/;

/** The size of a flood. */
export interface FloodSize {
  readonly transport: 'stdio' | 'http';
  readonly sessions: number;
  readonly calls: number;
  readonly kills: number;
}

/** The outcome of a flood. */
export interface FloodReport {
  readonly ms: number;
  /** Processes of the server that were started, and those of them that still run after the end. */
  readonly processes: number;
  readonly left: number;
  readonly kills: number;
  /** Calls with a result of the server, those answered "outcome unknown", and those that failed otherwise. */
  readonly done: number;
  readonly unknown: number;
  readonly failed: readonly string[];
  /** Calls without any answer. */
  readonly unanswered: number;
  /** `once` calls that took effect more than once. */
  readonly repeated: number;
  /** Calls that have a result of the server but no effect. */
  readonly lost: number;
}

/** Runs a flood in a directory in `tmpdir`, which is removed. */
export async function floodMcp({ transport, sessions, calls, kills }: FloodSize): Promise<FloodReport> {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-mcp-flood-'));
  const file = join(directory, 'effects');
  const over = transport === 'http' ? await startHttp(file) : undefined;
  const env = { EFFECTS_FILE: file };
  const server: McpServer = over?.server ?? { command: process.execPath, args: [SERVER], env };
  const provider = scripted((request, { session }) => {
    const done = request.messages.filter(({ role }) => role === 'assistant').length;
    if (done >= calls) return 'finished';
    // Neighbours use different tools at a time, so that a kill hits calls of each kind.
    const tool = TOOLS[(done + Number(session.slice(1))) % TOOLS.length];
    return { toolUse: { name: `s__${tool}`, input: { id: `${session}.${done}` } } };
  });
  const startedAt = performance.now();
  const runtime = await open(join(directory, 'store'), {
    provider,
    mcp: { s: server },
    agents: [agent({ name: 'caller', tools: [mcpTools('s')], toolRounds: calls + 1 })],
    logger: false,
  });
  const results: string[] = [];
  let unanswered = 0;
  let killed = 0;
  try {
    let isOver = false;
    const killing = (async () => {
      for (let kill = 1; kill <= kills && !isOver; kill += 1) {
        const lines = Math.floor((sessions * calls * kill) / (kills + 1));
        await eventually(async () => isOver || (await linesIn(file)).length >= lines);
        const pid = (await pidsIn(file)).at(-1);
        if (!isOver && pid !== undefined && isAlive(pid)) {
          process.kill(pid, 'SIGKILL');
          killed += 1;
        }
      }
    })();
    const ids = Array.from({ length: sessions }, (_, index) => `s${index}`);
    await Promise.all(ids.map((id) => runtime.session(id).ask('go')));
    isOver = true;
    await killing;
    for (const id of ids) {
      const messages = await runtime.session(id).messages();
      const answers = messages.filter(({ type }) => type === 'tool_response');
      unanswered += calls - answers.length;
      for (const { content } of answers) results.push(typeof content === 'string' ? content : JSON.stringify(content));
    }
  } finally {
    await runtime.close();
    await over?.end();
  }
  const ms = performance.now() - startedAt;
  const pids = await pidsIn(file);
  const effects = (await linesIn(file)).filter((line) => !line.startsWith('started'));
  const counts = new Map<string, number>();
  for (const line of effects) {
    const call = line.split(' ').slice(0, 2).join(' ');
    counts.set(call, (counts.get(call) ?? 0) + 1);
  }
  await rm(directory, { recursive: true, force: true });
  const done = results.filter((text) => DONE.test(text));
  const unknown = results.filter((text) => text.includes('Outcome unknown'));
  return {
    ms: Math.round(ms),
    processes: pids.length,
    left: pids.filter(isAlive).length,
    kills: killed,
    done: done.length,
    unknown: unknown.length,
    failed: results.filter((text) => !DONE.test(text) && !text.includes('Outcome unknown')),
    unanswered,
    repeated: [...counts].filter(([call, count]) => call.startsWith('pay ') && count > 1).length,
    lost: done.filter((text) => !counts.has(text.replace(/ done$/, ''))).length,
  };
}

/** A server over HTTP that is started again when it ends, as a service manager would do. */
async function startHttp(file: string): Promise<{ readonly server: McpServer; end(): Promise<void> }> {
  const port = await freePort();
  let child: ChildProcess | undefined;
  let isOver = false;
  const start = async (): Promise<void> => {
    const started = spawn(process.execPath, [SERVER, '--http', String(port)], {
      env: { ...process.env, EFFECTS_FILE: file },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child = started;
    started.once('exit', () => {
      if (!isOver) void start();
    });
    await once(started.stdout ?? started, 'data');
  };
  await start();
  return {
    server: { url: `http://127.0.0.1:${port}/mcp` },
    async end() {
      isOver = true;
      const ended = child === undefined ? undefined : once(child, 'exit');
      child?.kill('SIGKILL');
      await ended;
    },
  };
}

async function linesIn(file: string): Promise<readonly string[]> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text.split('\n').filter((line) => line !== '');
}

async function pidsIn(file: string): Promise<readonly number[]> {
  return (await linesIn(file)).flatMap((line) => (line.startsWith('started ') ? [Number(line.slice(8))] : []));
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [transport = 'stdio', sessions = '1000', calls = '20', kills = '5'] = process.argv.slice(2);
  const size = { sessions: Number(sessions), calls: Number(calls), kills: Number(kills) };
  const report = await floodMcp({ transport: transport === 'http' ? 'http' : 'stdio', ...size });
  const shown = { ...report, failed: report.failed.length, firstFailures: report.failed.slice(0, 3) };
  process.stdout.write(`${JSON.stringify(shown)}\n`);
  const isBad = report.unanswered + report.repeated + report.lost + report.left + report.failed.length > 0;
  process.exitCode = isBad || report.kills !== Number(kills) ? 1 : 0;
}
