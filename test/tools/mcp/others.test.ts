/**
 * Goal: servers of others that die or freeze in the middle of a call cost no call its answer. Method: the everything
 * server from npm over both transports; over HTTP it has sessions and streams that resume.
 */
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { OUTCOME_UNKNOWN } from '../../../src/session/rules/tool-texts.ts';
import type { McpService } from '../../../src/tools/mcp/service.ts';
import { eventually } from '../../support/eventually.ts';
import { httpServersKit } from './http-server.ts';
import { effectsKit, servicesKit, textOf } from './support.ts';

const serving = servicesKit();
const startHttp = httpServersKit();
const effects = effectsKit();
const everything = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/dist/index.js');
const counting = fileURLToPath(new URL('./fixtures/counting-server.mjs', import.meta.url));
const LONG = 'trigger-long-running-operation';
const steps = { duration: 1, steps: 4 };

/** Ends the process of the everything server over stdio as the test wants; the program reports its id by its environment. */
async function pidOf(call: (tool: string, input?: object) => ReturnType<McpService['call']>): Promise<number> {
  // The shell that starts a server becomes the server, so its id is the one that the shell wrote.
  const environment = JSON.parse(await textOf(call('get-env'))) as { readonly SERVER_PID: string };
  return Number(environment.SERVER_PID);
}

/** The everything server, which knows its own process id. */
const stdio = { command: 'sh', args: ['-c', 'SERVER_PID=$$ exec "$@"', 'sh', process.execPath, everything] };

describe('over stdio', () => {
  test('killed in the middle of a call: a pure call is answered by the next process, a once call is not sent again', async () => {
    const { call, progressed } = await serving({ s: stdio });
    const pid = await pidOf(call);
    const pure = call(LONG, steps, { effect: 'pure' });
    const once = call(LONG, steps, { effect: 'once' });
    await eventually(() => progressed.length >= 2);
    process.kill(pid, 'SIGKILL');
    expect(await textOf(pure)).toContain('Long running operation completed');
    expect(await textOf(once)).toBe(OUTCOME_UNKNOWN);
    expect(await pidOf(call)).not.toBe(pid);
  });

  test('frozen in the middle of a call: the calls beside it are answered by the next process', async () => {
    const { call, progressed } = await serving({ s: stdio });
    const pid = await pidOf(call);
    const given = new AbortController();
    const stuck = call(LONG, steps, { effect: 'pure' }, given.signal);
    const beside = call(LONG, steps, { effect: 'pure' });
    await eventually(() => progressed.length >= 2);
    process.kill(pid, 'SIGSTOP');
    given.abort(new Error('timed out'));
    await expect(stuck).rejects.toThrow('timed out');
    expect(await textOf(beside)).toContain('Long running operation completed');
  });
});

describe('over HTTP', () => {
  test('killed in the middle of a call and started again: as over stdio, in a new session', async () => {
    const server = await startHttp(() => [everything, 'streamableHttp']);
    const { call, progressed } = await serving({ s: { url: server.url } });
    const pure = call(LONG, steps, { effect: 'pure' });
    const once = call(LONG, steps, { effect: 'once' });
    await eventually(() => progressed.length >= 2);
    await server.kill();
    await server.start();
    expect(await textOf(pure)).toContain('Long running operation completed');
    expect(await textOf(once)).toBe(OUTCOME_UNKNOWN);
  });

  test('started again while nothing was called: a once call finds its session unknown, and is sent in a new one', async () => {
    const server = await startHttp(() => [everything, 'streamableHttp']);
    const { call } = await serving({ s: { url: server.url } });
    expect(await textOf(call('echo', { message: 'one' }))).toBe('Echo: one');
    await server.kill();
    await server.start();
    expect(await textOf(call('echo', { message: 'two' }))).toBe('Echo: two');
  });

  test('frozen: the call that is given up finds it, and the next one is answered when it continues', async () => {
    const server = await startHttp(() => [everything, 'streamableHttp']);
    const { call, warnings } = await serving({ s: { url: server.url } });
    await call('echo', { message: 'one' });
    server.signal('SIGSTOP');
    const given = new AbortController();
    const stuck = call('echo', { message: 'two' }, {}, given.signal);
    given.abort(new Error('timed out'));
    await expect(stuck).rejects.toThrow('timed out');
    await eventually(() => warnings.some((line) => line.includes('did not answer a health check')));
    server.signal('SIGCONT');
    expect(await textOf(call('echo', { message: 'three' }))).toBe('Echo: three');
  });

  test('in the newer era the death of a server is found without a call, and its tools are read again', async () => {
    const recorded = await effects();
    const server = await startHttp((port) => [counting, '--http', String(port)], { EFFECTS_FILE: recorded.file });
    const { lists, warnings } = await serving({ s: { url: server.url } });
    await eventually(() => lists.length === 1);
    await server.kill();
    await eventually(() => warnings.length === 1);
    await server.start();
    await eventually(() => lists.length === 2);
  });

  test('headers are sent with each request; a call that was never sent is sent when the server is there', async () => {
    const recorded = await effects();
    const server = await startHttp((port) => [counting, '--http', String(port)], { EFFECTS_FILE: recorded.file });
    const { call, warnings } = await serving({ s: { url: server.url, headers: { authorization: 'Bearer x' } } });
    expect(await textOf(call('header', { name: 'authorization' }))).toBe('Bearer x');
    await server.kill();
    // Before that a call could still be sent on a socket of the dead server, and its outcome would be unknown.
    await eventually(() => warnings.length === 1);
    const paying = call('pay', { id: '1' });
    await server.start();
    expect(await textOf(paying)).toBe('pay 1 done');
    expect((await recorded.lines()).filter((line) => line.startsWith('pay')).length).toBe(1);
  });

  test('an authentication provider gives the token of each request', async () => {
    const recorded = await effects();
    const server = await startHttp((port) => [counting, '--http', String(port)], { EFFECTS_FILE: recorded.file });
    let asked = 0;
    const authProvider = {
      token: async (): Promise<string> => {
        asked += 1;
        return `token-${asked}`;
      },
    };
    const { call } = await serving({ s: { url: server.url, authProvider } });
    expect(await textOf(call('header', { name: 'authorization' }))).toMatch(/^Bearer token-\d+$/);
    expect(asked).toBeGreaterThan(1);
  });
});
