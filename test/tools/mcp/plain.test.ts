/** Goal: what comes from a server or a file is bounded, checked and converted. Method: pure functions over examples. */
import { describe, expect, test } from 'vitest';
import {
  MCP_LISTS_KEPT_MAX,
  MCP_SERVERS_MAX,
  MCP_TOOLS_CHARACTERS_MAX,
  MCP_TOOLS_MAX,
} from '../../../src/base/bounds.ts';
import { ConnectionLostError, repeatLost } from '../../../src/tools/mcp/call-repeats.ts';
import { grantedTools } from '../../../src/tools/mcp/grants.ts';
import { McpListVersions } from '../../../src/tools/mcp/list-versions.ts';
import { mcpTools } from '../../../src/tools/mcp/mcp-tools.ts';
import type { McpEffect } from '../../../src/tools/mcp/protocol.ts';
import { resultOf } from '../../../src/tools/mcp/results.ts';
import { parseServerFile, parseServers } from '../../../src/tools/mcp/server-options.ts';
import { describeTools } from '../../../src/tools/mcp/tool-lists.ts';

const schema = { type: 'object' as const };

function described(tools: Parameters<typeof describeTools>[1]): { names: readonly string[]; lines: readonly string[] } {
  const lines: string[] = [];
  const list = describeTools('s', tools, (line) => lines.push(line));
  return { names: list.tools.map(({ description }) => description.name), lines };
}

describe('lists of tools', () => {
  test('a name is made fit for a model; a tool that cannot be shown is left out with its reason', () => {
    const { names, lines } = described([
      { name: 'files.read/all', inputSchema: schema },
      { name: 'files_read.all', inputSchema: schema },
      { name: 'x'.repeat(128), inputSchema: schema },
      { name: 'any', inputSchema: { ...schema, anyOf: [] } },
      { name: 'good', inputSchema: schema },
    ]);
    expect(names).toEqual(['s__files_read_all', 's__good']);
    expect(lines).toEqual([
      expect.stringContaining('"files_read.all" is left out: the server has two tools'),
      expect.stringContaining('a name is 1 to 128 letters'),
      expect.stringContaining('which the Messages API refuses'),
    ]);
  });

  test('the number of tools and their size are bounded', () => {
    const many = Array.from({ length: MCP_TOOLS_MAX + 3 }, (_, index) => ({ name: `t${index}`, inputSchema: schema }));
    expect(described(many)).toMatchObject({ names: { length: MCP_TOOLS_MAX }, lines: [/^3 tools are left out/] });
    const description = 'x'.repeat(32_000);
    const large = many.slice(0, 100).map((tool) => ({ ...tool, description }));
    const { names, lines } = described(large);
    expect(names.length * description.length).toBeLessThanOrEqual(MCP_TOOLS_CHARACTERS_MAX);
    expect(lines.length).toBe(1);
  });
});

test('documents and resources of a result become blocks or texts', () => {
  const blob = 'AAAA';
  const { blocks, isError } = resultOf({
    content: [
      { type: 'resource', resource: { uri: 'a:1', mimeType: 'application/pdf', blob } },
      { type: 'resource', resource: { uri: 'a:2', mimeType: 'image/gif', blob } },
      { type: 'resource', resource: { uri: 'a:3', blob } },
      { type: 'resource', resource: { uri: 'a:4', text: 'words' } },
      { type: 'image', mimeType: 'image/tiff', data: blob },
    ],
    isError: true,
  });
  expect(isError).toBe(true);
  expect(blocks).toEqual([
    { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: blob } },
    { type: 'image', source: { type: 'base64', media_type: 'image/gif', data: blob } },
    { type: 'text', text: '[resource: a:3, application/octet-stream]\nwords\n[image: image/tiff]' },
  ]);
});

describe('repeats', () => {
  const lost = (isUnsent: boolean): ConnectionLostError =>
    new ConnectionLostError('lost', { isUnsent, cause: undefined });
  async function attempts(effect: McpEffect, error: Error): Promise<{ count: number; end: unknown }> {
    let count = 0;
    const end = await repeatLost(effect, async () => {
      count += 1;
      throw error;
    }).catch((thrown: unknown) => thrown);
    return { count, end };
  }

  test.each([
    ['pure', lost(false), 9],
    ['keyed', lost(false), 9],
    ['once', lost(true), 9],
    ['pure', new Error('refused'), 1],
  ] as const)('%s, %s: %i attempts, and then the error', async (effect, error, count) => {
    expect(await attempts(effect, error)).toEqual({ count, end: error });
  });

  test('once, and the call may have arrived: one attempt, and a result that says so', async () => {
    expect(await attempts('once', lost(false))).toMatchObject({ count: 1, end: { isError: true } });
  });
});

describe('grants', () => {
  const lists = [
    describeTools(
      's',
      ['a', 'b'].map((name) => ({ name, inputSchema: schema })),
      () => undefined,
    ),
  ];

  test('an own tool of the same name, and an earlier grant, come first', () => {
    const granted = grantedTools([mcpTools('s', { effects: { b: 'pure' } }), mcpTools('s')], lists, [], 5);
    expect(
      granted.map(({ description, place }) => [description.name, description.effect, description.timeoutMs, place]),
    ).toEqual([
      ['s__a', 'once', 5, { kind: 'mcp', server: 's', tool: 'a', effect: 'once' }],
      ['s__b', 'pure', 5, { kind: 'mcp', server: 's', tool: 'b', effect: 'pure' }],
    ]);
    expect(
      grantedTools([mcpTools('s')], lists, granted.slice(0, 1), 5).map(({ description }) => description.name),
    ).toEqual(['s__b']);
  });

  test('earlier lists are kept up to a bound; the same lists are no new version', () => {
    const versions = new McpListVersions([]);
    expect(versions.take([])).toBe(false);
    for (let index = 1; index <= 20; index += 1) expect(versions.take([{ server: `s${index}`, tools: [] }])).toBe(true);
    expect(versions.all.map(({ version }) => version)).toEqual(
      Array.from({ length: MCP_LISTS_KEPT_MAX }, (_, index) => 20 - index),
    );
  });
});

describe('mcp.json', () => {
  const variable = (text: string): string => `$${text}`;
  const parse = (mcpServers: object): { servers: object; lines: readonly string[] } => {
    const lines: string[] = [];
    const servers = parseServerFile(
      JSON.stringify({ mcpServers, other: 1 }),
      { TOKEN: 't-1', BAD: 'not an address' },
      (line) => lines.push(line),
    );
    return { servers, lines };
  };

  test('variables are filled in, keys of other programs are left alone, and bad servers are left out', () => {
    const { servers, lines } = parse({
      http: {
        type: 'http',
        url: 'https://host/mcp',
        headers: { authorization: `Bearer ${variable('{TOKEN}')}` },
        timeout: 5,
      },
      stdio: { command: 'run', args: [variable('{PLACE:-here}')], alwaysAllow: ['x'] },
      off: { command: 'run', disabled: true },
      sse: { type: 'sse', url: 'https://host/sse' },
      bad: { url: variable('{BAD}') },
      'a b': { command: 'run' },
    });
    expect(servers).toEqual({
      http: { url: 'https://host/mcp', headers: { authorization: 'Bearer t-1' } },
      stdio: { command: 'run', args: ['here'] },
    });
    expect(lines).toEqual([
      expect.stringContaining('"sse" is not supported'),
      expect.stringContaining('mcpServers.bad.url'),
      expect.stringContaining('letters, digits'),
    ]);
    // A variable may be a secret, so its value is not in the log.
    expect(lines.join()).not.toContain('not an address');
  });

  test('a text of another form is refused, and so are too many servers', () => {
    expect(() => parseServerFile('[', {}, () => undefined)).toThrow('not JSON');
    expect(() => parseServerFile('{}', {}, () => undefined)).toThrow('mcpServers');
    const many = Object.fromEntries(
      Array.from({ length: MCP_SERVERS_MAX + 1 }, (_, index) => [`s${index}`, { command: 'x' }]),
    );
    expect(() => parse(many)).toThrow(`at most ${MCP_SERVERS_MAX}`);
    expect(() => parseServers(many)).toThrow(`at most ${MCP_SERVERS_MAX}`);
  });
});
