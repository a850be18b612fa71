/** Connections to MCP servers in tests: closed after the test that made them, with the effects their server recorded. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach } from 'vitest';
import { systemCodeOf } from '../../../src/base/errors.ts';
import type { McpCall, McpProcess, McpServerMap, McpToolList } from '../../../src/tools/mcp/protocol.ts';
import { McpService } from '../../../src/tools/mcp/service.ts';

const fixture = (name: string): string => fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url));

/** The effects of a server, in a file. */
export interface Effects {
  readonly file: string;
  /** The server over stdio; `args`: further arguments. */
  process(...args: readonly string[]): McpProcess;
  /** The server whose tools ask. */
  asking(...args: readonly string[]): McpProcess;
  /** The lines that the server's processes have written. */
  lines(): Promise<readonly string[]>;
  /** The processes that were started. */
  pids(): Promise<readonly number[]>;
}

/** Registers the clean-up; call it once at the top of a test file. */
export function effectsKit(): () => Promise<Effects> {
  const directories: string[] = [];
  afterEach(async () => {
    for (const path of directories.splice(0)) await rm(path, { recursive: true, force: true });
  });
  return async () => {
    const directory = await mkdtemp(join(tmpdir(), 'troupe-mcp-'));
    directories.push(directory);
    const file = join(directory, 'effects');
    const lines = async (): Promise<readonly string[]> => {
      try {
        return (await readFile(file, 'utf8')).trim().split('\n');
      } catch (error) {
        if (systemCodeOf(error) === 'ENOENT') return [];
        throw error;
      }
    };
    const started = (server: string, args: readonly string[]): McpProcess => ({
      command: process.execPath,
      args: [fixture(server), ...args],
      env: { EFFECTS_FILE: file },
    });
    return {
      file,
      lines,
      process: (...args) => started('counting-server.mjs', args),
      asking: (...args) => started('asking-server.mjs', args),
      pids: async () => (await lines()).flatMap((line) => (line.startsWith('started ') ? [Number(line.slice(8))] : [])),
    };
  };
}

/** The connections of a test, and what they reported. */
export interface Stage {
  readonly service: McpService;
  readonly lists: McpToolList[];
  readonly warnings: string[];
  readonly progressed: unknown[];
  /** Calls a tool of the server `s`. */
  call(tool: string, input?: object, given?: Partial<McpCall>, signal?: AbortSignal): ReturnType<McpService['call']>;
}

/** Registers the end of the connections; call it once at the top of a test file. */
export function servicesKit(): (servers: McpServerMap) => Promise<Stage> {
  const services: McpService[] = [];
  afterEach(async () => {
    for (const service of services.splice(0)) await service.close();
  });
  return async (servers) => {
    const lists: McpToolList[] = [];
    const warnings: string[] = [];
    const progressed: unknown[] = [];
    const service = new McpService(
      {
        tools: (list) => lists.push(list),
        lost: (server, why) => warnings.push(`${server}: ${why}`),
        warn: (message) => warnings.push(message),
      },
      '0.0.0',
    );
    services.push(service);
    await service.configure(servers);
    const call: Stage['call'] = (tool, input = {}, given = {}, signal = new AbortController().signal) =>
      service.call(
        { server: 's', tool, input, effect: 'once', key: 'k', ...given },
        { signal, progress: (data) => progressed.push(data) },
      );
    return { service, lists, warnings, progressed, call };
  };
}

/** The texts of a result, and the types of its other blocks; or the question of the server. */
export async function textOf(result: ReturnType<McpService['call']>): Promise<string> {
  const answer = await result;
  if ('question' in answer) return `asks: ${answer.question}`;
  const { blocks } = answer;
  return blocks.map((block) => (block.type === 'text' ? block.text : block.type)).join('|');
}
