/** The model traits that the rules need, read from the model's name. Pure. */

/** How a model treats a request. An unknown model has the lenient values: nothing is refused on a guess. */
export interface ModelTraits {
  /** An assistant message may come last (R12). */
  readonly prefill: boolean;
  /** `role: "system"` may appear in `messages` (R13); undefined: not known. */
  readonly systemMessages: boolean | undefined;
  /** `thinking.type: "enabled"` is accepted (R25). */
  readonly manualThinking: boolean;
  /** `temperature`, `top_p` and `top_k` are accepted (R26). */
  readonly sampling: boolean;
  /** Thinking may be disabled at the highest efforts (R27). */
  readonly effortWithoutThinking: boolean;
  /** Leaving out `thinking` turns it off (R23). */
  readonly thinkingOffByDefault: boolean;
  /** Input and `max_tokens` together must fit the window (R34). */
  readonly windowHoldsOutput: boolean;
  /** Tokens of the context window; undefined: not known. */
  readonly contextTokensMax: number | undefined;
  /** Limit of tokens in one answer, `max_tokens` (R39); undefined: not known. */
  readonly outputTokensMax: number | undefined;
  /** A thinking block is bound to everything before it (R21). */
  readonly bindsThinking: boolean;
}

const CURRENT_NAME = /claude-([a-z]+)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)/;
const EARLY_NAME = /claude-(\d)(?:-(\d))?-([a-z]+)/;

const UNKNOWN: ModelTraits = Object.freeze({
  prefill: true,
  systemMessages: undefined,
  manualThinking: true,
  sampling: true,
  effortWithoutThinking: true,
  thinkingOffByDefault: true,
  windowHoldsOutput: false,
  contextTokensMax: undefined,
  outputTokensMax: undefined,
  bindsThinking: false,
});

/** The traits of the model with this name. A name that is not a Claude model's has the lenient traits. */
export function modelTraits(model: string): ModelTraits {
  const name = parseModelName(model);
  if (name === undefined) return UNKNOWN;
  const { family, version } = name;
  const recentOpus = version >= 500 || (family === 'opus' && version >= 407);
  return {
    prefill: version < 406,
    systemMessages: version >= 500 || (family === 'opus' && version >= 408),
    manualThinking: !recentOpus,
    sampling: !recentOpus,
    effortWithoutThinking: !(family === 'opus' && version >= 500),
    thinkingOffByDefault: version < 500,
    windowHoldsOutput: version < 405,
    contextTokensMax: version < 406 ? 200_000 : 1_000_000,
    outputTokensMax: outputTokensMax(family, version),
    bindsThinking: version >= (family === 'fable' || family === 'mythos' ? 501 : 505),
  };
}

/**
 * Largest `max_tokens` of each model, including the highest limit of any known beta. Source: the vendor's table of
 * models. Models that are
 * not in it yet are unknown.
 */
function outputTokensMax(family: string, version: number): number | undefined {
  if (version < 305) return 4_096;
  if (version < 307) return 8_192;
  if (version < 400) return 128_000;
  if (version < 405) return family === 'opus' ? 32_000 : 64_000;
  if (version < 406) return 64_000;
  return version < 500 ? 128_000 : undefined;
}

/** Family and version (4.6 is 406) of a Claude model's name, no matter what precedes it; undefined for other names. */
function parseModelName(model: string): { readonly family: string; readonly version: number } | undefined {
  if (model.includes('claude-mythos-preview')) return { family: 'mythos', version: 406 };
  const current = CURRENT_NAME.exec(model);
  if (current !== null) {
    return { family: current[1] ?? '', version: versionOf(current[2], current[3]) };
  }
  const early = EARLY_NAME.exec(model);
  if (early === null) return undefined;
  return { family: early[3] ?? '', version: versionOf(early[1], early[2]) };
}

function versionOf(major: string | undefined, minor: string | undefined): number {
  return Number(major) * 100 + Number(minor ?? 0);
}
