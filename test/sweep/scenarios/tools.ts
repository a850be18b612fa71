/** Tool calls of every effect, with a fault at every moment of them. */
import { agent } from '../../../src/runtime/protocol/agent.ts';
import { TOOL_MODULE } from '../../../src/testing/simulation/simulated-tools.ts';
import type { Line, Scenario } from '../scenario.ts';
import { answer, callsThenAnswers, plain } from './turns.ts';

/** The possible results of a `once` call: the tool's result, or "outcome unknown". */
const ONCE = /^(?:result result of fire|failed Outcome unknown)/;

/** One call of one tool, with operations before and after the moment at which it takes effect. */
function oneCall(name: string, tool: string, result: Line): Scenario {
  return {
    name,
    agents: plain,
    model: callsThenAnswers(tool),
    parts: [
      {
        act: async (stage) => {
          stage.follow('main');
          const receipt = await stage.say('main', 'm1');
          await stage.toolRuns(tool, receipt);
          await stage.sleep(100);
          await stage.mark();
          await stage.sleep(300);
          await stage.mark();
        },
      },
    ],
    ending: {
      logs: { main: ['user m1 please', `call ${tool}`, result, 'agent answer to m1'] },
      answers: { m1: 'text answer to m1' },
    },
  };
}

export const TOOLS: readonly Scenario[] = [
  { ...oneCall('tool-pure', 'look', 'result result of look'), pairs: true },
  oneCall('tool-keyed', 'save', 'result result of save'),
  { ...oneCall('tool-once', 'fire', ONCE), pairs: true },
  oneCall('tool-probe-happened', 'early', 'result result of early'),
  { ...oneCall('tool-probe-did-not-happen', 'late', 'result result of late'), pairs: true },
  {
    name: 'parallel-tools',
    agents: plain,
    model: callsThenAnswers('look', 'save', 'fire', 'early', 'late'),
    parts: [
      {
        act: async (stage) => {
          const receipt = await stage.say('main', 'm1');
          await stage.toolRuns('late', receipt);
          await stage.sleep(400);
          await stage.mark();
        },
      },
    ],
    ending: {
      logs: {
        main: {
          anyOrder: [
            ...['user m1 please', 'call look', 'call save', 'call fire', 'call early', 'call late'],
            ...['result result of look', 'result result of save', 'result result of early', 'result result of late'],
            ONCE,
            'agent answer to m1',
          ],
        },
      },
    },
  },
  {
    name: 'tool-failures',
    agents: plain,
    model: callsThenAnswers('refuse', 'break', 'nothing'),
    parts: [{ act: async (stage) => void (await stage.say('main', 'm1')) }],
    ending: {
      logs: {
        main: {
          anyOrder: [
            ...['user m1 please', 'call refuse', 'call break', 'call nothing'],
            ...[
              'failed {"error":"it did not work"}',
              'failed {"error":"RangeError: it broke"}',
              /^failed Unknown tool: nothing/,
            ],
            'agent answer to m1',
          ],
        },
      },
    },
  },
  {
    name: 'two-rounds',
    agents: plain,
    model: (ask) => {
      if (!ask.said.includes('look_1')) return { text: 'first', toolUse: { name: 'look', id: 'look_1' } };
      if (!ask.said.includes('save_2')) return { text: 'second', toolUse: { name: 'save', id: 'save_2' } };
      return answer(ask);
    },
    parts: [{ act: async (stage) => void (await stage.say('main', 'm1')) }],
    ending: {
      logs: {
        main: [
          ...['user m1 please', 'agent first', 'call look', 'result result of look'],
          ...['agent second', 'call save', 'result result of save', 'agent answer to m1'],
        ],
      },
      answers: { m1: 'text answer to m1' },
    },
    pairs: true,
  },
  {
    name: 'thread-tools',
    agents: () => [agent({ name: 'plain', system: 'Answer.', tools: [TOOL_MODULE] })],
    model: callsThenAnswers('pure', 'keyed', 'once', 'probe'),
    parts: [
      {
        act: async (stage) => {
          await stage.works(await stage.say('main', 'm1'));
          await stage.sleep(1_000);
          await stage.mark();
        },
      },
    ],
    ending: {
      logs: {
        main: {
          anyOrder: [
            ...['user m1 please', 'call pure', 'call keyed', 'call once', 'call probe'],
            ...['result result of pure', 'result result of keyed', 'result result of probe'],
            /^(?:result result of once|failed Outcome unknown)/,
            'agent answer to m1',
          ],
        },
      },
    },
  },
];
