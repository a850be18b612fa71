/** The runtime that a seed determines: shape, limits and agents, drawn so that rare states are common in some runs. */
import { LIMIT_DEFAULTS, type Limits, type ShardBounds, STORED_CONTENT_BYTES_MIN } from '../../base/bounds.ts';
import type { SettingsInput } from '../../base/settings.ts';
import type { Durability } from '../../journal/journal.ts';
import type { Thinking } from '../../models/provider.ts';
import { type Agent, agent } from '../../runtime/protocol/agent.ts';
import type { EnricherOptions } from '../../runtime/protocol/options.ts';
import { serverTool } from '../../tools/server-tool.ts';
import type { AnyTool } from '../../tools/tool.ts';
import { type AgentModels, drawModels, renderingOf } from './models/agent-models.ts';
import { HUMAN_TOOLS, PARENT_TOOLS } from './questions/simulated-questions.ts';
import type { SeededRandom } from './seeded-random.ts';
import type { RenderingAt } from './session-story.ts';
import { TOOL_MODULE } from './simulated-tools.ts';

/** The runtime of one run. */
export interface Swarm {
  readonly shards: number;
  /** True if sessions run on session threads, false if all run on the host thread. */
  readonly hasSessionThreads: boolean;
  /** Model threads of each shard; 0: model calls run on the shard's thread. */
  readonly models: number;
  /** Tool threads of each shard. If there is only one thread, it receives the calls of an answer together. */
  readonly toolThreads: number;
  readonly durability: Durability;
  readonly limits: Partial<Limits>;
  readonly settings: SettingsInput;
  readonly bounds: ShardBounds;
  /** The number of lives with faults. A life is one process, from the opening of the runtime to its crash or close. */
  readonly lives: number;
  /** True if the faults stop before the end of the last of these lives, so that this life finishes all work. */
  readonly endsInPlace: boolean;
  /** Conversations at once, and the number of sessions they use. */
  readonly conversations: number;
  readonly sessions: number;
  /** Maximum number of actions of one conversation in one life. */
  readonly actions: number;
  /** Share of the actions on special sessions: their calls wait for approval, or they are compressed all the time. */
  readonly specialShare: number;
  /** Share of the actions on whole conversations: forks, tasks, compressions, goals. */
  readonly historyShare: number;
  /** Maximum milliseconds between two actions of a conversation. */
  readonly thinkMs: number;
  /** Milliseconds of a life. */
  readonly lifeMs: number;
  /** The enrichers of the runtime's main sessions. */
  readonly enrichers: EnricherOptions | undefined;
  /** The model of the runtime's agents, and how it thinks. */
  readonly thinker: Thinker;
  /** True if the agents have another system prompt in every life, so that each session continues in a new epoch. */
  readonly changesAgents: boolean;
  /** Share of the messages and spawns that ask for a structured answer. */
  readonly formShare: number;
  /** True if the agents have a tool that the provider runs. */
  readonly hasServerTool: boolean;
  /** The models of the agents, if they have several. */
  readonly fallback?: AgentModels;
}

/** Children of one session that work at once: few, so that others wait. */
export const CHILDREN_AT_WORK_MAX = 3;

/** The model if no other model is drawn. It thinks only on request, and binds no thought to a prefix. */
const PLAIN_MODEL = 'claude-opus-4-6';

/** A model and how it thinks. */
export interface Thinker {
  readonly model?: string;
  readonly thinking?: Thinking;
}

/**
 * Models that treat thoughts in different ways. Some think only on request, some by default, some not at all. With the
 * setting `enabled` a turn must begin with a thought. Some models bind a thought to everything before it.
 */
const THINKERS: readonly Thinker[] = [
  {},
  { thinking: { type: 'adaptive' } },
  { model: 'claude-sonnet-4-5', thinking: { type: 'enabled', budget_tokens: 1_024 } },
  { model: 'claude-opus-5-5' },
  { model: 'claude-sonnet-5-5', thinking: { type: 'adaptive' } },
  { model: 'claude-haiku-5-5', thinking: { type: 'adaptive' } },
  { model: 'claude-fable-5-1' },
  { model: 'claude-mythos-5-1', thinking: { type: 'adaptive' } },
  { model: 'claude-opus-5', thinking: { type: 'disabled' } },
  // A model of which nothing is known: structured answers are asked for with a tool.
  { model: 'some-model' },
];

/** Tools whose calls the agent `careful` runs only when a person allows them. */
export const ASKED_TOOLS: ReadonlySet<string> = new Set(['keyed', 'once']);

/** The model of every enricher. */
const MUSE = { model: 'muse' };

/** Many small runs fit into the time of a large one, and most mistakes show in small runs. */
const SMALL = { lives: 2, conversations: 2, sessions: 2, actions: 8 };
const MEDIUM = { lives: 3, conversations: 2, sessions: 4, actions: 15 };
const LARGE = { lives: 4, conversations: 3, sessions: 5, actions: 40 };
const SIZES = [SMALL, SMALL, SMALL, SMALL, SMALL, MEDIUM, MEDIUM, MEDIUM, LARGE];

/** Draws a runtime. */
export function drawSwarm(random: SeededRandom): Swarm {
  const hasSessionThreads = random.chance(0.5);
  const size = random.pick(SIZES);
  // In the longest lives retries can finish, but few things happen at the same time.
  const lifeMs = random.pick([20_000, 60_000, 180_000, 1_200_000]);
  const swarm: Omit<Swarm, 'toolThreads' | 'formShare' | 'hasServerTool'> = {
    shards: random.pick([1, 1, 2]),
    hasSessionThreads,
    models: random.pick([0, 0, 1, 2]),
    durability: random.pick(['flush', 'flush', 'strict', 'os']),
    limits: {
      depth: random.pick([1, 2]),
      mailbox: random.pick([6, 200, 200]),
      liveSessions: random.pick([2, 100, 100]),
      children: random.pick([3, 100]),
      spawnsWaiting: 4,
      toolRounds: random.pick([3, 20]),
    },
    settings: { timeouts: { api: 120, tool: 60 }, subagents: { maxActive: CHILDREN_AT_WORK_MAX } },
    bounds: {
      hotSessions: random.pick([1, 3, 256]),
      snapshotTurns: random.pick([3, 20, 500]),
      checkpointTurns: random.pick([5, 50, 10_000]),
      storedContentBytes: STORED_CONTENT_BYTES_MIN,
    },
    lives: random.between(1, size.lives),
    conversations: random.between(1, size.conversations),
    sessions: random.between(1, size.sessions),
    actions: size.actions,
    // Special sessions are rare in most runs, because each adds work for the rest of its run. In some runs they
    // dominate.
    specialShare: random.pick([0.04, 0.04, 0.04, 0.7]),
    historyShare: random.pick([0.02, 0.02, 0.02, 0.3]),
    thinkMs: lifeMs > 180_000 ? 60_000 : random.pick([500, 5_000, 60_000]),
    lifeMs,
    endsInPlace: random.chance(0.5),
    // A new draw is added after the existing ones, so that the existing draws of each seed keep their values.
    enrichers: random.pick([undefined, undefined, undefined, { melete: MUSE }, { melete: MUSE, mneme: MUSE }]),
    thinker: random.pick(THINKERS),
    changesAgents: random.chance(0.3),
  };
  const { limits, bounds, settings } = swarm;
  // A few hundred bytes hold only a few messages. So the bounds are reached, and the runtime reads waiting contents
  // back from the log.
  const mailboxBytes = random.pick([300, LIMIT_DEFAULTS.mailboxBytes, LIMIT_DEFAULTS.mailboxBytes]);
  const waitingBytes = random.pick([600, LIMIT_DEFAULTS.waitingBytes, LIMIT_DEFAULTS.waitingBytes]);
  const liveBytes = random.pick([500, LIMIT_DEFAULTS.liveBytes, LIMIT_DEFAULTS.liveBytes]);
  const storedContentBytes = random.pick([0, 20, STORED_CONTENT_BYTES_MIN]);
  // Calls expire so soon that a person may be late. By default they never expire.
  const approvals = {
    expiresMs: random.pick([null, 3_000, 60_000]),
    onInput: random.pick(['wait', 'deny'] as const),
  };
  const toolThreads = random.pick([1, 1, 2]);
  return {
    ...swarm,
    toolThreads,
    formShare: random.pick([0, 0.1, 0.5]),
    settings: { ...settings, approvals, llm: { warmCache: random.chance(0.3), threads: random.chance(0.4) } },
    limits: { ...limits, mailboxBytes, waitingBytes, liveBytes, answerCorrections: random.pick([0, 1, 2]) },
    // Every prompt counts as long enough to be cached.
    bounds: { ...bounds, storedContentBytes, cachedPromptTokens: 0 },
    hasServerTool: random.chance(0.5),
  };
}

/** The parts of a swarm that decide its agents. */
type SwarmAgents = Pick<Swarm, 'enrichers' | 'thinker' | 'changesAgents' | 'hasServerTool' | 'fallback'>;

/**
 * The agents of a runtime. `values`: tools that run on the host. With Mneme, no session is compressed automatically.
 */
export function swarmAgents(
  values: readonly AnyTool[],
  { enrichers, thinker, changesAgents, hasServerTool, fallback }: SwarmAgents,
  life: number,
): readonly Agent[] {
  const model = { model: PLAIN_MODEL, ...thinker, ...fallback };
  const remembers = enrichers?.mneme !== undefined;
  const tools = hasServerTool ? [TOOL_MODULE, serverTool({ type: 'web_search_20250305' })] : [TOOL_MODULE];
  const prompt = (text: string): string => (changesAgents ? `${text} This is life ${life}.` : text);
  return [
    agent({
      ...model,
      name: 'wide',
      system: prompt('Answer.'),
      tools: [...values, ...tools],
      subagents: { spawn: true },
      supervision: { onChildFailure: 'report' },
    }),
    // The window is so small that messages leave it, and epochs open, all the time.
    agent({
      ...model,
      name: 'narrow',
      system: prompt('Answer shortly.'),
      tokenBudget: 600,
      tools,
    }),
    agent({
      ...model,
      name: 'guard',
      system: prompt('Delegate.'),
      tools: [...tools, ...PARENT_TOOLS],
      subagents: { spawn: true },
      supervision: { strategy: 'oneForOne', intensity: 2, periodMs: 60_000, onChildFailure: 'restart' },
    }),
    // Many calls need approval, and `maxSteps` often ends a run in the middle.
    agent({
      ...model,
      name: 'careful',
      system: prompt('Ask first.'),
      tools: [...tools, ...HUMAN_TOOLS, ...PARENT_TOOLS],
      maxSteps: 2,
      approve: [...ASKED_TOOLS],
    }),
    agent({
      ...model,
      name: 'brief',
      system: prompt('Sum up.'),
      tools,
      compression: { enabled: !remembers, messages: 9, keepRecent: 3, idleMinTokens: 0, idleMinMessages: 3 },
    }),
  ];
}

/** Draws several models for the agents, from a stream that no other draw uses. */
export function withModels(swarm: Swarm, random: SeededRandom): Swarm {
  const { thinker, hasServerTool } = swarm;
  const isPlain = thinker.thinking === undefined && !hasServerTool;
  const fallback = drawModels(random, thinker.model ?? PLAIN_MODEL, isPlain);
  return fallback === undefined ? swarm : { ...swarm, fallback };
}

/** Returns how requests are rendered for the model at each index of the agents' list. */
export function swarmRendering({ thinker, fallback }: Pick<Swarm, 'thinker' | 'fallback'>): RenderingAt {
  const first = thinker.model ?? PLAIN_MODEL;
  if (fallback === undefined) {
    const options = renderingOf(first, thinker.thinking, 0);
    return () => ({ options });
  }
  const renderings = fallback.model.map((name, place) => ({
    name,
    options: renderingOf(name, thinker.thinking, place),
  }));
  return (place) => renderings[place] ?? { options: renderingOf(first, thinker.thinking, 0) };
}

/** The agent of a session. The agent follows from the session's id, because it must be the same in every life. */
export function agentOfSession(session: string): string {
  // A fork has the agent of its parent.
  const root = session.slice(session.indexOf('~') + 1).split(/[:-]/)[0] ?? session;
  if (root.startsWith('p')) return 'careful';
  if (root.startsWith('c')) return 'brief';
  const last = root.charCodeAt(root.length - 1);
  return ['wide', 'narrow', 'guard'][last % 3] ?? 'wide';
}
