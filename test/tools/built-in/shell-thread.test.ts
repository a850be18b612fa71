// Goal: the shells of `bash` live on their own thread, and end with it or with the last runtime that uses the tool.
// Method: real shells, a thread that the test ends, and the public API.
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { agent } from '../../../src/index.ts';
import { OUTCOME_UNKNOWN } from '../../../src/session/rules/tool-texts.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { startThread, type Thread } from '../../../src/threads/thread.ts';
import { bashTool } from '../../../src/tools/built-in/bash.ts';
import { ShellsOfTool, ShellThread } from '../../../src/tools/built-in/shell-thread.ts';
import { runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const threads: Thread[] = [];
afterEach(async () => {
  await Promise.all(threads.splice(0).map((thread) => thread.terminate()));
});

/** The shells of a tool on a thread of the test. */
function shells(): ShellsOfTool {
  const thread = new ShellThread((entry, options) => {
    const started = startThread(entry, options);
    threads.push(started);
    return started;
  });
  return new ShellsOfTool(thread, { cwd: '/', env: {}, secretEnv: [], programs: ['bash', 'sh'] });
}

const quiet = { signal: new AbortController().signal, session: 's', timeoutMs: 30_000, progress: () => undefined };

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0) && !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
};

describe('the thread of the shells', () => {
  test('N1, N2: its end ends the shells; the call is unknown, and the next result says that the shell was lost', async () => {
    const own = shells();
    expect(await own.run({ command: 'cd /usr && X=1; echo $$' }, quiet)).toMatch(/^\d+$/);
    const other = await own.run({ command: 'echo $$' }, { ...quiet, session: 't' });
    const sleeping = new Promise<number>((resolve) => {
      const progress = (data: unknown): void => {
        const pid = /pid=(\d+)/.exec((data as { output: string }).output)?.[1];
        if (pid !== undefined) resolve(Number(pid));
      };
      void own.run({ command: "sh -c 'echo pid=$$; exec sleep 60'" }, { ...quiet, progress }).then(answer);
    });
    let lost: unknown;
    function answer(result: unknown): void {
      lost = result;
    }
    const pid = await sleeping;
    await threads[0]?.terminate();
    await expect.poll(() => lost).toEqual({ error: OUTCOME_UNKNOWN });
    await expect.poll(() => [pid, Number(other)].some(isAlive)).toBe(false);
    const next = String(await own.run({ command: 'echo $X; pwd' }, quiet));
    expect(next).toMatch(/^\[A new shell: the earlier one was lost with its thread\..*\]\n\n\n?\/usr$/s);
    expect(await own.run({ command: 'pwd' }, quiet)).toBe('/usr');
    expect(threads).toHaveLength(2);
  });

  test('the host thread has no child process while a command runs', async () => {
    const tool = bashTool();
    const provider = scripted([{ toolUse: { name: 'bash', input: { command: 'echo $$; sleep 0.2' } } }, 'Done.']);
    const runtime = await kit.open({ provider, agents: [agent({ name: 'a', tools: [tool] })] });
    const session = runtime.session('s');
    const receipt = await session.send('Go');
    const seen = new Set<string>();
    for await (const event of session.events({ until: receipt })) {
      seen.add(event.type);
      expect(process.getActiveResourcesInfo()).not.toContain('ProcessWrap');
    }
    expect(seen).toContain('tool.started');
    await tool.close();
  });

  test('shells end with the last runtime that uses their tool', async () => {
    const tool = bashTool();
    const agents = [agent({ name: 'a', tools: [tool] })];
    const reply = { toolUse: { name: 'bash', input: { command: 'echo $$' } } };
    const provider = scripted({ rules: [{ when: { result: false }, reply }], otherwise: '{{result}}' });
    const first = await kit.open({ provider, agents });
    const second = await kit.open({ agents });
    const pid = Number(await first.session('s').ask('Go'));
    expect(isAlive(pid)).toBe(true);
    await second.close();
    expect(isAlive(pid)).toBe(true);
    await first.close();
    await expect.poll(() => isAlive(pid), { timeout: 10_000 }).toBe(false);
  });
});
