/**
 * The places at which values enter a session's thread, with redaction: requests, model calls, tool calls, and answers
 * of the host. No value enters elsewhere, and no code after these places redacts (D1 of `redactor.ts`).
 */
import type { ModelPool, ModelPoolListener } from '../../models/pool.ts';
import type { Input } from '../../session/state/inputs.ts';
import type { ToolPool, ToolPoolListener } from '../../tools/pool.ts';
import type { RedactFunction } from '../protocol/redact-option.ts';
import type { ShardHost } from '../shard/shard-parts.ts';
import { redactedHost } from './redacted-host.ts';
import { redactInput } from './redacted-input.ts';
import { redactedModels } from './redacted-models.ts';
import { redactedTools } from './redacted-tools.ts';
import { Redactor, redactionError } from './redactor.ts';

/** See the head of the file. */
export class Redacted {
  readonly #redactor: Redactor;

  /** `agentOf`: the agent of a session; undefined if there is no such session. */
  constructor(redact: RedactFunction, agentOf: (session: string) => string | undefined) {
    this.#redactor = new Redactor(redact, agentOf);
  }

  /** Redacts the input of a request. `agent`: the agent with which its session is created. Throws `RedactionError`. */
  input(session: string, input: Input, agent: string | undefined): Input {
    try {
      return redactInput(input, this.#redactor.of(session, agent));
    } catch (thrown) {
      throw redactionError(thrown);
    }
  }

  models(makePool: (listener: ModelPoolListener) => ModelPool): (listener: ModelPoolListener) => ModelPool {
    return redactedModels(makePool, this.#redactor);
  }

  tools(makePool: (listener: ToolPoolListener) => ToolPool): (listener: ToolPoolListener) => ToolPool {
    return redactedTools(makePool, this.#redactor);
  }

  host(host: ShardHost): ShardHost {
    return redactedHost(host, this.#redactor);
  }
}
