/** Goal: `npm run cluster` shows a fail-over of real processes, and its check sees what is lost or there twice. */
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { paintFor } from '../../../src/cli/surroundings.ts';
import { keptOutput, testSurroundings } from '../../cli/support/surroundings.ts';
import { startChild } from '../../support/children.ts';
import { NO_SERVER } from '../support/server.ts';
import { type DemoFacts, judge } from './checks.ts';
import { type DemoReport, isSound, lastScreen } from './report.ts';
import { DemoScreen } from './screen.ts';
import { DemoWork, nameOf, taskOf } from './work.ts';

const PROGRAM = new URL('./run.ts', import.meta.url);

test.skipIf(NO_SERVER !== undefined)(
  'the owner is killed in the middle, and every answer is there once (DC2)',
  async () => {
    const demo = startChild(PROGRAM, ['--children', '30', '--plain']);
    const code = await demo.ended();
    const output = demo.output();
    expect(code, output + demo.errors()).toBe(0);
    expect(output).toMatch(/^cluster {3}a is the owner, b is a member, c is a member\.$/mu);
    expect(output).toMatch(/^kill -9 {3}node a, the owner, process \d+, with 1[5-9] of 30 answers\.$/mu);
    expect(output).toMatch(/^owner {5}node [bc] has all sessions, [\d,]+ ms after the kill\.$/mu);
    expect(output).toMatch(/^100 % {2}30 of 30 answers/mu);
    expect(output).toMatch(/^events {4}\d+ at node b over one connection, without a hole$/mu);
    expect(output).toMatch(/^answers {3}30 of 30, /mu);
    expect(output).toMatch(/^lost {6}0, double 0, /mu);
    expect(output).toContain('Nothing was lost, and nothing was done twice.');
    expect(output.includes('\u001b')).toBe(false);
  },
);

test.skipIf(NO_SERVER !== undefined)(
  'with --keep the page stays; after Ctrl+C no node and no server is left (DC1)',
  async () => {
    const demo = startChild(PROGRAM, ['--children', '30', '--plain', '--keep']);
    await demo.said('Nothing was lost, and nothing was done twice.');
    await demo.said("npx troupe cluster status 'postgres://");
    const page = /^page {6}(\S+)/mu.exec(demo.output())?.[1] ?? '';
    const database = decodeURIComponent(/\?host=([^']+)'/u.exec(demo.output())?.[1] ?? '');
    expect((await fetch(page)).status).toBe(200);
    expect(existsSync(database)).toBe(true);
    demo.process.kill('SIGINT');
    expect(await demo.ended()).toBe(0);
    await expect
      .poll(() =>
        fetch(page).then(
          () => 'answered',
          () => 'gone',
        ),
      )
      .toBe('gone');
    expect(existsSync(database)).toBe(false);
  },
);

test('a narrow terminal: no line is wider, and the cursor comes back (DS1, DS2)', () => {
  const stdout = keptOutput(true, 40);
  const screen = new DemoScreen(testSurroundings('/', { stdout }), false);
  const member = { name: 'b', pid: 12_345, state: 'member', url: 'http://127.0.0.1:1' } as const;
  screen.show([{ ...member, name: 'a', state: 'owner' }, member], new DemoWork(member.url, 1_000), member);
  screen.note('a line that stays');
  screen.stop();
  const lines = stripVTControlCharacters(stdout.text()).split('\n');
  expect(lines.some((line) => line.includes('node b  member'))).toBe(true);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(40);
  expect(stdout.text().endsWith('\u001b[?25h')).toBe(true);
});

test('a request with an unknown outcome is sent again with its key, and a refused one is not (DW1)', async () => {
  const bodies: string[] = [];
  const statuses = [503, 503, 201, 400];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      bodies.push(body);
      const status = statuses.shift() ?? 500;
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ code: `status_${status}`, detail: 'it moved', retryable: status === 503 }));
    });
  }).listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const work = new DemoWork(url, 1);
    await work.repeatAll();
    expect([work.repeated, work.inFlight, bodies.length, new Set(bodies).size]).toEqual([2, 0, 3, 1]);
    expect(bodies[0]).toContain(`"key":"${nameOf(1)}"`);
    await expect(new DemoWork(url, 1).repeatAll()).rejects.toThrow('status_400: it moved');
    expect(bodies.length).toBe(4);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

describe('the check at the end', () => {
  const SOUND: DemoFacts = {
    children: [1, 2].map((index) => ({ name: nameOf(index), tasks: [taskOf(index)], answers: 1 })),
    replies: [nameOf(2), nameOf(1)],
  };
  const [first, second] = SOUND.children;
  const report = (facts: DemoFacts, holes = 0): DemoReport => ({
    ...{ total: 2, seconds: 1, entries: 9, leaseMs: 2_000, verdict: judge(2, facts) },
    killed: { name: 'a', pid: 1, answers: 1 },
    next: { name: 'c', ownedMs: 2_000, answerMs: 2_100 },
    member: { name: 'b', url: 'http://127.0.0.1:1', waited: 1, repeated: 0 },
    events: { count: 20, holes, reconnects: 0 },
  });

  test('finds nothing in what is there once, and holes in the events (DW2)', () => {
    expect(judge(2, SOUND)).toEqual({ answers: 2, lost: 0, double: 0, faults: [] });
    expect(isSound(report(SOUND))).toBe(true);
    expect(isSound(report(SOUND, 1))).toBe(false);
  });

  test.each<readonly [DemoFacts, string]>([
    [{ ...SOUND, replies: [nameOf(1)] }, 'the reply of chapter-2 at its parent is there not at all'],
    [{ ...SOUND, replies: [nameOf(1), ...SOUND.replies] }, 'the reply of chapter-1 at its parent is there 2 times'],
    [{ ...SOUND, children: SOUND.children.slice(1) }, 'the sub-agent of key chapter-1 is there not at all'],
    [
      { ...SOUND, children: [...SOUND.children, ...SOUND.children.slice(1)] },
      'the sub-agent of key chapter-2 is there 2 times',
    ],
    [
      { ...SOUND, children: SOUND.children.map((each) => ({ ...each, answers: 0 })) },
      'the answer of chapter-1 is there not at all',
    ],
    [
      { ...SOUND, children: SOUND.children.map((each) => ({ ...each, answers: 2 })) },
      'the answer of chapter-2 is there 2 times',
    ],
    [
      { ...SOUND, children: [...SOUND.children, { name: 'x', tasks: ['Sing.'], answers: 1 }] },
      'there is a task that was not given: Sing.',
    ],
  ])('names what is lost or there twice: %#', (facts, fault) => {
    expect(judge(2, facts).faults).toContain(fault);
    const screen = lastScreen(report(facts), paintFor(keptOutput(), {}));
    expect(screen).toContain('This should not have happened');
    expect(screen.trim().split('\n').length).toBeLessThanOrEqual(15);
  });

  test('a task given to two sub-agents shows a key that was accepted twice', () => {
    const again = { name: 'chapter-1b', tasks: first?.tasks ?? [], answers: 1 };
    const verdict = judge(2, {
      children: [first, second, again].flatMap((each) => each ?? []),
      replies: SOUND.replies,
    });
    expect(verdict).toMatchObject({ double: 1, faults: ['the sub-agent of key chapter-1 is there 2 times'] });
  });
});
