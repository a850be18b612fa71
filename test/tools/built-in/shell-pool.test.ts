// Goal: the pool starts, keeps and ends shells by its rules (O1 to O5), and no shell outlives its process (B4, B5),
// however the process ends. A fifo shows which processes live: its reader reaches the end when the last process that
// holds the fifo open is gone.
import { type ChildProcess, type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { ShellPool, type ShellPoolOptions } from '../../../src/tools/built-in/shell-pool.ts';
import { Turns } from '../../../src/tools/built-in/turns.ts';

const base = realpathSync(mkdtempSync(join(tmpdir(), 'troupe-shells-')));
afterAll(() => rmSync(base, { recursive: true, force: true }));
const pools: ShellPool[] = [];
afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.close()));
});

const { signal } = new AbortController();
function make(options: Partial<ShellPoolOptions> = {}): ShellPool {
  const pool = new ShellPool({ cwd: base, environment: () => process.env, programs: ['bash', 'sh'], ...options });
  pools.push(pool);
  return pool;
}
async function run(pool: ShellPool, session: string, command: string): Promise<{ text: string; restarted?: string }> {
  const lease = await pool.take(session, signal);
  if (lease === undefined) throw new Error('not reached: nothing aborts');
  try {
    const result = await lease.run(command, { signal, stopMs: () => 1_000, onOutput: () => undefined });
    const { restarted } = result;
    return { text: result.output.text(10_000), ...(restarted === undefined ? {} : { restarted }) };
  } finally {
    lease.release();
  }
}

let fifos = 0;
/** A fifo, and a promise that resolves when no process holds it open. It is opened for reading before any writer. */
async function fifo(): Promise<{ readonly path: string; readonly gone: Promise<unknown> }> {
  fifos += 1;
  const path = join(base, `fifo-${fifos}`);
  execFileSync('mkfifo', [path]);
  // An open blocks until a writer comes, so a command opens the fifo itself before it starts the process that holds it.
  const opened = open(path, constants.O_RDONLY);
  return { path, gone: opened.then((file) => file.readFile().finally(() => file.close())) };
}

describe('shells', () => {
  test('O2: beyond the bound the least recently used shell ends, and its session is notified at its next command', async () => {
    const pool = make({ shellsMax: 2 });
    await run(pool, 'a', 'cd /; LOST=yes');
    await run(pool, 'b', 'KEPT=yes');
    await run(pool, 'a', 'true');
    await run(pool, 'b', 'true');
    await run(pool, 'c', 'true');
    expect(pool.size).toBe(2);
    expect(await run(pool, 'b', 'echo $KEPT')).toEqual({ text: 'yes' });
    expect(await run(pool, 'a', 'pwd; echo "[$LOST]"')).toEqual({
      text: '/\n[]',
      restarted: 'was closed to make room for others',
    });
    expect(pool.size).toBe(2);
  });

  test('O2: concurrent calls beyond the bound wait for a shell, and all run', async () => {
    const pool = make({ shellsMax: 2 });
    const sizes: number[] = [];
    const results = await Promise.all(
      Array.from({ length: 7 }, async (_unused, index) => {
        const { text } = await run(pool, `s${index}`, `echo ${index}`);
        sizes.push(pool.size);
        return text;
      }),
    );
    expect(results).toEqual(['0', '1', '2', '3', '4', '5', '6']);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(2);
  });

  test('O3, O4: an unused shell ends with the processes it runs; the next shell starts in its directory', async () => {
    const pool = make({ idleMs: 50 });
    const { path, gone } = await fifo();
    await run(pool, 'a', `cd /; { sleep 600 & } 3>${path}`);
    await gone;
    expect(pool.size).toBe(0);
    const again = await run(pool, 'a', 'pwd');
    expect(again).toEqual({ text: '/', restarted: 'was closed after a time without use' });
  });

  test('O3: a shell killed while it was unused is replaced, and the result says so', async () => {
    const pool = make();
    const { path, gone } = await fifo();
    const { text } = await run(pool, 'a', `cd /; { sleep 600 & } 3>${path}; echo $$`);
    process.kill(Number(text.split('\n').at(-1)), 'SIGKILL');
    // Processes that a dead shell leaves behind are ended as well.
    await gone;
    expect(await run(pool, 'a', 'pwd')).toEqual({ text: '/', restarted: 'ended (SIGKILL)' });
  });

  test('B5: a closed pool leaves no process, no listener and no handle', async () => {
    const handles = (): number => process.getActiveResourcesInfo().filter((kind) => /Process|Pipe/.test(kind)).length;
    const before = { handles: handles(), listeners: process.listenerCount('exit') };
    const pool = make();
    const { path, gone } = await fifo();
    await Promise.all(['a', 'b'].map((session) => run(pool, session, 'echo 1')));
    await run(pool, 'a', `{ sleep 600 & } 3>${path}`);
    expect(process.listenerCount('exit')).toBe(before.listeners + 1);
    await pool.close();
    await gone;
    expect(pool.size).toBe(0);
    expect({ handles: handles(), listeners: process.listenerCount('exit') }).toEqual(before);
    expect((await run(pool, 'a', 'echo again')).text).toBe('again');
  });

  test('B5: close ends a running command and answers its call', async () => {
    const pool = make();
    const { path, gone } = await fifo();
    const lease = await pool.take('a', signal);
    const running = lease?.run(`echo x; sh -c 'trap "" TERM; echo go; while :; do sleep 600; done' 3>${path}`, {
      signal,
      stopMs: () => 1_000,
      onOutput: (output) => {
        if (output.text(100).includes('go')) void pool.close();
      },
    });
    expect((await running)?.end).toEqual({ type: 'shellEnded', how: 'was closed' });
    lease?.release();
    await pool.close();
    await gone;
  });
});

describe('the end of the process', () => {
  const hosts: ChildProcess[] = [];
  afterEach(() => {
    for (const host of hosts.splice(0)) host.kill('SIGKILL');
  });
  function start(how: string, ...rest: readonly string[]): ChildProcessByStdio<null, Readable, null> {
    const file = fileURLToPath(new URL('../fixtures/shell-host.ts', import.meta.url));
    const host = spawn(process.execPath, [...process.execArgv, file, how, ...rest], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    hosts.push(host);
    return host;
  }

  test('B5: an idle shell does not keep the process alive, and dies with it', async () => {
    const { path, gone } = await fifo();
    const host = start('idle', path);
    expect(await once(host, 'exit')).toEqual([0, null]);
    await gone;
  });

  test('O4: process.exit() ends a running command', async () => {
    const { path, gone } = await fifo();
    const host = start('exit', path);
    expect(await once(host, 'exit')).toEqual([0, null]);
    await gone;
  });

  test('B4: death of the process by KILL ends a running command', async () => {
    const { path, gone } = await fifo();
    const host = start('kill', path);
    await once(host.stdout, 'data');
    host.kill('SIGKILL');
    await gone;
  });

  describe.runIf(process.platform === 'linux')('B6: a program in another POSIX session', () => {
    test('it ends with the shell that is closed', async () => {
      const pool = make();
      const { path, gone } = await fifo();
      await run(pool, 'a', `{ setsid sleep 600 & } 3>${path}`);
      await pool.close();
      await gone;
    });

    test('it ends with the shell that exits', async () => {
      const pool = make();
      const { path, gone } = await fifo();
      await run(pool, 'a', `{ setsid sleep 600 & exit; } 3>${path}`);
      await gone;
    });

    test('it keeps running when the command is interrupted, as at a terminal', async () => {
      const pool = make();
      const { path, gone } = await fifo();
      const stopper = new AbortController();
      const lease = await pool.take('a', signal);
      const running = lease?.run(`( setsid sh -c 'echo $$; exec sleep 600' 3>${path} & ); sleep 600`, {
        signal: stopper.signal,
        stopMs: () => 4_000,
        onOutput: () => stopper.abort(),
      });
      const result = await running;
      lease?.release();
      expect(result?.end).toEqual({ type: 'stopped' });
      expect(process.kill(Number(result?.output.text(100)), 0)).toBe(true);
      await pool.close();
      await gone;
    });

    test('it ends with the process, by its exit', async () => {
      const { path, gone } = await fifo();
      expect(await once(start('exit', path, 'setsid'), 'exit')).toEqual([0, null]);
      await gone;
    });

    test('it ends with the process, by KILL', async () => {
      const { path, gone } = await fifo();
      const host = start('kill', path, 'setsid');
      await once(host.stdout, 'data');
      host.kill('SIGKILL');
      await gone;
    });
  });
});

test('W1: slots are granted in the order of the requests; a cancelled request gets none', async () => {
  const turns = new Turns(1);
  const order: string[] = [];
  const impatient = new AbortController();
  const take = async (name: string, stop: AbortSignal): Promise<void> => {
    order.push(`${name} ${await turns.take(stop)}`);
  };
  const all = [take('a', signal), take('b', impatient.signal), take('c', signal), take('d', signal)];
  impatient.abort();
  await all[1];
  turns.release();
  await all[2];
  turns.release();
  await Promise.all(all);
  expect(order).toEqual(['a true', 'b false', 'c true', 'd true']);
  turns.release();
  expect(await turns.take(impatient.signal)).toBe(false);
  expect(await turns.take(signal)).toBe(true);
});
