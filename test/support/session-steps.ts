/**
 * Random lives of one session, for property tests: the inputs that reach it, in any order. `session-life.ts` runs them.
 */
import fc from 'fast-check';
import type { ContentBlock, Deliver } from '../../src/base/messages.ts';
import type { CompressionFacts } from '../../src/session/state/inputs.ts';
import type { Entry } from '../../src/session/state/records.ts';

/** The origin of an entry of a life. */
export type EntryKind = 'user' | 'recall' | 'skill' | 'goal' | 'poison' | 'reply';

/** One step of a life. Numbers choose among the existing items, modulo their count. */
export type Step =
  | {
      readonly do: 'send';
      readonly kind: EntryKind;
      readonly deliver: Deliver;
      readonly bounceBack: boolean;
      readonly isBlocks: boolean;
      readonly pad: number;
    }
  /** `serves`: the provider runs the calls that it was asked to run. */
  | {
      readonly do: 'answer';
      readonly blocks: readonly ContentBlock[];
      readonly stop: string;
      readonly serves: boolean;
    }
  | { readonly do: 'fail'; readonly how: 'transient' | 'fatal' | 'unauthorized' }
  | {
      readonly do:
        | 'retry'
        | 'interrupt'
        | 'pause'
        | 'resume'
        | 'wake'
        | 'heal'
        | 'reload'
        | 'mark'
        | 'childEnds'
        | 'newHeader'
        | 'stale'
        | 'restart'
        | 'escalated';
    }
  | { readonly do: 'finish'; readonly which: number; readonly content: string; readonly success: boolean }
  | { readonly do: 'recall'; readonly which: number }
  | { readonly do: 'spawn'; readonly name: string; readonly byModel: boolean }
  | { readonly do: 'childSays'; readonly which: number }
  | { readonly do: 'system'; readonly isText: boolean }
  | { readonly do: 'task'; readonly move: 'startTask' | 'undo' | 'switchTask'; readonly which: number }
  | { readonly do: 'summary'; readonly how: 'text' | 'nothing' | 'failure' }
  | { readonly do: 'crash'; readonly loses: boolean };

/** The circumstances of a life. */
export interface LifeOptions {
  readonly isChild: boolean;
  readonly tokenBudget: number;
  readonly toolRounds: number;
  readonly hasSystemFunction: boolean;
  readonly resumeAwaiting: boolean;
  /** The model thinks: every answer starts with a thinking block. */
  readonly thinks: boolean;
  /** The supervisor's verdict on a failed turn of a child; `none` without a supervisor. */
  readonly supervision: 'none' | 'report' | 'restart' | 'later';
  /** The conversation is compressed, and every refusal of the model is one of a prompt that is too long. */
  readonly compression?: Partial<CompressionFacts>;
  /** Messages that leave the window are summed up. */
  readonly remembers?: boolean;
}

/** An entry of each kind without its content. */
export const ENTRIES: Readonly<Record<EntryKind, Omit<Entry, 'content'>>> = {
  user: { type: 'user_message' },
  recall: { type: 'from_mneme', source: { type: 'recall', name: '12' } },
  skill: { type: 'from_melete_skill', source: { type: 'skill', name: 'git' } },
  goal: { type: 'from_melete_goal', source: { type: 'goal', name: '3' } },
  poison: { type: 'from_mneme', source: { type: 'recall', name: 'no number' } },
  reply: { type: 'subagent', source: { type: 'subagent', name: 'sleuth' } },
};

/** The start of every answer under thinking, as in the API's answers. */
export const THINKING: ContentBlock = { type: 'thinking', thinking: 'hm', signature: 'signed' };
const DELIVERS = ['ride', 'steer', 'turn', 'interrupt', 'merge', 'latest', 'reject'] as const;
const STOPS = ['end_turn', 'tool_use', 'max_tokens', 'refusal', 'stop_sequence'] as const;

const textBlock: fc.Arbitrary<readonly ContentBlock[]> = fc
  .constantFrom('ok', 'fine \n', 'to @agent-1', ' ', '')
  .map((text) => [{ type: 'text', text }]);
const callBlock: fc.Arbitrary<readonly ContentBlock[]> = fc
  .record({
    id: fc.constantFrom('a', 'b', 'toolu_1', 'from_sleuth_3', 'not legal', '', undefined),
    name: fc.constantFrom(
      'bash',
      'bash',
      'read_file',
      'charge',
      'deploy',
      'slow',
      'nope',
      'from_sleuth',
      'from_',
      'a b',
      '',
    ),
    input: fc.constantFrom({}, { timeout: 7 }, { a: [1] }, 'text', undefined),
  })
  .map((call) => [{ type: 'tool_use', ...call } as ContentBlock]);
const runtimeCall: fc.Arbitrary<readonly ContentBlock[]> = fc
  .constantFrom('spawn_subagent', 'mark_goal_completed')
  .map((name) => [{ type: 'tool_use', id: 'r', name, input: {} }]);
const serverPair: fc.Arbitrary<readonly ContentBlock[]> = fc.constant([
  { type: 'server_tool_use', id: 'srv', name: 'web_search', input: {} },
  { type: 'web_search_tool_result', tool_use_id: 'srv', content: [] },
]);
/** A call of the provider that waits. A life gives it another id. */
export const OPEN_USE: ContentBlock = { type: 'server_tool_use', id: 'open', name: 'web_search', input: {} };
const openUse: fc.Arbitrary<readonly ContentBlock[]> = fc.constant([OPEN_USE]);
/** Answers that no model should give, and that the boundary must survive. */
const oddBlock: fc.Arbitrary<readonly ContentBlock[]> = fc
  .constantFrom<unknown>(null, 7, {}, { type: 'tool_result', tool_use_id: 'x' }, { type: 'thinking', thinking: 'cut' })
  .map((odd) => [odd as ContentBlock]);

function answers(): fc.Arbitrary<Step> {
  const serves = fc.constantFrom(true, true, true, false);
  const any = fc.record({
    do: fc.constant('answer' as const),
    blocks: fc
      .array(
        fc.oneof(
          { arbitrary: textBlock, weight: 3 },
          { arbitrary: callBlock, weight: 5 },
          runtimeCall,
          serverPair,
          openUse,
          oddBlock,
        ),
        { maxLength: 4 },
      )
      .map((groups) => groups.flat()),
    stop: fc.constantFrom(...STOPS),
    serves,
  });
  // A paused turn is sent back unchanged, so it holds nothing that could not be stored.
  const paused = fc.record({
    do: fc.constant('answer' as const),
    blocks: fc
      .array(fc.oneof(fc.constant<readonly ContentBlock[]>([{ type: 'text', text: 'so far ' }]), serverPair, openUse), {
        maxLength: 2,
      })
      .map((groups) => groups.flat()),
    stop: fc.constant('pause_turn'),
    serves,
  });
  // One answer calls tools of the session and of the provider.
  const mixed = fc.record({
    do: fc.constant('answer' as const),
    blocks: fc
      .tuple(callBlock, openUse, fc.oneof(fc.constant([]), fc.constant([THINKING])), callBlock)
      .map((groups) => groups.flat()),
    stop: fc.constant('tool_use'),
    serves,
  });
  return fc.oneof({ arbitrary: any, weight: 5 }, { arbitrary: paused, weight: 1 }, { arbitrary: mixed, weight: 1 });
}

const send: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('send' as const),
  kind: fc.oneof(
    { arbitrary: fc.constant('user' as const), weight: 6 },
    { arbitrary: fc.constantFrom<EntryKind>('recall', 'skill', 'goal', 'poison', 'reply'), weight: 3 },
  ),
  deliver: fc.oneof(fc.constant('ride' as const), fc.constantFrom(...DELIVERS)),
  bounceBack: fc.boolean(),
  isBlocks: fc.boolean(),
  pad: fc.constantFrom(0, 0, 40, 400),
});

/** The steps of a life. */
export function steps(): fc.Arbitrary<readonly Step[]> {
  const weighed = (
    weight: number,
    arbitrary: fc.Arbitrary<Step>,
  ): { weight: number; arbitrary: fc.Arbitrary<Step> } => ({
    weight,
    arbitrary,
  });
  const step = fc.oneof(
    weighed(10, send),
    weighed(18, answers()),
    weighed(
      18,
      fc.record({
        do: fc.constant('finish' as const),
        which: fc.nat(5),
        content: fc.constantFrom('result', '', ' ', '{"error":"no"}'),
        success: fc.boolean(),
      }),
    ),
    weighed(
      3,
      fc.record({
        do: fc.constant('fail' as const),
        how: fc.constantFrom('transient', 'transient', 'fatal', 'unauthorized'),
      }),
    ),
    weighed(2, fc.record({ do: fc.constant('recall' as const), which: fc.nat(9) })),
    weighed(
      2,
      fc.record({
        do: fc.constant('spawn' as const),
        name: fc.constantFrom('', 'sleuth', 'Bad Name'),
        byModel: fc.boolean(),
      }),
    ),
    weighed(2, fc.record({ do: fc.constant('childSays' as const), which: fc.nat(3) })),
    weighed(2, fc.record({ do: fc.constant('system' as const), isText: fc.boolean() })),
    weighed(
      3,
      fc.record({
        do: fc.constant('task' as const),
        move: fc.constantFrom('startTask', 'undo', 'switchTask'),
        which: fc.nat(5),
      }),
    ),
    weighed(
      6,
      fc.record({
        do: fc.constant('summary' as const),
        how: fc.constantFrom('text', 'text', 'nothing', 'failure'),
      }),
    ),
    weighed(2, fc.record({ do: fc.constant('crash' as const), loses: fc.boolean() })),
    weighed(
      10,
      fc.record({
        do: fc.constantFrom(
          ...(['retry', 'retry', 'interrupt', 'pause', 'resume', 'resume', 'resume', 'wake', 'heal'] as const),
          ...(['reload', 'mark', 'mark', 'childEnds', 'newHeader', 'stale', 'restart', 'escalated'] as const),
        ),
      }),
    ),
  );
  return fc.array(step, { minLength: 1, maxLength: 60, size: 'max' });
}

/** The circumstances of a life. */
export const lifeOptions: fc.Arbitrary<LifeOptions> = fc.record({
  isChild: fc.boolean(),
  remembers: fc.boolean(),
  tokenBudget: fc.constantFrom(60, 200, 120_000),
  toolRounds: fc.constantFrom(2, 250),
  hasSystemFunction: fc.boolean(),
  resumeAwaiting: fc.boolean(),
  thinks: fc.boolean(),
  supervision: fc.constantFrom('none', 'report', 'restart', 'later'),
});

/** The step, as a model without a web search takes it. */
export function withoutSearch(step: Step): Step {
  return step.do === 'answer' ? { ...step, blocks: step.blocks.filter((block) => block !== OPEN_USE) } : step;
}
