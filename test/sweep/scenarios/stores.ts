/**
 * Work of the store other than that of turns: passivation, snapshots, checkpoints, outages, closing, several disks,
 * threads.
 */

import { agent } from '../../../src/runtime/protocol/agent.ts';
import { TOOL_MODULE } from '../../../src/testing/simulation/simulated-tools.ts';
import type { Scenario } from '../scenario.ts';
import type { Stage } from '../stage.ts';
import { answer, callsThenAnswers, plain } from './turns.ts';

/** Sends two messages to each session, in rounds, so that each leaves memory in between. */
async function rounds(stage: Stage, sessions: readonly string[]): Promise<void> {
  for (const round of [0, 1]) {
    for (const [index, session] of sessions.entries()) {
      await stage.settled(await stage.say(session, `m${round * sessions.length + index + 1}`));
    }
  }
}

/** The logs of `rounds`. */
function roundLogs(sessions: readonly string[]): Scenario['ending']['logs'] {
  return Object.fromEntries(
    sessions.map((session, index) => {
      const uids = [0, 1].map((round) => `m${round * sessions.length + index + 1}`);
      return [session, uids.flatMap((uid) => [`user ${uid} please`, `agent answer to ${uid}`])];
    }),
  );
}

const CALL_AND_ANSWER = ['user m1 please', 'call save', 'result result of save', 'agent answer to m1'];

/** A turn with a call, riders, a child and a reader. */
async function bitOfEverything(stage: Stage): Promise<void> {
  stage.follow('main');
  const receipt = await stage.say('main', 'm1');
  await stage.toolRuns('save', receipt);
  await stage.spawn('main', 't1', { replies: 'handle' });
  await stage.settled(receipt);
  await stage.say('main', 'm2');
}

const BIT_OF_EVERYTHING: Scenario['ending'] = {
  logs: {
    main: [...CALL_AND_ANSWER, 'user m2 please', 'agent answer to m2'],
    'main:1': ['user t1 task', 'call save', 'result result of save', 'agent answer to t1'],
  },
  answers: { m1: 'text answer to m1', m2: 'text answer to m2' },
  replies: { t1: 'text answer to t1' },
};

export const STORES: readonly Scenario[] = [
  {
    name: 'passivation',
    agents: plain,
    model: answer,
    bounds: { hotSessions: 1 },
    parts: [{ act: (stage) => rounds(stage, ['a', 'b', 'c']) }],
    ending: { logs: roundLogs(['a', 'b', 'c']) },
  },
  {
    name: 'snapshots',
    agents: plain,
    model: answer,
    bounds: { hotSessions: 1, snapshotTurns: 2, checkpointTurns: 4 },
    parts: [{ act: (stage) => rounds(stage, ['a', 'b', 'c']) }],
    ending: { logs: roundLogs(['a', 'b', 'c']) },
    pairs: true,
  },
  {
    name: 'checkpoint-in-the-middle',
    agents: plain,
    model: (ask) => (ask.said.includes('m2') ? answer(ask) : callsThenAnswers('long')(ask)),
    parts: [
      {
        act: async (stage) => {
          const receipt = await stage.say('main', 'm1');
          await stage.toolRuns('long', receipt);
          await stage.sleep(2_500);
          await stage.mark();
          await stage.settled(receipt);
          await stage.mark();
          await stage.sleep(1_500);
          await stage.say('main', 'm2');
        },
      },
    ],
    ending: {
      logs: {
        main: [
          ...['user m1 please', 'call long', 'result result of long', 'agent answer to m1'],
          ...['user m2 please', 'agent answer to m2'],
        ],
      },
    },
  },
  {
    name: 'two-shards',
    agents: plain,
    model: answer,
    shards: 2,
    parts: [
      {
        act: async (stage) => {
          await Promise.all(['m1', 'm2', 'm3', 'm4'].map((uid, index) => stage.say(`s${index}`, uid)));
        },
      },
    ],
    ending: {
      logs: Object.fromEntries(
        ['m1', 'm2', 'm3', 'm4'].map((uid, index) => [`s${index}`, [`user ${uid} please`, `agent answer to ${uid}`]]),
      ),
    },
  },
  {
    name: 'close-in-a-call',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          await stage.works(await stage.say('main', 'm1'));
        },
        drains: false,
        closeMs: 0,
      },
      { act: async (stage) => void (await stage.say('main', 'm1')) },
    ],
    ending: { logs: { main: ['user m1 please', 'agent answer to m1'] }, answers: { m1: 'text answer to m1' } },
    pairs: true,
  },
  {
    name: 'close-in-a-tool',
    agents: plain,
    model: callsThenAnswers('save'),
    parts: [
      {
        act: async (stage) => {
          await stage.toolRuns('save', await stage.say('main', 'm1'));
          await stage.say('main', 'm2', { deliver: 'turn' });
        },
        drains: false,
        closeMs: 0,
      },
      {
        act: async (stage) => {
          stage.follow('main');
          await stage.say('main', 'm2', { deliver: 'turn' });
        },
      },
    ],
    ending: { logs: { main: [...CALL_AND_ANSWER, 'user m2 please', 'agent answer to m2'] } },
  },
  {
    name: 'outage',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          const receipt = await stage.say('main', 'm1');
          stage.full(true);
          const said = stage.say('main', 'm2');
          await stage.sleep(3_000);
          stage.full(false);
          await said;
          await stage.settled(receipt);
          await stage.say('main', 'm3');
        },
      },
    ],
    ending: {
      logs: { main: ['m1', 'm2', 'm3'].flatMap((uid) => [`user ${uid} please`, `agent answer to ${uid}`]) },
    },
    pairs: true,
  },
  {
    name: 'given-up-in-an-outage',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          await stage.settled(await stage.say('main', 'm1'));
          stage.full(true);
          await stage.sayOnce('main', 'm2');
          stage.full(false);
        },
      },
      { act: async (stage) => void (await stage.say('main', 'm3')) },
      { act: async (stage) => void (await stage.say('main', 'm3')) },
    ],
    ending: {
      logs: {
        main: [
          ...['user m1 please', 'agent answer to m1', { maybe: 'user m2 please' }, { maybe: 'agent answer to m2' }],
          ...['user m3 please', 'agent answer to m3'],
        ],
      },
      answers: { m3: 'text answer to m3' },
    },
    pairs: true,
  },
  {
    name: 'drain-in-an-outage',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          stage.full(true);
          const drain = stage.drainBehindAWrite();
          await stage.sleep(1_500);
          if (drain.isDone()) stage.broken('what the store refuses is not drained');
          stage.full(false);
          await stage.until('the drain tells', drain.isDone);
          await stage.say('main', 'm1');
        },
      },
    ],
    ending: { logs: { main: ['user m1 please', 'agent answer to m1'] }, answers: { m1: 'text answer to m1' } },
  },
  {
    name: 'strict',
    agents: plain,
    model: callsThenAnswers('save'),
    durability: 'strict',
    parts: [{ act: bitOfEverything }],
    ending: BIT_OF_EVERYTHING,
  },
  {
    name: 'reader-follows',
    agents: plain,
    model: callsThenAnswers('save'),
    parts: [
      {
        act: async (stage) => {
          for (const session of ['main', 'other']) stage.follow(session);
          await stage.say('main', 'm1');
          await stage.settled(await stage.say('other', 'm2'));
        },
      },
    ],
    ending: {
      logs: {
        main: CALL_AND_ANSWER,
        other: ['user m2 please', 'call save', 'result result of save', 'agent answer to m2'],
      },
    },
    pairs: true,
  },
  {
    name: 'session-thread-dies',
    agents: plain,
    model: callsThenAnswers('save'),
    sessionThreads: true,
    parts: [{ act: bitOfEverything }],
    ending: BIT_OF_EVERYTHING,
  },
  {
    name: 'session-thread-dies-in-a-probe',
    agents: plain,
    model: callsThenAnswers('late'),
    sessionThreads: true,
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          await stage.toolRuns('late', await stage.say('main', 'm1'));
          await stage.mark();
        },
      },
    ],
    ending: { logs: { main: ['user m1 please', 'call late', 'result result of late', 'agent answer to m1'] } },
  },
  {
    name: 'one-of-two-threads-dies',
    agents: () => [agent({ name: 'plain', system: 'Answer.', tools: [TOOL_MODULE] })],
    model: callsThenAnswers('keyed'),
    sessionThreads: true,
    shards: 2,
    modelThreads: 1,
    parts: [
      {
        act: async (stage) => {
          for (const session of ['s0', 's1']) stage.follow(session);
          await Promise.all(['m1', 'm2'].map((uid, index) => stage.say(`s${index}`, uid)));
        },
      },
    ],
    ending: {
      logs: Object.fromEntries(
        ['m1', 'm2'].map((uid, index) => [
          `s${index}`,
          [`user ${uid} please`, 'call keyed', 'result result of keyed', `agent answer to ${uid}`],
        ]),
      ),
    },
  },
  {
    name: 'model-threads',
    agents: plain,
    model: callsThenAnswers('save'),
    modelThreads: 2,
    parts: [{ act: bitOfEverything }],
    ending: BIT_OF_EVERYTHING,
  },
];
