/**
 * The runtime's lines in the embedder's log.
 *
 * Owns: a child logger for each session that logged recently. Does not own: the logger. Lives on the host thread.
 *  Q1 A line of a session comes from a logger with `{ session, agent }`.
 *  Q2 No line holds a secret: neither a provider's credentials, nor text that looks like a secret.
 *  Q3 A logger that throws affects nothing else.
 */
import { SESSION_LOGGERS_MAX } from '../../base/bounds.ts';
import { redactData, redactText } from '../../base/redaction.ts';
import { credentialsOf } from '../../models/anthropic/credentials.ts';
import type { ModelProvider, ProviderData } from '../../models/provider.ts';
import { isModelProvider } from '../../models/provider-check.ts';
import { RecentMap } from '../../models/recent-map.ts';
import type { GuardedLogger } from '../protocol/options.ts';
import type { LogLine } from '../protocol/protocol.ts';

/** See the head of the file. */
export class SessionLogs {
  readonly #logger: GuardedLogger | undefined;
  readonly #secrets: readonly string[];
  readonly #children = new RecentMap<GuardedLogger>(SESSION_LOGGERS_MAX);

  /** `providers`: the providers whose credentials are cut out of every line. */
  constructor(logger: GuardedLogger | undefined, providers: readonly (ModelProvider | ProviderData)[]) {
    this.#logger = logger;
    this.#secrets = logger === undefined ? [] : providers.flatMap(secretsOf);
  }

  /** Writes a line, if there is a logger. Never throws. */
  write({ level, message, session, agent, ...fields }: LogLine): void {
    if (this.#logger === undefined) return;
    const text = redactText(message, this.#secrets);
    const data = redactData(fields, this.#secrets) as object;
    if (session === undefined) {
      this.#logger[level](data, text);
      return;
    }
    const of = { session, ...(agent === undefined ? {} : { agent }) };
    const child = this.#childOf(this.#logger, of);
    if (child === undefined) this.#logger[level]({ ...of, ...data }, text);
    else child[level](data, text);
  }

  #childOf(
    logger: GuardedLogger,
    of: { readonly session: string; readonly agent?: string },
  ): GuardedLogger | undefined {
    // A session that was deleted and created again may have another agent.
    const key = `${of.agent ?? ''} ${of.session}`;
    const known = this.#children.get(key) ?? logger.child(of);
    if (known !== undefined) this.#children.put(key, known);
    return known;
  }
}

/** The secrets of a provider that is plain data. The secrets of a provider given by value are not known here. */
function secretsOf(provider: ModelProvider | ProviderData): readonly string[] {
  if (isModelProvider(provider) || provider.kind !== 'anthropic') return [];
  const { apiKey, authToken } = provider.options;
  const given = [apiKey, authToken].filter((secret) => secret !== undefined);
  try {
    return credentialsOf(provider.options)?.secrets ?? given;
  } catch {
    // The key cannot be sent in an HTTP header, and every call will report that. The key is still a secret.
    return given;
  }
}
