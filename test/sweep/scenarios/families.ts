/**
 * Parents and children: children are spawned by models and by programs, fail, are restarted, interrupted and deleted.
 */

import type { Agent } from '../../../src/runtime/protocol/agent.ts';
import { agent } from '../../../src/runtime/protocol/agent.ts';
import type { AnyTool } from '../../../src/tools/tool.ts';
import type { Ask, Scenario } from '../scenario.ts';
import { answer, callsThenAnswers, INTERRUPTED, plain } from './turns.ts';

const FIVE = ['t1', 't2', 't3', 't4', 't5'];

function spawner(tools: readonly AnyTool[]): readonly Agent[] {
  return [agent({ name: 'spawner', system: 'Delegate.', tools, subagents: { spawn: true } })];
}

/** A parent that asks a child to look, and a child that reports. */
function delegates({ session, said }: Ask): ReturnType<Scenario['model']> {
  if (session === 'main:1') {
    if (!said.includes('result of look')) return { toolUse: { name: 'look', id: 'look_1' } };
    return { toolUse: { name: 'mark_goal_completed', id: 'mark_1', input: { result: 'child result' } } };
  }
  if (said.includes('child result')) return 'the end';
  if (said.includes('spawned')) return 'waiting';
  return {
    text: 'I ask.',
    toolUse: [
      { name: 'spawn_subagent', id: 'spawn_1', input: { task: 't1 look it up', name: 'scout' } },
      { name: 'save', id: 'save_1' },
    ],
  };
}

/** In every child the first model call fails for good; later calls are answered. */
function failsFirst(ask: Ask): ReturnType<Scenario['model']> {
  if (ask.session !== 'main' && ask.before === 0) return { error: { status: 400, message: 'not today' } };
  return answer(ask);
}

export const FAMILIES: readonly Scenario[] = [
  {
    name: 'model-spawns',
    agents: spawner,
    model: delegates,
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          await stage.say('main', 'm1');
        },
      },
    ],
    ending: {
      logs: {
        main: {
          anyOrder: [
            ...['user m1 please', 'agent I ask.', 'call spawn_subagent', 'call save', 'result result of save'],
            /^result Sub-agent scout spawned/,
            ...['call from_scout', 'result child result', 'agent the end'],
            { maybe: 'agent waiting' },
          ],
        },
        'main:1': [
          ...['user t1 look it up', 'call look', 'result result of look'],
          ...['call mark_goal_completed', /^result Goal completed/],
        ],
      },
      answers: { m1: /^text (?:waiting|the end)$/ },
    },
    pairs: true,
  },
  {
    name: 'spawn-with-mailbox',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          const child = await stage.spawn('main', 't1', {});
          stage.follow(child.id);
        },
      },
    ],
    ending: {
      logs: {
        main: ['call from_agent-1', 'result answer to t1', 'agent answer to t1'],
        'main:1': ['user t1 task', 'agent answer to t1'],
      },
      replies: { t1: 'text answer to t1' },
    },
    pairs: true,
  },
  {
    name: 'spawn-with-handle',
    agents: plain,
    model: callsThenAnswers('look'),
    parts: [
      {
        act: async (stage) => {
          await stage.spawn('main', 't1', { replies: 'handle', name: 'one' });
          await stage.spawn('main', 't2', { replies: 'handle', tools: ['look'] });
        },
      },
    ],
    ending: {
      logs: {
        main: [],
        'main:1': ['user t1 task', 'call look', 'result result of look', 'agent answer to t1'],
        'main:2': ['user t2 task', 'call look', 'result result of look', 'agent answer to t2'],
      },
      replies: { t1: 'text answer to t1', t2: 'text answer to t2' },
    },
  },
  {
    name: 'spawn-five-two-live',
    agents: plain,
    model: answer,
    limits: { liveSessions: 2 },
    parts: [{ act: async (stage) => void (await stage.spawnAll('main', FIVE, { replies: 'handle' })) }],
    ending: {
      logs: {
        main: [],
        ...Object.fromEntries(
          FIVE.map((uid, index) => [`main:${index + 1}`, [`user ${uid} task`, `agent answer to ${uid}`]]),
        ),
      },
      replies: Object.fromEntries(FIVE.map((uid) => [uid, `text answer to ${uid}`])),
    },
  },
  {
    name: 'spawn-five-mailbox',
    agents: plain,
    model: ({ session, uids }) => (session === 'main' ? 'noted' : `answer to ${uids}`),
    limits: { liveSessions: 2 },
    parts: [{ act: async (stage) => void (await stage.spawnAll('main', FIVE, {})) }],
    ending: {
      logs: {
        main: {
          anyOrder: [
            ...FIVE.flatMap((uid, index) => [`call from_agent-${index + 1}`, `result answer to ${uid}`]),
            'agent noted',
            ...Array.from({ length: 4 }, () => ({ maybe: 'agent noted' })),
          ],
        },
        ...Object.fromEntries(
          FIVE.map((uid, index) => [`main:${index + 1}`, [`user ${uid} task`, `agent answer to ${uid}`]]),
        ),
      },
      replies: Object.fromEntries(FIVE.map((uid) => [uid, `text answer to ${uid}`])),
    },
  },
  {
    name: 'child-fails',
    agents: plain,
    model: (ask) => (ask.session === 'main' ? 'a pity' : { error: { status: 400, message: 'not today' } }),
    parts: [{ act: async (stage) => void (await stage.spawn('main', 't1', {})) }],
    ending: {
      logs: {
        main: ['call from_agent-1', /^result I could not finish: my turn failed \(not today\)/, 'agent a pity'],
        'main:1': ['user t1 task', 'system The turn failed: not today'],
      },
      replies: { t1: 'failed' },
    },
  },
  {
    name: 'child-restarts',
    agents: (tools) => [
      agent({
        name: 'guard',
        system: 'Guard.',
        tools,
        supervision: { strategy: 'oneForAll', intensity: 5, periodMs: 60_000, onChildFailure: 'restart' },
      }),
    ],
    model: failsFirst,
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          await stage.spawnAll('main', ['t1', 't2'], { replies: 'handle' });
        },
      },
    ],
    ending: {
      logs: {
        main: [],
        'main:1': { anyOrder: ['user t1 task', 'agent answer to t1', ...failures('t1')] },
        'main:2': { anyOrder: ['user t2 task', 'agent answer to t2', ...failures('t2')] },
      },
      replies: { t1: 'text answer to t1', t2: 'text answer to t2' },
    },
  },
  {
    name: 'interrupt-family',
    agents: plain,
    model: callsThenAnswers('long'),
    parts: [
      {
        act: async (stage) => {
          const receipt = await stage.say('main', 'm1');
          const child = await stage.spawn('main', 't1', { replies: 'handle' });
          await stage.works(receipt);
          await stage.until('the child works, or has ended', async () => {
            const { children } = await stage.session('main').state();
            const { state } = await child.state();
            return state === 'executing' || children.some(({ exited }) => exited !== undefined);
          });
          await stage.insist(() => stage.session('main').interrupt());
        },
      },
    ],
    ending: {
      logs: {
        main: ['user m1 please', 'call long', INTERRUPTED],
        'main:1': ['user t1 task', 'call long', INTERRUPTED],
      },
      answers: { m1: 'cancelled' },
      replies: { t1: 'cancelled' },
    },
  },
  {
    name: 'delete-tree',
    agents: plain,
    model: callsThenAnswers('long'),
    parts: [
      {
        act: async (stage) => {
          if (!stage.outside.has('deleting')) {
            const receipt = await stage.say('gone', 'm1');
            await stage.spawn('gone', 't1', { replies: 'handle' });
            await stage.spawn('gone', 't2', {});
            await stage.toolRuns('long', receipt);
          }
          stage.outside.add('deleting');
          await stage.remove('gone');
          await stage.say('main', 'm2');
        },
      },
    ],
    ending: {
      logs: { main: ['user m2 please', 'call long', 'result result of long', 'agent answer to m2'] },
      answers: { m2: 'text answer to m2' },
    },
    pairs: true,
  },
];

/** Lines that a restarted child may have left behind. */
function failures(uid: string): readonly { readonly maybe: string }[] {
  return Array.from({ length: 3 }, () => [
    { maybe: `user ${uid} task` },
    { maybe: 'system The turn failed: not today' },
  ]).flat();
}
