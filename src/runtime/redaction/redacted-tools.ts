/**
 * A pool of tool calls whose results, questions and progress are redacted before the session's thread reads them (D1 of
 * `redactor.ts`). So a long result is redacted before it is shortened, and its file has the redacted text.
 *
 * Owns: the sessions of the runs in flight. Does not own: the runs.
 *  T1 a result that cannot be redacted becomes a failure that says so; progress that cannot be redacted is dropped.
 */
import type { ToolPool, ToolPoolListener, ToolRun } from '../../tools/pool.ts';
import type { ToolOutcome } from '../../tools/tool.ts';
import { type RedactKind, redactContent, redactForm, redactJson } from './redacted-values.ts';
import { type Redactor, redactionError } from './redactor.ts';

/** Makes pools with redaction. `makePool`: makes the pool that runs the tools. */
export function redactedTools(
  makePool: (listener: ToolPoolListener) => ToolPool,
  redactor: Redactor,
): (listener: ToolPoolListener) => ToolPool {
  return (listener) => {
    const sessions = new Map<number, string>();
    const pool = makePool({
      finished: (id, outcome) => {
        const session = sessions.get(id);
        sessions.delete(id);
        listener.finished(id, redactedOutcome(outcome, redactor.of(session)));
      },
      progress: (id, data) => {
        let redacted: unknown;
        try {
          redacted = redactJson(data, redactor.of(sessions.get(id))('progress'));
        } catch {
          // If the function keeps failing, the result of the call reports the failure.
          return;
        }
        listener.progress(id, redacted);
      },
    });
    return {
      run: (run: ToolRun) => {
        sessions.set(run.id, run.session);
        pool.run(run);
      },
      cancel: (id, reason) => pool.cancel(id, reason),
      holds: (id) => pool.holds(id),
      describe: (url) => pool.describe(url),
      close: () => pool.close(),
    };
  };
}

function redactedOutcome(outcome: ToolOutcome, redactOf: RedactKind): ToolOutcome {
  const { content, blocks, asks } = outcome;
  try {
    const redact = redactOf('tool_result');
    return {
      ...outcome,
      content: redact(content),
      ...(blocks === undefined ? {} : { blocks: redactContent(blocks, redact) }),
      ...(asks === undefined
        ? {}
        : { asks: { ...asks, question: redact(asks.question), form: redactForm(asks.form, redact) } }),
    };
  } catch (thrown) {
    const { code, message } = redactionError(thrown);
    return { content: JSON.stringify({ error: `${code}: ${message}` }), success: false, ms: outcome.ms };
  }
}
