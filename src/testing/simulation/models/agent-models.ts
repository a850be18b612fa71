/**
 * Draws the models of runs whose agents have several models. The draws use a separate stream of random numbers, so that
 * they do not change the other draws of a seed.
 */
import { parseSettings } from '../../../base/settings.ts';
import { modelTraits } from '../../../context/model-traits.ts';
import type { RenderOptions } from '../../../context/render.ts';
import { withoutRefused } from '../../../models/fitted-options.ts';
import type { Thinking } from '../../../models/provider.ts';
import { SeededRandom } from '../seeded-random.ts';

/** The name of the provider whose models speak the Messages API. A model's full name begins with it. */
export const NORTH = 'north';
/** The name of another vendor's provider. */
export const SOUTH = 'south';
/** The one model of the other vendor. */
export const SOUTH_MODEL = 'pole-1';

/** The models of all agents of a run, and when a session moves from one to another. */
export interface AgentModels {
  /** The models, with the names of their providers, in the order in which a half-step asks them. */
  readonly model: readonly string[];
  readonly fallbackAfterMs: number;
  readonly returnAfterMs: number;
}

/** Models that treat thoughts in different ways. */
const NORTH_MODELS = ['claude-opus-4-6', 'claude-sonnet-4-5', 'claude-opus-5-5', 'claude-haiku-5-5', 'some-model'];
/** Maximum tokens of an answer, the same for every agent: the default of the settings. */
const MAX_TOKENS = parseSettings({}).llm.maxTokens;
/** Share of the runs whose agents have several models. */
const SHARE = 0.3;
/** Separates the stream of these draws from that of the whole run. */
const STREAM = 0x5eed_fa11;

/** The random numbers for everything that exists only in runs with several models. */
export function modelsRandom(seed: number): SeededRandom {
  return new SeededRandom((seed ^ STREAM) >>> 0);
}

/**
 * Draws the models of a run, and `first` is one of them. Undefined: the agents have one model. `mayBeginSouth`: true if
 * the other vendor's model may be the first, because it refuses no option of the agents.
 */
export function drawModels(random: SeededRandom, first: string, mayBeginSouth: boolean): AgentModels | undefined {
  if (!random.chance(SHARE)) return undefined;
  const one = `${NORTH}/${first}`;
  const other = `${NORTH}/${random.pick(NORTH_MODELS.filter((each) => each !== first))}`;
  const south = `${SOUTH}/${SOUTH_MODEL}`;
  const orders = [
    [one, south],
    [one, south],
    [one, other, south],
    [one, south, other],
    [south, one],
  ];
  const drawn = random.pick(orders);
  return {
    model: drawn[0] === south && !mayBeginSouth ? [one, south] : drawn,
    fallbackAfterMs: random.pick([1, 10_000, 60_000]),
    returnAfterMs: random.pick([1_000, 30_000, 300_000]),
  };
}

/** How the requests of an agent's model are rendered. */
export interface ModelRendering {
  /** The model's name with its provider; missing: the agent has one model. */
  readonly name?: string;
  readonly options: RenderOptions;
}

/**
 * How requests are rendered for the model `name` at the index `place` of its agent's list. All agents have tools, and
 * none shows timestamps.
 */
export function renderingOf(name: string, thinking: Thinking | undefined, place: number): RenderOptions {
  const traits = modelTraits(name.slice(name.indexOf('/') + 1));
  const options = { maxTokens: MAX_TOKENS, ...(thinking === undefined ? {} : { thinking }) };
  const fitting = place === 0 ? options : withoutRefused(options, traits);
  const isManual = fitting.thinking?.type === 'enabled';
  return {
    timestamps: false,
    deliveriesAsText: isManual,
    callsNeedThought: isManual,
    bindsThinking: traits.bindsThinking,
  };
}
