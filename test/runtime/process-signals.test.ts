import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import { openJournal } from '../../src/journal/open-journal.ts';
import { shardDirectory } from '../../src/journal/store/manifest.ts';
import { manualClock } from '../../src/testing/manual-clock.ts';
import { gatedModel, history, runtimeKit, types } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const children: ChildProcess[] = [];

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }
});

interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<readonly [number | null, NodeJS.Signals | null]>;
  output(): string;
  said(text: string): Promise<void>;
}

function start(file: string, ...line: readonly string[]): Started {
  const script = new URL(`fixtures/${file}`, import.meta.url).pathname;
  const child = spawn(process.execPath, [...process.execArgv, script, ...line], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
  });
  const ended = once(child, 'close').then(([code, signal]) => [code, signal] as [number | null, NodeJS.Signals | null]);
  return {
    child,
    ended,
    output: () => text,
    async said(wanted) {
      let isOver = false;
      void ended.then(() => {
        isOver = true;
        child.stdout.emit('data', '');
      });
      while (!text.includes(wanted)) {
        if (isOver) throw new Error(`it ended with ${child.signalCode ?? child.exitCode} without ${wanted}: ${text}`);
        await once(child.stdout, 'data');
      }
    },
  };
}

describe.skipIf(process.platform === 'win32')('F13: a signal', () => {
  test('F13: SIGTERM closes with a deadline and exits with 0; the next start has no lock to break and no log to replay', async () => {
    const directory = await kit.directory();
    const service = start('embedding-process.ts', directory, '100');
    await service.said('ready');
    service.child.kill('SIGTERM');
    expect(await service.ended).toEqual([0, null]);
    expect((await readdir(directory)).filter((name) => name.startsWith('owner-'))).toEqual([]);
    const journal = await openJournal({ directory: shardDirectory(directory, 0), durability: 'flush' });
    expect([...journal.tail(journal.checkpointed())]).toEqual([]);
    await journal.close();

    const model = gatedModel();
    const runtime = await kit.open({ directory, provider: model.provider });
    expect(types(await history(runtime.session('done')))).not.toContain('session.recovered');
    // The open work resumes: its call is made again, once.
    (await model.next()).answer('Late.');
    await runtime.drain();
    expect((await runtime.session('parked').messages()).map(({ content }) => content)).toEqual(['Wait', 'Late.']);
    expect(model.calls).toHaveLength(1);
  });

  test('F13: a process that exits while a session thread commits ends at once, and the commit is whole', async () => {
    const directory = await kit.directory();
    const [preload, script] = ['hold-commits.ts', 'exit-in-commit.ts'].map(
      (file) => new URL(`fixtures/${file}`, import.meta.url).pathname,
    );
    const child = spawn(process.execPath, [...process.execArgv, '--import', preload ?? '', script ?? '', directory], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    children.push(child);
    expect(await once(child, 'close')).toEqual([7, null]);
    const runtime = await kit.open({ directory });
    expect(await runtime.sessions.get('s')).toMatchObject({ id: 's' });
  });

  test('F13: a second signal ends the process at once, whatever it awaits; no acknowledged message is lost', async () => {
    const directory = await kit.directory();
    const service = start('embedding-process.ts', directory, '3600000');
    await service.said('ready');
    service.child.kill('SIGTERM');
    await service.said('closing');
    service.child.kill('SIGTERM');
    expect(await service.ended).toEqual([1, null]);
    const model = gatedModel();
    const runtime = await kit.open({ directory, provider: model.provider });
    expect(await runtime.session('done').messages()).toHaveLength(2);
    expect((await model.next()).session).toBe('parked');
  });
});

describe('F14: a pause', () => {
  test.skipIf(process.platform === 'win32')(
    'F14: a process is stopped beyond all its timeouts: each call ends once, none runs or is requested twice',
    async () => {
      const paused = start('paused-process.ts');
      await paused.said('running');
      paused.child.kill('SIGSTOP');
      // The pause itself is the tested fault: longer than every timeout of the process.
      await delay(1_500);
      paused.child.kill('SIGCONT');
      expect(await paused.ended).toEqual([0, null]);
      const report: unknown = JSON.parse(paused.output().trimEnd().split('\n').at(-1) ?? '');
      expect(report).toEqual({
        answers: ['Over.', 'Over.', 'Over.'],
        responses: [1, 1, 1],
        starts: { s0: 1, s1: 1, s2: 1 },
        modelCalls: 6,
      });
    },
  );

  test('F14, F59: a clock set an hour forward and back fires no timer, because deadlines use elapsed time', async () => {
    const time = manualClock();
    let offsetMs = 0;
    const clock: Clock = {
      now: () => time.now() + offsetMs,
      monotonic: () => time.monotonic(),
      setTimer: (run, delayMs) => time.setTimer(run, delayMs),
      clearTimer: (timer) => time.clearTimer(timer),
    };
    const model = gatedModel();
    const runtime = await kit.open({ provider: model.provider, clock });
    const session = runtime.session('s');
    await session.send('Hi');
    const first = await model.next();
    for (const jumpMs of [3_600_000, -7_200_000, 0]) {
      offsetMs = jumpMs;
      await time.advance(10);
      expect((await session.state()).state).toBe('awaiting');
    }
    first.answer('Hello.');
    await runtime.drain();
    expect((await session.messages()).map(({ content }) => content)).toEqual(['Hi', 'Hello.']);
    expect(model.calls).toHaveLength(1);
  });
});
