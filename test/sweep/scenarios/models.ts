/** Model calls that do more than answer: they fail, pause, are cut off, or exceed their window. */
import { agent } from '../../../src/runtime/protocol/agent.ts';
import type { Scenario } from '../scenario.ts';
import { answer, plain } from './turns.ts';

const LONG = 'word '.repeat(120).trim();

export const MODELS: readonly Scenario[] = [
  {
    name: 'retries',
    agents: plain,
    model: (ask) => {
      if (ask.before === 0) return { error: { status: 529, message: 'overloaded' } };
      if (ask.before === 1) return { error: { status: 429, message: 'too many', retryAfterMs: 3_000 } };
      return answer(ask);
    },
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          await stage.say('main', 'm1');
        },
      },
    ],
    ending: { logs: { main: ['user m1 please', 'agent answer to m1'] }, answers: { m1: 'text answer to m1' } },
    pairs: true,
  },
  {
    name: 'failure-bounces',
    agents: plain,
    model: (ask) => (ask.uids === 'm1' ? { error: { status: 400, message: 'no' } } : answer(ask)),
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          await stage.settled(await stage.say('main', 'm1', { bounceBack: true }));
          await stage.say('main', 'm2');
        },
      },
    ],
    ending: {
      logs: { main: ['user m2 please', 'agent answer to m2'] },
      answers: { m1: 'failed', m2: 'text answer to m2' },
    },
  },
  {
    name: 'failure-stays',
    agents: plain,
    model: (ask) => (ask.said.includes('m2') ? 'enough' : { error: { status: 400, message: 'no' } }),
    parts: [
      {
        act: async (stage) => {
          await stage.settled(await stage.say('main', 'm1'));
          await stage.say('main', 'm2');
          await stage.insist(() => stage.runtime.resume());
        },
      },
    ],
    ending: {
      logs: { main: ['user m1 please', 'system The turn failed: no', 'user m2 please', 'agent enough'] },
      answers: { m1: 'failed', m2: 'text enough' },
    },
  },
  {
    name: 'authentication',
    agents: plain,
    model: (ask) => (ask.outside.has('key') ? answer(ask) : { error: { status: 401, message: 'bad key' } }),
    parts: [
      {
        act: async (stage) => {
          // If a failing store lost a refusal, the refusal is not repeated: the call waits for the key.
          await stage.blocked(await stage.say('main', 'm1', { bounceBack: true }));
          await stage.say('main', 'm2');
          stage.outside.add('key');
          await stage.insist(() => stage.runtime.resume());
        },
      },
    ],
    ending: {
      logs: {
        main: [
          { maybe: 'user m1 please' },
          /^(system Authentication failed: bad key|agent answer to m1)/,
          'user m2 please',
          /^agent answer to m2/,
        ],
      },
      answers: { m1: /^(failed|text answer to m1)/, m2: /^text answer to m2/ },
    },
  },
  {
    name: 'pause-turn',
    agents: plain,
    model: (ask) => (ask.said.includes('part one') ? 'part two' : { text: 'part one', stopReason: 'pause_turn' }),
    parts: [{ act: async (stage) => void (await stage.say('main', 'm1')) }],
    ending: {
      logs: { main: ['user m1 please', 'agent part one', 'agent part two'] },
      answers: { m1: /^text part one\s*part two$/ },
    },
  },
  {
    name: 'cut-call',
    agents: plain,
    model: (ask) =>
      ask.uids === 'm1' && !ask.said.includes('I begin')
        ? { text: 'I begin', toolUse: { name: 'fire', id: 'fire_1' }, stopReason: 'max_tokens' }
        : answer(ask),
    parts: [
      {
        act: async (stage) => {
          await stage.settled(await stage.say('main', 'm1'));
          await stage.say('main', 'm2');
        },
      },
    ],
    ending: {
      logs: {
        main: [
          ...['user m1 please', 'agent I begin', 'call fire', /^failed The call was truncated/, 'agent answer to m1'],
          ...['user m2 please', 'agent answer to m2'],
        ],
      },
      answers: { m1: 'text answer to m1' },
    },
  },
  {
    name: 'empty-answer',
    agents: plain,
    model: (ask) => (ask.uids === 'm1' ? { content: [] } : answer(ask)),
    parts: [
      {
        act: async (stage) => {
          await stage.settled(await stage.say('main', 'm1'));
          await stage.say('main', 'm2');
        },
      },
    ],
    ending: {
      logs: { main: ['user m1 please', 'user m2 please', /^agent answer to/] },
      answers: { m1: 'text ' },
    },
  },
  {
    name: 'eviction',
    agents: (tools) => [agent({ name: 'narrow', system: 'Answer.', tokenBudget: 600, tools })],
    model: answer,
    parts: [
      {
        act: async (stage) => {
          for (const uid of ['m1', 'm2', 'm3', 'm4', 'm5', 'm6']) {
            await stage.settled(await stage.say('main', uid, { text: LONG }));
          }
          await stage.until('something is evicted', async () => {
            const main = stage.session('main');
            const [shown, all] = [await main.viewport(), await main.messages()];
            return shown.length < all.length;
          });
        },
      },
    ],
    ending: {
      logs: {
        main: ['m1', 'm2', 'm3', 'm4', 'm5', 'm6'].flatMap((uid) => [
          `user ${uid} please ${LONG}`,
          `agent answer to ${uid}`,
        ]),
      },
    },
  },
  {
    name: 'system-function',
    agents: (tools) => [agent({ name: 'spoken', system: ({ session }) => `You are ${session}.`, tools })],
    model: (ask) => (ask.request.system?.includes('You are main.') === true ? answer(ask) : 'who am I?'),
    parts: [
      {
        act: async (stage) => {
          await stage.settled(await stage.say('main', 'm1'));
          await stage.say('main', 'm2');
        },
      },
    ],
    ending: { logs: { main: ['user m1 please', 'agent answer to m1', 'user m2 please', 'agent answer to m2'] } },
  },
];
