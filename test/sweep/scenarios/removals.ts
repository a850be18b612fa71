/** Deletion with erasure, the removal of old history, and the hand-over of a store to another process. */
import { InvalidNameError } from '../../../src/base/errors.ts';
import { agent } from '../../../src/runtime/protocol/agent.ts';
import type { AnyTool } from '../../../src/tools/tool.ts';
import type { Line, Scenario } from '../scenario.ts';
import type { Stage } from '../stage.ts';
import { answer, callsThenAnswers, plain } from './turns.ts';

const KEPT_MS = 600_000;
/** Fills a window of `WINDOW_TOKENS` with few messages. */
const FILLER = 'word '.repeat(40).trim();
const WINDOW_TOKENS = 300;
const ROUNDS = 6;

/** An agent whose window soon is full. */
function narrow(tools: readonly AnyTool[]): ReturnType<Scenario['agents']> {
  return [agent({ name: 'narrow', system: 'Answer.', tools, tokenBudget: WINDOW_TOKENS })];
}

/** Sends numbered messages one after another. */
async function talk(stage: Stage, session: string, from: number, to: number): Promise<void> {
  for (let number = from; number <= to; number += 1) {
    await stage.settled(await stage.say(session, `m${number}`, { text: FILLER }));
  }
}

/** Forks a session, unless an earlier life did. */
async function fork(stage: Stage, session: string, id: string): Promise<void> {
  const sessions = await stage.insist(() => stage.runtime.sessions.list());
  if (sessions.some((each) => each.id === id) || stage.outside.has('deleting')) return;
  await stage.insist(async () => {
    try {
      await stage.session(session).fork({ id });
    } catch (error) {
      // The fork that the store refused was made after all.
      if (!(error instanceof InvalidNameError)) throw error;
    }
  });
}

const HANDED_OVER = ['user m1 please', 'call save', 'result result of save', 'agent answer to m1'];

/** Messages are accepted while the store is taken over, and answered by its next owner. */
function handOver(name: string, closeMs: number): Scenario {
  return {
    name,
    agents: plain,
    model: callsThenAnswers('save'),
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          await stage.toolRuns('save', await stage.say('main', 'm1'));
          await stage.say('main', 'm2', { deliver: 'turn' });
          await stage.say('other', 'm3');
        },
        drains: false,
        isTakenOver: true,
        closeMs,
      },
      {
        act: async (stage) => {
          stage.follow('main');
          await stage.say('main', 'm2', { deliver: 'turn' });
          await stage.say('other', 'm3');
        },
      },
    ],
    ending: {
      logs: {
        main: [...HANDED_OVER, 'user m2 please', 'agent answer to m2'],
        other: ['user m3 please', 'call save', 'result result of save', 'agent answer to m3'],
      },
      answers: { m1: 'text answer to m1', m2: 'text answer to m2', m3: 'text answer to m3' },
    },
    pairs: true,
  };
}

export const REMOVALS: readonly Scenario[] = [
  {
    name: 'delete-and-erase',
    agents: plain,
    model: answer,
    bounds: { hotSessions: 1, snapshotTurns: 2, checkpointTurns: 4 },
    parts: [
      {
        act: async (stage) => {
          if (!stage.outside.has('deleting')) {
            for (const uid of ['m1', 'm2', 'm3']) {
              await stage.settled(await stage.say('gone', uid));
              await stage.settled(await stage.say('kept', `m${Number(uid.slice(1)) + 3}`));
            }
            await stage.spawn('gone', 't1', { replies: 'handle' });
          }
          stage.outside.add('deleting');
          // A second caller, who finds no session any more, is answered when that is durable.
          await Promise.all([stage.remove('gone'), stage.remove('gone')]);
          await stage.say('kept', 'm7');
        },
      },
    ],
    ending: {
      logs: { kept: ['m4', 'm5', 'm6', 'm7'].flatMap((uid) => [`user ${uid} please`, `agent answer to ${uid}`]) },
    },
    erases: true,
    pairs: true,
  },
  {
    name: 'delete-a-parent-and-its-fork',
    agents: plain,
    model: answer,
    parts: [
      {
        act: async (stage) => {
          if (!stage.outside.has('deleting')) await stage.settled(await stage.say('gone', 'm1'));
          await fork(stage, 'gone', 'fork');
          stage.outside.add('deleting');
          await stage.remove('gone');
          await stage.settled(await stage.say('kept', 'm2'));
          await stage.remove('fork');
        },
      },
    ],
    ending: { logs: { kept: ['user m2 please', 'agent answer to m2'] } },
    erases: true,
  },
  {
    name: 'old-history-is-removed',
    agents: narrow,
    model: answer,
    retention: { archivedHistoryMs: KEPT_MS },
    parts: [
      {
        act: (stage) => {
          stage.follow('main');
          return talk(stage, 'main', 1, ROUNDS);
        },
      },
      {
        act: async (stage) => {
          stage.follow('main');
          await stage.until('old history is removed', async () => {
            return (await stage.session('main').state()).removed !== undefined;
          });
          await talk(stage, 'main', ROUNDS + 1, ROUNDS + 1);
        },
        afterMs: KEPT_MS + 1_000,
      },
    ],
    ending: {
      logs: {
        main: Array.from({ length: ROUNDS + 1 }, (_, index) => index + 1).flatMap((number) =>
          [`user m${number} please ${FILLER}`, `agent answer to m${number}`].map((line): Line => {
            return number > 2 ? line : { maybe: line };
          }),
        ),
      },
    },
    erases: true,
  },
  handOver('hand-over', 5_000),
  handOver('hand-over-without-time', 0),
];
