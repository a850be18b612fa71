/**
 * Goal: every public method refuses an invalid argument with a typed error and changes nothing. Method: the prototypes
 * of all public handles are walked; a method without an entry in the table fails the first test. Each argument of each
 * method is replaced by each hostile value that its entry does not allow.
 */
import { expect, test } from 'vitest';
import { TroupeError } from '../../../src/base/errors.ts';
import { Child } from '../../../src/runtime/handles/child.ts';
import { DeadLetters } from '../../../src/runtime/handles/dead-letters.ts';
import { Family } from '../../../src/runtime/handles/family.ts';
import { Goals } from '../../../src/runtime/handles/goals.ts';
import { History } from '../../../src/runtime/handles/history.ts';
import { Receipt } from '../../../src/runtime/handles/receipt.ts';
import { Runtime } from '../../../src/runtime/handles/runtime.ts';
import { Session } from '../../../src/runtime/handles/session.ts';
import { SessionsView } from '../../../src/runtime/handles/sessions-view.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { history as eventsOf, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

const bare: object = Object.assign(Object.create(null), { unknown: 1 });
const HOSTILE: readonly unknown[] = [
  ...[null, true, Number.NaN, -1, 0.5, 1n, 'x', '', Symbol('s'), () => 1, [Symbol('s')], { unknown: 1 }, bare],
];

/** One argument: a value that fits, and the hostile values that are allowed too. */
type Argument = readonly [fitting: unknown, allows?: (value: unknown) => boolean];

const isText = (value: unknown): boolean => typeof value === 'string';
const isFunction = (value: unknown): boolean => typeof value === 'function';
const isBoxed = (value: unknown): boolean => typeof value === 'object' && value !== null;
const isJson = (value: unknown): boolean =>
  !['bigint', 'symbol', 'function'].includes(typeof value) && !Number.isNaN(value) && !Array.isArray(value);
const OPTIONS: Argument = [{}];
const MESSAGE: Argument = [{ role: 'user', content: 'Hi' }];
const TEXT: Argument = ['x', isText];
const NONE: readonly Argument[] = [];
const list: Argument = [[]];

const TABLE: Readonly<Record<string, Readonly<Record<string, readonly Argument[]>>>> = {
  SessionsView: {
    session: [['s', (value) => value === 'x'], ['default']],
    events: [OPTIONS],
    search: [['none', isText], OPTIONS],
    waiting: [OPTIONS],
    deadLetters: [OPTIONS],
    audit: [OPTIONS],
  },
  Runtime: {
    tenant: [['acme', (value) => value === 'x']],
    metrics: NONE,
    isReady: NONE,
    info: NONE,
    resume: NONE,
    backup: [['x']],
    drain: [OPTIONS],
    close: [OPTIONS],
  },
  DeadLetters: {
    list: NONE,
    get: [[1]],
    resend: [[1], OPTIONS],
    drop: [[1], OPTIONS],
  },
  sessions: {
    list: [OPTIONS],
    get: [['none', (value) => value === 'x']],
    delete: [['none', (value) => value === 'x'], OPTIONS],
  },
  Session: {
    send: [['Hi', (value) => value === 'x'], OPTIONS],
    ask: [['Hi', (value) => value === 'x'], OPTIONS],
    events: [OPTIONS],
    state: NONE,
    usage: [OPTIONS],
    setBudget: [[1_000_000, (value) => value === null]],
    explain: NONE,
    messages: [OPTIONS],
    page: [['messages'], OPTIONS],
    pending: NONE,
    recall: [[1]],
    interrupt: [TEXT],
    approve: [TEXT, [{ allow: true }]],
    answer: [TEXT, ['value', isJson], OPTIONS],
    decline: [TEXT, TEXT, OPTIONS],
    spawn: [[{ task: 'look' }], OPTIONS],
    spawnAll: [[[], (value) => Array.isArray(value) && value.length === 0]],
    child: [['none']],
    onMessage: [[() => 1, isFunction], OPTIONS],
    activateSkill: [['none']],
    activateWorkflow: [['none']],
    viewport: NONE,
    request: NONE,
    receipt: [['none']],
    current: NONE,
    fork: [OPTIONS],
    pause: NONE,
    resume: NONE,
    delete: [OPTIONS],
  },
  Child: { reply: NONE, exit: NONE, end: NONE },
  Family: { all: NONE, any: NONE, settled: NONE, first: [[0]] },
  Receipt: { status: NONE, promoted: NONE, answer: NONE },
  History: {
    onMessage: [[() => 1, isFunction]],
    add: [MESSAGE, OPTIONS],
    append: [MESSAGE, OPTIONS],
    set: [list, OPTIONS],
    replaceAll: [list, OPTIONS],
    seed: [list, OPTIONS],
    unset: [OPTIONS],
    remove: [[{ id: 'none' }], OPTIONS],
    update: [[{ id: 'none' }], [{}, isBoxed], OPTIONS],
    replaceSystemPrompt: [TEXT, [{}, (value) => isBoxed(value) && !Array.isArray(value)], OPTIONS],
    popLast: [OPTIONS],
    deleteWhere: [[() => false, isFunction], OPTIONS],
    mutateLastMatching: [[() => false, isFunction], [() => undefined, isFunction], OPTIONS],
    truncateFrom: [[99], OPTIONS],
    truncateFromCreatedAt: [
      ['2999', (value) => isText(value) || (typeof value === 'number' && !Number.isNaN(value))],
      OPTIONS,
    ],
    rollbackBefore: [[{ id: 'none', session: 'none', incarnation: 1 }], OPTIONS],
    discardPendingToolCalls: [OPTIONS],
    attachToToolResult: [
      TEXT,
      TEXT,
      ['value', (value) => !['bigint', 'symbol', 'function'].includes(typeof value)],
      OPTIONS,
    ],
    addExtensionEvent: [[{}, (value) => !['bigint', 'symbol', 'function'].includes(typeof value)], OPTIONS],
    messages: NONE,
    toArray: NONE,
    size: NONE,
    isEmpty: NONE,
    orphanedToolCallIds: NONE,
    pendingToolCalls: NONE,
    steps: NONE,
    finalAssistantMessage: NONE,
    hasSystemPrompt: NONE,
    hasPendingToolCalls: NONE,
    lastSessionContextDate: NONE,
    lastInjectedChunkCount: NONE,
    realUserMessages: NONE,
    lastRealUserIndex: NONE,
    subagentInstructionMessage: NONE,
    estimateTokens: NONE,
    toApi: [OPTIONS],
    export: NONE,
    import: [[[]], OPTIONS],
    settleInterrupted: [[{}, (value) => isBoxed(value) && !Array.isArray(value)], OPTIONS],
    startTask: [TEXT],
    undo: NONE,
    // Answers `{ success: false }` to any value that is no task.
    switchTo: [[99, () => true]],
    children: [[99]],
    taskHistory: [[1]],
    activeMessages: NONE,
    currentTaskId: NONE,
    activeTaskId: NONE,
    compress: [OPTIONS],
    chunks: NONE,
    chunk: [[1]],
  },
  Goals: {
    list: NONE,
    create: [[{ description: 'none', parentId: 99 }]],
    update: [[99], [{ description: 'none' }]],
    complete: [[99]],
    attach: [[{ messages: [], goals: [] }]],
  },
};

const CLASSES: Readonly<Record<string, object>> = {
  ...{ SessionsView, Runtime, Session, DeadLetters, Child, Family, Receipt, History, Goals },
};

function methodsOf(prototype: object): readonly string[] {
  return Object.getOwnPropertyNames(prototype).filter((name) => {
    const { value } = Object.getOwnPropertyDescriptor(prototype, name) ?? {};
    return name !== 'constructor' && typeof value === 'function';
  });
}

test.each(Object.entries(CLASSES))('every method of %s has an entry', (name, made) => {
  const prototype: object = Reflect.get(made, 'prototype') as object;
  expect([...methodsOf(prototype)].sort()).toEqual(Object.keys(TABLE[name] ?? {}).sort());
});

/** The outcome of a call: the error that refused it, or `taken` if it was accepted. */
async function outcomeOf(target: object, method: string, values: readonly unknown[]): Promise<unknown> {
  try {
    const called: unknown = (Reflect.get(target, method) as (...values: unknown[]) => unknown).apply(target, [
      ...values,
    ]);
    await called;
    return 'taken';
  } catch (error) {
    return error;
  }
}

test('each hostile argument of each method is refused with a typed error, and nothing changes', async () => {
  const runtime = await kit.open({ provider: scripted({ rules: [], otherwise: 'to {{text}}' }) });
  const session = runtime.session('s');
  const receipt = await session.send('Hi');
  await receipt.answer();
  const family = await session.spawnAll([{ task: 'look', replies: 'handle' }]);
  const [child] = await family.settled();
  const { history, goals, deadLetters } = session;
  const targets: Readonly<Record<string, object | undefined>> = {
    ...{
      SessionsView: runtime.tenant('t'),
      Runtime: runtime,
      sessions: runtime.sessions,
      Session: session,
      Child: child?.child,
    },
    ...{ Family: family, Receipt: receipt, History: history, Goals: goals, DeadLetters: deadLetters },
  };
  expect(Object.keys(runtime.sessions).sort()).toEqual(Object.keys(TABLE['sessions'] ?? {}).sort());
  const look = async (): Promise<unknown> => [
    await eventsOf(session),
    await history.messages(),
    await goals.list(),
    (await runtime.sessions.list({ order: 'id' })).map(({ id }) => id),
  ];
  const before = await look();
  const wrong: string[] = [];
  for (const [name, methods] of Object.entries(TABLE)) {
    const target = targets[name];
    if (target === undefined) throw new Error(`nothing to call the methods of ${name} on`);
    for (const [method, parameters] of Object.entries(methods)) {
      for (const [index, [, allows]] of parameters.entries()) {
        for (const value of HOSTILE) {
          if (allows?.(value) === true) continue;
          const values = parameters.map(([fitting], other) => (other === index ? value : fitting));
          const outcome = await outcomeOf(target, method, values);
          if (!(outcome instanceof TroupeError))
            wrong.push(`${name}.${method}, argument ${index}, ${typeof value}: ${String(outcome)}`);
        }
      }
    }
  }
  expect(wrong).toEqual([]);
  expect(await look()).toEqual(before);
  expect(await session.ask('still there')).toBe('to still there');
});
