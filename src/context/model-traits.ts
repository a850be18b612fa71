/**
 * The traits of the Claude models: the requests that each accepts, and how it behaves. Pure.
 *
 * They come from three sources, the first that has a trait decides it: the vendor's list of models, if it is known; the
 * dated table of this file; the traits that are safest for a Claude model without a row. The source of the table are
 * the vendor's pages on models, thinking, effort and deprecations, as of 2026-11-22. A trait that is `undefined` is not
 * known. A check refuses only what it knows to be refused. The builder of a request uses only what it knows to be
 * accepted.
 */
import { defined } from '../base/defined.ts';
import { nearestName } from '../base/near-names.ts';

/** A value of `thinking.type`. */
export type ThinkingType = 'adaptive' | 'between_tools' | 'disabled' | 'enabled';

/** Every value of `thinking.type`. */
export const THINKING_TYPES: readonly ThinkingType[] = ['adaptive', 'between_tools', 'disabled', 'enabled'];

/** A value of `output_config.effort`, from least to most. */
export type Effort = 'low' | 'medium' | 'high' | 'xhigh' | 'max';

/** Every effort, from least to most. */
export const EFFORTS: readonly Effort[] = ['low', 'medium', 'high', 'xhigh', 'max'];

/** The settings that a model accepts, and how it behaves. */
export interface ModelTraits {
  /** Values of `thinking.type` that the model accepts (R25, R45 to R47). */
  readonly thinkingTypes: ReadonlySet<ThinkingType> | undefined;
  /** True if the model thinks when a request has no `thinking` (R23, R28). */
  readonly thinksByDefault: boolean | undefined;
  /** Efforts that the model accepts, from least to most (R59); an empty list: no effort may be sent. */
  readonly efforts: readonly Effort[] | undefined;
  /** Efforts that the model accepts with `thinking.type: "disabled"` (R27). */
  readonly effortsWithoutThinking: readonly Effort[] | undefined;
  /** True if `tool_choice` may be `any` or `tool` (R48). */
  readonly forcedTool: boolean | undefined;
  /**
   * True if a forced tool is accepted beside a given `thinking` that is on; a `thinking` that is left out is judged
   * apart (R28).
   */
  readonly forcedToolWithThinking: boolean | undefined;
  /** True if the last message may be an assistant's (R12). */
  readonly prefill: boolean | undefined;
  /** True if `role: "system"` may appear in `messages` (R13, R53). */
  readonly systemMessages: boolean | undefined;
  /** True if a thinking block is bound to everything before it (R21). */
  readonly bindsThinking: boolean;
  /** True if `output_config.format` and `strict` tools are accepted. */
  readonly structuredOutputs: boolean | undefined;
  /** True if the model has the provider's web search (R60). */
  readonly webSearch: boolean | undefined;
  /** True if the model has the provider's code execution (R60). */
  readonly codeExecution: boolean | undefined;
  /** True if the model's code may call tools. The web tools since February 2026 allow that by default (R60). */
  readonly codeCallsTools: boolean | undefined;
  /**
   * True if `speed: "fast"` has an effect (R64); undefined if it is ignored, or if that is not known. `fastBeta`: the
   * beta that it needs, if any.
   */
  readonly fast: boolean | undefined;
  readonly fastBeta?: string;
  /** True if `inference_geo` is accepted (R63). */
  readonly inferenceGeo: boolean | undefined;
  /** True if input and `max_tokens` together must fit the window (R34). */
  readonly windowHoldsOutput: boolean;
  /** True if the model may be named in `fallbacks` or have fallbacks itself (R56). Only the API knows which ones. */
  readonly fallbacks: boolean | undefined;
  /** Models that may advise this one (R66). */
  readonly advisors?: readonly string[];
  /** Types of tools that the model refuses (R60). */
  readonly refusedToolTypes?: ReadonlySet<string>;
  /** True if the API keeps message threads for the model (R62). */
  readonly threads: boolean | undefined;
  /** Tokens of the context window. */
  readonly contextTokensMax: number | undefined;
  /** Tokens of one answer, `max_tokens` (R39). */
  readonly outputTokensMax: number | undefined;
  /** Images of one request, and pages of PDF (R61). */
  readonly imagesMax: number | undefined;
  /** Tokens that a prefix must have before it is cached; a shorter one is sent as usual. */
  readonly cacheableTokensMin: number | undefined;
  /** The day from which the vendor may retire the model, `YYYY-MM-DD`. */
  readonly retiresAfter?: string;
  /** True if the vendor has announced the end of the model. */
  readonly deprecated?: true;
}

const ALL = EFFORTS;
const UP_TO_HIGH: readonly Effort[] = ['low', 'medium', 'high'];
const WITHOUT_XHIGH: readonly Effort[] = ['low', 'medium', 'high', 'max'];
const NONE: readonly Effort[] = [];

const ALWAYS = types('adaptive');
const CHOICE = types('adaptive', 'disabled');
const BETWEEN = types('adaptive', 'between_tools');
const MANUAL_OR_ADAPTIVE = types('adaptive', 'enabled', 'disabled');
const MANUAL = types('enabled', 'disabled');

/** The traits of a model that is not Claude's: nothing is known. */
const UNKNOWN: ModelTraits = Object.freeze({
  thinkingTypes: undefined,
  thinksByDefault: undefined,
  efforts: undefined,
  effortsWithoutThinking: undefined,
  forcedTool: undefined,
  forcedToolWithThinking: undefined,
  prefill: undefined,
  systemMessages: undefined,
  bindsThinking: false,
  structuredOutputs: undefined,
  webSearch: undefined,
  codeExecution: undefined,
  codeCallsTools: undefined,
  fast: undefined,
  inferenceGeo: undefined,
  windowHoldsOutput: false,
  fallbacks: undefined,
  threads: undefined,
  contextTokensMax: undefined,
  outputTokensMax: undefined,
  imagesMax: undefined,
  cacheableTokensMin: undefined,
});

/**
 * The traits of a Claude model that the table does not have yet. Nothing is known of it, but all recent models bind
 * their thoughts.
 */
const NEWER: ModelTraits = Object.freeze({ ...UNKNOWN, bindsThinking: true });

/** The traits that the models of version 5 share, unless the table says otherwise. */
const FIVE: ModelTraits = {
  thinkingTypes: ALWAYS,
  thinksByDefault: true,
  efforts: ALL,
  effortsWithoutThinking: NONE,
  forcedTool: false,
  forcedToolWithThinking: false,
  prefill: false,
  systemMessages: true,
  bindsThinking: true,
  structuredOutputs: true,
  // No model of the table was seen to lack these tools.
  webSearch: undefined,
  codeExecution: undefined,
  codeCallsTools: undefined,
  fast: false,
  inferenceGeo: true,
  windowHoldsOutput: false,
  fallbacks: undefined,
  threads: true,
  contextTokensMax: 1_000_000,
  outputTokensMax: 128_000,
  imagesMax: 600,
  cacheableTokensMin: 512,
};

/** The traits that the models of version 4.6 to 4.8 share. */
const LATE_FOUR: ModelTraits = {
  ...FIVE,
  thinkingTypes: CHOICE,
  thinksByDefault: false,
  effortsWithoutThinking: ALL,
  forcedTool: true,
  systemMessages: false,
  bindsThinking: false,
  // The smallest prefix of Opus 4.7 was not seen.
  cacheableTokensMin: undefined,
};

/** The traits that the models of version 4.5 share; earlier models have fewer features, and all of them are retired. */
const EARLY_FOUR: ModelTraits = {
  ...LATE_FOUR,
  thinkingTypes: MANUAL,
  efforts: NONE,
  effortsWithoutThinking: NONE,
  prefill: true,
  inferenceGeo: false,
  contextTokensMax: 200_000,
  outputTokensMax: 64_000,
  imagesMax: 100,
  cacheableTokensMin: 1_024,
};

/**
 * For the early models of version 5 it was not seen whether an explicit `thinking` may be combined with a forced tool.
 */
const FABLE_5: ModelTraits = {
  ...FIVE,
  forcedTool: true,
  forcedToolWithThinking: undefined,
  bindsThinking: false,
  retiresAfter: '2027-06-09',
};

/** Advisors of the models whose pairs are known, by line and version. */
const ADVISORS_SONNET_5_5 = [
  ...['opus-500', 'opus-505', 'sonnet-505', 'fable-500', 'fable-501', 'mythos-500', 'mythos-501'],
];
const ADVISORS_FABLE_5_2 = ['fable-502', 'mythos-502'];

/** The table, by line and version (4.6 is 406). */
const TABLE: Readonly<Record<string, ModelTraits>> = {
  // The vendor's list of models with threads was last seen before these two.
  'fable-502': { ...FIVE, advisors: ADVISORS_FABLE_5_2, threads: undefined, retiresAfter: '2027-11-09' },
  'mythos-502': { ...FIVE, threads: undefined, retiresAfter: '2027-11-09' },
  'opus-505': {
    ...FIVE,
    fast: true,
    refusedToolTypes: new Set(['computer_20251124']),
    retiresAfter: '2027-09-22',
  },
  'sonnet-505': { ...FIVE, thinkingTypes: BETWEEN, advisors: ADVISORS_SONNET_5_5 },
  'haiku-505': {
    ...FIVE,
    thinkingTypes: CHOICE,
    effortsWithoutThinking: UP_TO_HIGH,
    forcedTool: true,
    forcedToolWithThinking: undefined,
    fallbacks: false,
    retiresAfter: '2027-10-07',
  },
  'fable-501': { ...FIVE, retiresAfter: '2027-09-01' },
  'mythos-501': { ...FIVE, retiresAfter: '2027-09-01' },
  'fable-500': FABLE_5,
  'mythos-500': FABLE_5,
  'mythos-preview': {
    ...FIVE,
    thinkingTypes: types('adaptive', 'enabled'),
    efforts: undefined,
    effortsWithoutThinking: undefined,
    forcedTool: undefined,
    forcedToolWithThinking: undefined,
    systemMessages: false,
    bindsThinking: false,
    structuredOutputs: undefined,
    threads: undefined,
    cacheableTokensMin: undefined,
    deprecated: true,
  },
  'opus-500': {
    ...FIVE,
    thinkingTypes: CHOICE,
    effortsWithoutThinking: UP_TO_HIGH,
    forcedTool: true,
    forcedToolWithThinking: undefined,
    bindsThinking: false,
    fast: true,
    fastBeta: 'fast-mode-2026-02-01',
    retiresAfter: '2027-07-24',
  },
  // The documentation says no to system messages, one public library says yes; `false` is the safe choice.
  'sonnet-500': {
    ...FIVE,
    thinkingTypes: CHOICE,
    effortsWithoutThinking: ALL,
    forcedTool: true,
    forcedToolWithThinking: undefined,
    systemMessages: false,
    bindsThinking: false,
    cacheableTokensMin: 1_024,
    retiresAfter: '2027-06-30',
  },
  'opus-408': {
    ...LATE_FOUR,
    systemMessages: true,
    fast: true,
    fastBeta: 'fast-mode-2026-02-01',
    cacheableTokensMin: 1_024,
    retiresAfter: '2027-05-28',
  },
  'opus-407': { ...LATE_FOUR, retiresAfter: '2027-04-16' },
  'opus-406': {
    ...LATE_FOUR,
    thinkingTypes: MANUAL_OR_ADAPTIVE,
    efforts: WITHOUT_XHIGH,
    effortsWithoutThinking: WITHOUT_XHIGH,
    fast: undefined,
    cacheableTokensMin: 4_096,
    retiresAfter: '2027-02-05',
  },
  'sonnet-406': {
    ...LATE_FOUR,
    thinkingTypes: MANUAL_OR_ADAPTIVE,
    efforts: WITHOUT_XHIGH,
    effortsWithoutThinking: WITHOUT_XHIGH,
    fast: undefined,
    cacheableTokensMin: 1_024,
    retiresAfter: '2027-02-17',
  },
  'opus-405': {
    ...EARLY_FOUR,
    efforts: UP_TO_HIGH,
    effortsWithoutThinking: UP_TO_HIGH,
    cacheableTokensMin: 4_096,
    retiresAfter: '2026-11-24',
  },
  'sonnet-405': { ...EARLY_FOUR, retiresAfter: '2026-11-30', deprecated: true },
  'haiku-405': { ...EARLY_FOUR, codeCallsTools: false, cacheableTokensMin: 4_096, retiresAfter: '2026-10-15' },
};

/** The oldest version in the table; older models are retired. */
const OLDEST_LISTED = 405;

const CURRENT_NAME = /claude-([a-z]+)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)/;
const EARLY_NAME = /claude-(\d)(?:-(\d))?-([a-z]+)/;

/** A model as the vendor's list describes it. Plain data; a missing member is not known. */
export interface ListedModel {
  readonly id: string;
  readonly thinkingTypes?: readonly ThinkingType[];
  /** From least to most; empty: no effort may be sent. */
  readonly efforts?: readonly Effort[];
  readonly structuredOutputs?: boolean;
  readonly webSearch?: boolean;
  readonly codeExecution?: boolean;
  readonly contextTokensMax?: number;
  readonly outputTokensMax?: number;
  readonly lifecycle?: 'active' | 'deprecated' | 'retired';
  /** The day on which the vendor retires the model, `YYYY-MM-DD`. */
  readonly retiresAfter?: string;
}

/**
 * The traits of the model with this name. Of a name that is not a Claude model's nothing is known, and of a Claude model
 * that the table does not have yet only that it binds its thoughts. `listed`: the model in the vendor's list. Its
 * members replace those of the table. A model that only the list has is treated as a new Claude model.
 */
export function modelTraits(model: string, listed?: ListedModel): ModelTraits {
  const key = modelKey(model);
  const known = key === undefined ? undefined : TABLE[key];
  if (listed !== undefined) return withListed(known ?? NEWER, listed);
  if (key === undefined) return UNKNOWN;
  if (known !== undefined) return known;
  const { line, version } = parseModelName(model) ?? { line: '', version: OLDEST_LISTED };
  return version >= OLDEST_LISTED ? NEWER : retired(line, version);
}

/** The traits with those that the list has in their place. */
function withListed(traits: ModelTraits, listed: ListedModel): ModelTraits {
  const { efforts, structuredOutputs, webSearch, codeExecution, lifecycle } = listed;
  const { contextTokensMax, outputTokensMax } = listed;
  const { deprecated, retiresAfter, ...others } = traits;
  // The list does not say which efforts a model takes without thinking, but those are a part of all its efforts.
  const effortsWithoutThinking = efforts && traits.effortsWithoutThinking?.filter((each) => efforts.includes(each));
  const end = { deprecated, retiresAfter: listed.retiresAfter ?? retiresAfter };
  return {
    ...others,
    ...defined({ efforts, effortsWithoutThinking, structuredOutputs, contextTokensMax, outputTokensMax }),
    ...defined({ webSearch, codeExecution }),
    ...(listed.thinkingTypes === undefined ? {} : { thinkingTypes: new Set(listed.thinkingTypes) }),
    // An active model is not to be retired, even if the first day on which it could be has passed.
    ...(lifecycle === 'active' ? {} : defined(lifecycle === undefined ? end : { ...end, deprecated: true as const })),
  };
}

const DATE_SUFFIX = /-\d{8}$/;

/** The model of this name in the vendor's list. The list has the dated id of a model whose name has no date. */
export function findListed(model: string, list: readonly ListedModel[]): ListedModel | undefined {
  const plain = model.replace(DATE_SUFFIX, '');
  return list.find(({ id }) => id === model) ?? list.find(({ id }) => id.replace(DATE_SUFFIX, '') === plain);
}

/**
 * The model that is meant by a name that does not exist: one of the vendor's list, or of the table while no list is
 * known; undefined if none is similar, or if the name is one of them. A name without the date of its id is a name too.
 */
export function nearModel(model: string, listed: readonly ListedModel[] = []): string | undefined {
  const names = listed.length > 0 ? listed.flatMap(({ id }) => [id, id.replace(DATE_SUFFIX, '')]) : tableNames();
  return names.includes(model)
    ? undefined
    : (nearestName(model, names) ?? nearestName(model.replace(DATE_SUFFIX, ''), names));
}

/** The names of the models in the table, the newest first; no model whose end is announced is proposed. */
function tableNames(): readonly string[] {
  return Object.entries(TABLE).flatMap(([key, { deprecated }]) => {
    const [line = '', version = ''] = key.split('-');
    const [major, minor] = [Math.floor(Number(version) / 100), Number(version) % 100];
    return deprecated === true ? [] : [`claude-${line}-${minor === 0 ? major : `${major}-${minor}`}`];
  });
}

/** The key of a Claude model's row in the table, which has one for every model in use; undefined for other models. */
export function modelKey(model: string): string | undefined {
  if (model.includes('claude-mythos-preview')) return 'mythos-preview';
  const name = parseModelName(model);
  return name === undefined ? undefined : `${name.line}-${name.version}`;
}

/** The traits of models before 4.5. These are retired, but a log may still name them. */
function retired(line: string, version: number): ModelTraits {
  return {
    ...EARLY_FOUR,
    threads: undefined,
    windowHoldsOutput: version < 405,
    outputTokensMax: retiredOutputTokensMax(line, version),
  };
}

/** Largest `max_tokens` of a retired model, including the highest limit of any beta. */
function retiredOutputTokensMax(line: string, version: number): number {
  if (version < 305) return 4_096;
  if (version < 307) return 8_192;
  if (version < 400) return 128_000;
  return line === 'opus' && version < 405 ? 32_000 : 64_000;
}

/** Line and version (4.6 is 406) of a Claude model's name, no matter what precedes it; undefined for other names. */
function parseModelName(model: string): { readonly line: string; readonly version: number } | undefined {
  const current = CURRENT_NAME.exec(model);
  if (current !== null) return { line: current[1] ?? '', version: versionOf(current[2], current[3]) };
  const early = EARLY_NAME.exec(model);
  if (early === null) return undefined;
  return { line: early[3] ?? '', version: versionOf(early[1], early[2]) };
}

function versionOf(major: string | undefined, minor: string | undefined): number {
  return Number(major) * 100 + Number(minor ?? 0);
}

function types(...accepted: ThinkingType[]): ReadonlySet<ThinkingType> {
  return new Set(accepted);
}
