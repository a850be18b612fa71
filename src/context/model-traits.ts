/**
 * The traits of the Claude models: which requests each model accepts, and how it behaves. Pure.
 *
 * The traits come from three sources. The first source that has a trait decides it:
 * - the vendor's list of models, if it is known;
 * - the dated table of this file, made from the vendor's pages on models, thinking, effort and deprecations as of
 *   2026-11-22;
 * - for a Claude model without a row, the safest traits.
 *
 * A trait that is `undefined` is not known. A check refuses only requests that the model is known to refuse. Code that
 * builds a request uses only features that the model is known to accept.
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
   * True if a forced tool is accepted beside an explicit `thinking` that is on (R28). A request without the field
   * `thinking` is a separate case.
   */
  readonly forcedToolWithThinking: boolean | undefined;
  /** True if the last message may be an assistant message (R12). */
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
  /**
   * True if the model's code may call tools. Web tools whose type is dated February 2026 or later allow that by default
   * (R60).
   */
  readonly codeCallsTools: boolean | undefined;
  /**
   * True if `speed: "fast"` has an effect (R64); undefined if the API ignores it, or if its effect is not known.
   * `fastBeta`: the beta flag that this speed needs, if any.
   */
  readonly fast: boolean | undefined;
  readonly fastBeta?: string;
  /** True if `inference_geo` is accepted (R63). */
  readonly inferenceGeo: boolean | undefined;
  /** True if input and `max_tokens` together must fit into the window (R34). */
  readonly windowHoldsOutput: boolean;
  /** True if the model may be a fallback and may have fallbacks (R56). Only the API knows which pairs it allows. */
  readonly fallbacks: boolean | undefined;
  /** Models that may advise this model (R66), as keys of the table. */
  readonly advisors?: readonly string[];
  /** Types of tools that the model refuses (R60). */
  readonly refusedToolTypes?: ReadonlySet<string>;
  /** True if the API keeps message threads for the model (R62). */
  readonly threads: boolean | undefined;
  /** Tokens of the context window. */
  readonly contextTokensMax: number | undefined;
  /** Most tokens of one answer, for `max_tokens` (R39). */
  readonly outputTokensMax: number | undefined;
  /** Most images and pages of PDF in one request (R61). */
  readonly imagesMax: number | undefined;
  /** Least tokens of a prefix that is cached. A shorter prefix is processed as usual. */
  readonly cacheableTokensMin: number | undefined;
  /** The day from which the vendor may retire the model, `YYYY-MM-DD`. */
  readonly retiresAfter?: string;
  /** True if the vendor has announced that the model will be retired. */
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

/** The traits of a model that is not a Claude model: nothing is known. */
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
 * The traits of a Claude model that is not in the table yet. Such a model is assumed to bind its thoughts, as all
 * recent models do.
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
  // No model of version 5 was seen to lack these three features.
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
  // The least tokens of a cached prefix of Opus 4.7 are not known.
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
 * The traits of the early models of version 5. It is not known whether they accept an explicit `thinking` beside a
 * forced tool.
 */
const FABLE_5: ModelTraits = {
  ...FIVE,
  forcedTool: true,
  forcedToolWithThinking: undefined,
  bindsThinking: false,
  retiresAfter: '2027-06-09',
};

/** The known advisors of Sonnet 5.5, as keys of the table. The advisors of other models are below, or are not known. */
const ADVISORS_SONNET_5_5 = [
  ...['opus-500', 'opus-505', 'sonnet-505', 'fable-500', 'fable-501', 'mythos-500', 'mythos-501'],
];
const ADVISORS_FABLE_5_2 = ['fable-502', 'mythos-502'];

/** The traits by model line and version (4.6 is 406). */
const TABLE: Readonly<Record<string, ModelTraits>> = {
  // These two models are newer than the last known version of the vendor's list of models with threads.
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
  // Sources differ on system messages: the documentation says no, one public library says yes. `false` is the safe
  // choice.
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

/** The oldest version in the table. Older models are retired. */
const OLDEST_LISTED = 405;

const CURRENT_NAME = /claude-([a-z]+)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)/;
const EARLY_NAME = /claude-(\d)(?:-(\d))?-([a-z]+)/;

/** A model, as the vendor's list describes it. Plain data. A missing member means that the fact is not known. */
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
 * The traits of the model with this name. `listed`: the model's row in the vendor's list. The members of this row
 * override the table. A model that only the list has, or a Claude model newer than the table, is assumed to bind its
 * thoughts. Older Claude models have the traits of `retired`. For any other model no trait is known.
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

/** The traits of a model, overridden by the traits that the list has. */
function withListed(traits: ModelTraits, listed: ListedModel): ModelTraits {
  const { efforts, structuredOutputs, webSearch, codeExecution, lifecycle } = listed;
  const { contextTokensMax, outputTokensMax } = listed;
  const { deprecated, retiresAfter, ...others } = traits;
  // The list does not say which efforts a model accepts without thinking. So the table's efforts are kept, but only
  // those that the list has for the model.
  const effortsWithoutThinking = efforts && traits.effortsWithoutThinking?.filter((each) => efforts.includes(each));
  const end = { deprecated, retiresAfter: listed.retiresAfter ?? retiresAfter };
  return {
    ...others,
    ...defined({ efforts, effortsWithoutThinking, structuredOutputs, contextTokensMax, outputTokensMax }),
    ...defined({ webSearch, codeExecution }),
    ...(listed.thinkingTypes === undefined ? {} : { thinkingTypes: new Set(listed.thinkingTypes) }),
    // An active model is not retired, even if the first possible day of its retirement has passed.
    ...(lifecycle === 'active' ? {} : defined(lifecycle === undefined ? end : { ...end, deprecated: true as const })),
  };
}

const DATE_SUFFIX = /-\d{8}$/;

/** The model with this name in the vendor's list. The list may have a dated id for a name without a date. */
export function findListed(model: string, list: readonly ListedModel[]): ListedModel | undefined {
  const plain = model.replace(DATE_SUFFIX, '');
  return list.find(({ id }) => id === model) ?? list.find(({ id }) => id.replace(DATE_SUFFIX, '') === plain);
}

/**
 * The known model that an unknown name probably means; undefined if the name is known, or if no known name is similar.
 * The known names are those of the vendor's list, with and without their dates. Without a list they are those of the
 * table.
 */
export function nearModel(model: string, listed: readonly ListedModel[] = []): string | undefined {
  const names = listed.length > 0 ? listed.flatMap(({ id }) => [id, id.replace(DATE_SUFFIX, '')]) : tableNames();
  return names.includes(model)
    ? undefined
    : (nearestName(model, names) ?? nearestName(model.replace(DATE_SUFFIX, ''), names));
}

/** The names of the models in the table, in its order. Deprecated models are left out, so that none is suggested. */
function tableNames(): readonly string[] {
  return Object.entries(TABLE).flatMap(([key, { deprecated }]) => {
    const [line = '', version = ''] = key.split('-');
    const [major, minor] = [Math.floor(Number(version) / 100), Number(version) % 100];
    return deprecated === true ? [] : [`claude-${line}-${minor === 0 ? major : `${major}-${minor}`}`];
  });
}

/** The key that a Claude model has, or would have, in the table; undefined for other models. */
export function modelKey(model: string): string | undefined {
  if (model.includes('claude-mythos-preview')) return 'mythos-preview';
  const name = parseModelName(model);
  return name === undefined ? undefined : `${name.line}-${name.version}`;
}

/** The traits of models before 4.5. These models are retired, but a log may still name them. */
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

/** Line and version (4.6 is 406) of a Claude model's name, which may have a prefix; undefined for other names. */
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
