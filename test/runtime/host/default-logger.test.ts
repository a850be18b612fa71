// Goal: the output of a runtime that is given no logger. Method: read the stderr of programs in separate processes;
// collect the lines of the logger itself.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { createLogger } from '../../../src/runtime/host/default-logger.ts';

const loader = fileURLToPath(new URL('../../loader/register.mjs', import.meta.url));
const program = fileURLToPath(new URL('fixtures/failing-turns.ts', import.meta.url));
const run = promisify(execFile);

async function linesOf(level: string | undefined, ...line: readonly string[]): Promise<readonly object[]> {
  const { LOG_LEVEL: _inherited, ...inherited } = process.env;
  const env = level === undefined ? inherited : { ...inherited, LOG_LEVEL: level };
  const { stdout, stderr } = await run(process.execPath, ['--import', loader, program, ...line], { env });
  expect(stdout).toBe('Over.');
  return stderr.split('\n').flatMap((text) => (text === '' ? [] : [JSON.parse(text) as object]));
}

/** The level as pino's number. */
const WARN = 40;

test('without a logger warnings go to stderr: a repeated call, a tool that throws, a session that is blocked', async () => {
  const lines = await linesOf(undefined);
  expect(lines).toMatchObject([
    { level: WARN, session: 'works', agent: 'a', msg: 'a model call failed (status 529) and is made again' },
    { level: WARN, session: 'works', agent: 'a', msg: 'tool "breaks" threw' },
    { level: WARN, session: 'refused', agent: 'a', error: { code: 'model_invalid_request' } },
  ]);
  expect(lines[1]).toHaveProperty(
    'stack',
    expect.stringMatching(/^RangeError: the tool broke.*\n +at .*failing-turns/s),
  );
  expect(lines[2]).toHaveProperty('msg', expect.stringContaining('blocked'));
  const text = JSON.stringify(lines);
  for (const kept of ['words', 'Over.', 'canary']) expect(text).not.toContain(kept);
});

test.each([
  ['LOG_LEVEL=silent', 'silent', []],
  ['LOG_LEVEL=error', 'error', []],
  ['logger: false', undefined, ['false']],
] as const)('%s: nothing is written', async (_name, level, line) => {
  expect(await linesOf(level, ...line)).toEqual([]);
});

test.each([
  [{}, 'warn'],
  [{ LOG_LEVEL: ' Debug ' }, 'debug'],
  [{ LOG_LEVEL: 'verbose' }, 'warn'],
  [{ LOG_LEVEL: 'constructor' }, 'warn'],
])('at the level of %j the first line is of %s', (environment, level) => {
  const lines: string[] = [];
  const logger = createLogger(environment, (line) => lines.push(line));
  for (const each of ['debug', 'info', 'warn', 'error'] as const) logger[each]({}, each);
  expect(lines[0]).toContain(`"msg":"${level}"`);
});

test('secrets in errors of other libraries are redacted by their property path', () => {
  const lines: string[] = [];
  const logger = createLogger({}, (line) => lines.push(line));
  const headers = { authorization: 'canary', 'x-api-key': 'canary', accept: 'text/plain' };
  logger.error({ err: Object.assign(new Error('no'), { request: { headers }, apiKey: 'canary' }) }, 'a request failed');
  expect(lines).toHaveLength(1);
  expect(lines[0]).not.toContain('canary');
  expect(lines[0]).toContain('text/plain');
});
