/**
 * Goal: a service closes in good order when it is ordered to stop; a second order ends it at once. A service that is
 * frozen for longer than all of its timeouts continues as if nothing had happened. Method: real processes and real
 * signals, with a tool and a model that wait until the test releases them.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { acquireStoreLock } from '../../src/journal/store/lock.ts';
import { OUTCOME_UNKNOWN } from '../../src/session/rules/tool-texts.ts';
import { timeoutText } from '../../src/tools/tool-execution.ts';
import { queue } from '../support/runtime-kit.ts';
import { type CompiledPrograms, compilePrograms } from './compiled-programs.ts';
import type { SignalLine, SignalPlan, StoryEvent } from './fixtures/signal-victim.ts';
import { CUT_SHORT_CODE } from './protocol.ts';

const LONG_MS = 60_000;
/** Processes start slowly on a busy machine. */
const TEST_MS_MAX = 120_000;
const CALM = { deadlineMs: LONG_MS, toolTimeoutMs: LONG_MS, modelTimeoutMs: LONG_MS };

let build: CompiledPrograms;
let directory: string;
const victims = new Set<Victim>();
beforeAll(async () => {
  build = await compilePrograms(new URL('.', import.meta.url));
}, TEST_MS_MAX);
afterAll(() => build.remove());
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'troupe-signals-'));
});
afterEach(async () => {
  for (const victim of victims) await victim.kill();
  victims.clear();
  await rm(directory, { recursive: true, force: true });
});

/** A process of the fixture, with its lines in order. */
class Victim {
  readonly process: ChildProcess;
  readonly #lines = queue<SignalLine>();
  readonly #exit: Promise<unknown>;
  /** All lines taken so far. */
  readonly heard: SignalLine[] = [];

  constructor(plan: Omit<SignalPlan, 'directory'>) {
    const script = build.script('fixtures/signal-victim');
    this.process = spawn(process.execPath, [script, JSON.stringify({ ...plan, directory })], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    this.#exit = once(this.process, 'exit');
    if (this.process.stdout === null) throw new Error('no output');
    createInterface({ input: this.process.stdout }).on('line', (line) => this.#lines.put(JSON.parse(line)));
    victims.add(this);
  }

  tell(command: string): void {
    this.process.stdin?.write(`${command}\n`);
  }

  /** The next line of a type; the lines before it are kept too. */
  async hear<T extends SignalLine['type']>(type: T): Promise<Extract<SignalLine, { type: T }>> {
    for (;;) {
      const line = await this.#lines.take();
      this.heard.push(line);
      if (line.type === type) return line as Extract<SignalLine, { type: T }>;
    }
  }

  /** A session's durable events, in short form. */
  async story(session: string): Promise<readonly StoryEvent[]> {
    this.tell(`tell ${session}`);
    return (await this.hear('story')).events;
  }

  count(type: 'called' | 'started', session: string): number {
    return this.heard.filter((line) => line.type === type && line.session === session).length;
  }

  /** Exit code and signal. */
  async exit(): Promise<readonly [number | null, NodeJS.Signals | null]> {
    await this.#exit;
    return [this.process.exitCode, this.process.signalCode];
  }

  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.#exit;
  }
}

async function opened(plan: Omit<SignalPlan, 'directory'> = CALM): Promise<Victim> {
  const victim = new Victim(plan);
  await victim.hear('opened');
  return victim;
}

function countOf(events: readonly StoryEvent[], type: string): number {
  return events.filter((event) => event.type === type).length;
}

/** Starts another process and reports what it finds once everything is at rest. */
async function restart(session: string): Promise<{ readonly victim: Victim; readonly events: readonly StoryEvent[] }> {
  const victim = await opened();
  victim.tell('drain');
  await victim.hear('drained');
  return { victim, events: await victim.story(session) };
}

describe.skipIf(process.platform === 'win32')('F13: SIGTERM', { timeout: TEST_MS_MAX }, () => {
  test('F13: a process at rest exits with 0, and the next start has nothing to recover', async () => {
    const first = await opened();
    first.tell('send s hello');
    first.tell('drain');
    await first.hear('drained');
    first.process.kill('SIGTERM');
    expect(await first.exit()).toEqual([0, null]);
    const { victim, events } = await restart('s');
    expect(countOf(events, 'session.recovered')).toBe(0);
    expect(victim.count('called', 's')).toBe(0);
  });

  test('F13: a running tool is awaited, new work is refused, and the next start repeats nothing', async () => {
    const first = await opened();
    first.tell('send s hold');
    await first.hear('started');
    first.process.kill('SIGTERM');
    await first.hear('closing');
    first.tell('send s late');
    expect(await first.hear('refused')).toMatchObject({ text: 'late', code: 'cancelled' });
    first.tell('go');
    expect(await first.exit()).toEqual([0, null]);

    const { victim, events } = await restart('s');
    expect(countOf(events, 'session.recovered')).toBe(0);
    expect(countOf(events, 'tool.finished')).toBe(1);
    expect(victim.count('started', 's')).toBe(0);
    // The half-step that the tool's result causes, and no other.
    expect(victim.count('called', 's')).toBe(1);
    expect(events.at(-1)).toMatchObject({ type: 'turn.finished' });
  });

  test('F13: a model call in flight is awaited, and the next start does not repeat it', async () => {
    const first = await opened();
    first.tell('send s slowly');
    await first.hear('called');
    first.process.kill('SIGTERM');
    await first.hear('closing');
    first.tell('go');
    expect(await first.exit()).toEqual([0, null]);
    const { victim, events } = await restart('s');
    expect(countOf(events, 'session.recovered')).toBe(0);
    expect(victim.count('called', 's')).toBe(0);
    expect(events.filter(({ content }) => content === 'answered').length).toBe(1);
  });

  test('F13: work that outlasts the deadline stays open: the process exits with 0, and the next start resumes it', async () => {
    const first = await opened({ ...CALM, deadlineMs: 1 });
    first.tell('send s hold');
    await first.hear('started');
    first.process.kill('SIGTERM');
    expect(await first.exit()).toEqual([0, null]);
    const { victim, events } = await restart('s');
    expect(countOf(events, 'session.recovered')).toBe(1);
    expect(victim.count('started', 's')).toBe(0);
    expect(events.filter(({ content }) => content === OUTCOME_UNKNOWN).length).toBe(1);
  });

  test('F13, F01: a second SIGTERM during a long drain exits at once, and the next start recovers', async () => {
    const first = await opened();
    first.tell('send s hold');
    await first.hear('started');
    first.process.kill('SIGTERM');
    await first.hear('closing');
    first.process.kill('SIGTERM');
    expect(await first.exit()).toEqual([CUT_SHORT_CODE, null]);
    const { victim, events } = await restart('s');
    expect(countOf(events, 'session.recovered')).toBe(1);
    expect(victim.count('started', 's')).toBe(0);
    expect(events.filter(({ content }) => content === OUTCOME_UNKNOWN).length).toBe(1);
    expect(events.at(-1)).toMatchObject({ type: 'turn.finished' });
  });
});

describe.skipIf(process.platform === 'win32')('F14: SIGSTOP', { timeout: TEST_MS_MAX }, () => {
  test('F14, F09: stopped for four times its timeouts, each fires once, no call runs twice, and its lock stays its own', async () => {
    const timeouts = { toolTimeoutMs: 300, modelTimeoutMs: 500 };
    const victim = await opened({ ...CALM, ...timeouts });
    victim.tell('send t hold');
    await victim.hear('started');
    victim.tell('send m slowly');
    await victim.hear('called');
    victim.process.kill('SIGSTOP');
    // This is not a sleep that guesses a duration. The passing time is the fault under test.
    await wait(4 * timeouts.modelTimeoutMs);
    await expect(acquireStoreLock(directory)).rejects.toMatchObject({
      name: 'StoreLockedError',
      data: { pid: victim.process.pid },
    });
    victim.process.kill('SIGCONT');

    // The model is called again, once; the tool's late result is dropped.
    while (victim.count('called', 'm') < 2) await victim.hear('called');
    victim.tell('go');
    victim.tell('drain');
    await victim.hear('drained');
    const tool = await victim.story('t');
    expect(tool.filter(({ type }) => type === 'tool.finished')).toEqual([{ type: 'tool.finished', success: false }]);
    expect(tool.filter(({ content }) => content === timeoutText('hold', timeouts.toolTimeoutMs)).length).toBe(1);
    expect(countOf(tool, 'turn.finished')).toBe(1);
    expect(victim.count('started', 't')).toBe(1);
    const model = await victim.story('m');
    expect(countOf(model, 'llm.retry')).toBe(1);
    expect(victim.count('called', 'm')).toBe(2);
    expect(model.filter(({ content }) => content === 'answered').length).toBe(1);
    expect(countOf(model, 'turn.finished')).toBe(1);
    victim.process.kill('SIGTERM');
    expect(await victim.exit()).toEqual([0, null]);
    const { events } = await restart('t');
    expect(countOf(events, 'session.recovered')).toBe(0);
  });
});
