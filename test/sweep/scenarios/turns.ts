/** Turns, and the ways a message reaches a session. */

import type { Agent } from '../../../src/runtime/protocol/agent.ts';
import { agent } from '../../../src/runtime/protocol/agent.ts';
import type { AnyTool } from '../../../src/tools/tool.ts';
import type { Ask, Scenario } from '../scenario.ts';

/** One agent with all tools. */
export function plain(tools: readonly AnyTool[]): readonly Agent[] {
  return [agent({ name: 'plain', system: 'Answer.', tools })];
}

/** Answers each message by its name. */
export function answer({ uids }: Ask): string {
  return `answer to ${uids}`;
}

/** Calls a tool once, then answers. */
export function callsThenAnswers(...names: readonly string[]): Scenario['model'] {
  return (ask) => {
    if (ask.said.includes('tool_use')) return answer(ask);
    return { toolUse: names.map((name, index) => ({ name, id: `${name}_${index}`, input: { n: index } })) };
  };
}

/** The result of a call that an interrupt ended. */
export const INTERRUPTED: RegExp = /^failed Interrupted/;

const CROWD: readonly string[] = Array.from({ length: 100 }, (_, index) => `m${index + 1}`);
const PAIR = ['user m1 please', 'agent answer to m1'];

/** Ways a message reaches a working session. */
const MEETINGS: readonly Scenario[] = [
  {
    name: 'riders-join',
    agents: plain,
    model: callsThenAnswers('look'),
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          await stage.toolRuns('look', await stage.say('main', 'm1'));
          await Promise.all([stage.say('main', 'm2'), stage.say('main', 'm3')]);
        },
      },
    ],
    ending: {
      logs: {
        main: {
          anyOrder: [
            ...['user m1 please', 'user m2 please', 'user m3 please', 'call look', 'result result of look'],
            { maybe: 'agent answer to m1' },
            'agent answer to m2',
            'agent answer to m3',
          ],
        },
      },
      answers: { m1: /^text answer to m[12]$/, m2: 'text answer to m2', m3: 'text answer to m3' },
    },
  },
  {
    name: 'steer',
    agents: plain,
    model: callsThenAnswers('look'),
    parts: [
      {
        act: async (stage) => {
          await stage.toolRuns('look', await stage.say('main', 'm1'));
          await stage.say('main', 'm2', { deliver: 'steer' });
        },
      },
    ],
    ending: {
      logs: {
        main: {
          anyOrder: [
            ...['user m1 please', 'call look', 'result result of look', 'user m2 please', 'agent answer to m2'],
            { maybe: 'agent answer to m1' },
          ],
        },
      },
      answers: { m1: /^text answer to m[12]$/, m2: 'text answer to m2' },
    },
    pairs: true,
  },
  {
    name: 'deliver-turn',
    agents: plain,
    model: callsThenAnswers('look'),
    parts: [
      {
        act: async (stage) => {
          await stage.toolRuns('look', await stage.say('main', 'm1'));
          await stage.say('main', 'm2', { deliver: 'turn' });
        },
      },
    ],
    ending: {
      logs: {
        main: [
          ...['user m1 please', 'call look', 'result result of look', 'agent answer to m1'],
          ...['user m2 please', 'agent answer to m2'],
        ],
      },
      answers: { m1: 'text answer to m1', m2: 'text answer to m2' },
    },
  },
  {
    name: 'deliver-interrupt',
    agents: plain,
    model: callsThenAnswers('long'),
    parts: [
      {
        act: async (stage) => {
          await stage.toolRuns('long', await stage.say('main', 'm1'));
          await stage.say('main', 'm2', { deliver: 'interrupt' });
        },
      },
    ],
    ending: {
      logs: { main: ['user m1 please', 'call long', INTERRUPTED, 'user m2 please', 'agent answer to m2'] },
      answers: { m1: 'cancelled', m2: 'text answer to m2' },
    },
  },
  {
    name: 'deliver-reject',
    agents: plain,
    model: callsThenAnswers('look'),
    parts: [
      {
        act: async (stage) => {
          await stage.toolRuns('look', await stage.say('main', 'm1'));
          await stage.sayUnlessBusy('main', 'm2');
        },
      },
    ],
    ending: {
      logs: {
        main: [
          ...['user m1 please', 'call look', 'result result of look', 'agent answer to m1'],
          ...[{ maybe: 'user m2 please' }, { maybe: 'agent answer to m2' }],
        ],
      },
      answers: { m1: 'text answer to m1', m2: /^(?:refused|text answer to m2)$/ },
    },
  },
  {
    name: 'interrupt',
    agents: plain,
    model: callsThenAnswers('long'),
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          const receipt = await stage.say('main', 'm1');
          await stage.toolRuns('long', receipt);
          // The first message must be the interrupted one.
          if (!(await stage.isSettled(receipt))) await stage.insist(() => stage.session('main').interrupt('enough'));
          await stage.say('main', 'm2');
        },
      },
    ],
    ending: {
      logs: { main: ['user m1 please', 'call long', INTERRUPTED, 'user m2 please', 'agent answer to m2'] },
      answers: { m1: 'cancelled', m2: 'text answer to m2' },
    },
  },
];

/** The session is paused, so that the test knows the waiting entries. */
const PAUSES: readonly Scenario[] = [
  {
    name: 'deliver-merge',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          await stage.settled(await stage.say('main', 'm1'));
          await stage.insist(() => stage.session('main').pause());
          for (const uid of ['m2', 'm3', 'm4']) await stage.say('main', uid, { deliver: 'merge' });
          await stage.insist(() => stage.session('main').resume());
        },
      },
    ],
    ending: {
      logs: { main: [...PAIR, /^user m2 please\s+m3 please\s+m4 please$/, 'agent answer to m2+m3+m4'] },
      answers: { m2: 'text answer to m2+m3+m4', m4: 'text answer to m2+m3+m4' },
    },
  },
  {
    name: 'deliver-latest',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          await stage.settled(await stage.say('main', 'm1'));
          await stage.insist(() => stage.session('main').pause());
          for (const uid of ['m2', 'm3', 'm4']) await stage.say('main', uid, { deliver: 'latest' });
          await stage.insist(() => stage.session('main').resume());
        },
      },
    ],
    ending: {
      logs: { main: [...PAIR, 'user m4 please', 'agent answer to m4'] },
      answers: { m2: 'dropped', m3: 'dropped', m4: 'text answer to m4' },
    },
  },
  {
    name: 'recall',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          const main = stage.session('main');
          await stage.insist(() => main.pause());
          const { pendingId } = await stage.say('main', 'm1');
          await stage.insist(() => main.recall(pendingId));
          await stage.insist(() => main.resume());
          await stage.say('main', 'm2');
        },
      },
    ],
    ending: {
      logs: { main: ['user m2 please', 'agent answer to m2'] },
      answers: { m1: 'dropped', m2: 'text answer to m2' },
    },
    pairs: true,
  },
  {
    name: 'pause-and-resume',
    agents: plain,
    model: callsThenAnswers('look'),
    parts: [
      {
        act: async (stage) => {
          const main = stage.session('main');
          const receipt = await stage.say('main', 'm1');
          await stage.until('look runs, or it is paused', async () => {
            const { phase } = await main.state();
            return phase === 'paused' || stage.isRunning('look') || (await stage.isSettled(receipt));
          });
          await stage.insist(() => main.pause());
          await stage.sleep(1_500);
          await stage.insist(() => main.resume());
          await stage.settled(receipt);
          await stage.say('main', 'm2');
        },
      },
    ],
    ending: {
      logs: {
        main: [
          ...['user m1 please', 'call look', 'result result of look', 'agent answer to m1'],
          ...['user m2 please', 'agent answer to m2'],
        ],
      },
    },
  },
  {
    name: 'large-mailbox',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          await stage.insist(() => stage.session('main').pause());
          await Promise.all(CROWD.map((uid) => stage.say('main', uid, { deliver: 'merge' })));
          await stage.insist(() => stage.session('main').resume());
        },
      },
    ],
    ending: {
      logs: { main: [/^user m1 please\s+m2 please\s(?:.*\s)*m100 please$/, `agent answer to ${CROWD.join('+')}`] },
      answers: { m1: `text answer to ${CROWD.join('+')}`, m100: `text answer to ${CROWD.join('+')}` },
    },
  },
];

export const TURNS: readonly Scenario[] = [
  {
    name: 'simple-turn',
    agents: plain,
    model: answer,
    parts: [{ act: async (stage) => void (await stage.say('main', 'm1')) }],
    ending: { logs: { main: PAIR }, answers: { m1: 'text answer to m1' } },
    pairs: true,
  },
  {
    name: 'key-again',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          const receipt = await stage.say('main', 'm1');
          await Promise.all([stage.say('main', 'm1'), stage.say('main', 'm1')]);
          await stage.settled(receipt);
          await stage.say('main', 'm1');
        },
      },
    ],
    ending: { logs: { main: PAIR }, answers: { m1: 'text answer to m1' } },
    pairs: true,
  },
  {
    name: 'three-riders',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          for (const uid of ['m1', 'm2', 'm3']) await stage.say('main', uid);
        },
      },
    ],
    ending: {
      logs: { main: ['m1', 'm2', 'm3'].flatMap((uid) => [`user ${uid} please`, `agent answer to ${uid}`]) },
      answers: { m1: 'text answer to m1', m2: 'text answer to m2', m3: 'text answer to m3' },
    },
    pairs: true,
  },
  ...MEETINGS,
  ...PAUSES,
];
