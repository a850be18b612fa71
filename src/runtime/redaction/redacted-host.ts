/**
 * The host of a shard with redaction. Answers of the embedder's functions are redacted before the session's thread
 * reads them. Log lines are redacted before they leave the thread (D1 of `redactor.ts`). An answer that cannot be
 * redacted counts as a failure of the function that gave the answer.
 */
import type { EnricherReply } from '../../../actors/enrichers/enricher-sources.ts';
import { errorFromShape, errorShape } from '../../base/errors.ts';
import type { AssistantMessage, HistoryMessage } from '../../base/history-message.ts';
import type { HostVerdict } from '../protocol/host-decisions.ts';
import type { LogLine } from '../protocol/protocol.ts';
import type { ShardHost } from '../shard/shard-parts.ts';
import { redactEdit, redactMessages } from './redacted-input.ts';
import { type RedactKind, redactError, redactJson, redactMessage } from './redacted-values.ts';
import { type Redactor, redactedError, redactionError } from './redactor.ts';

/** See the head of the file. */
export function redactedHost(host: ShardHost, redactor: Redactor): ShardHost {
  /** Runs a question of a session, and redacts its answer or its error. */
  const asked = async <T>(
    session: string | undefined,
    ask: () => Promise<T>,
    change: (answer: T, redact: RedactKind) => T,
  ): Promise<T> => {
    const redact = redactor.of(session);
    let answer: T;
    try {
      answer = await ask();
    } catch (error) {
      throw errorFromShape(redactedError(errorShape(error), redact));
    }
    try {
      return change(answer, redact);
    } catch (thrown) {
      throw redactionError(thrown);
    }
  };
  return {
    ...host,
    log: (line) => host.log(redactedLine(line, redactor)),
    evaluateSystem: (agent, session) =>
      asked(
        session,
        () => host.evaluateSystem(agent, session),
        (text, redact) => redact('system')(text),
      ),
    consult: (question) => asked(question.session, () => host.consult(question), redactVerdict),
    upgrade: (question) =>
      asked(
        question.session,
        () => host.upgrade(question),
        (edits, redact) => edits.map((edit) => redactEdit(edit, redact('history'))),
      ),
    lookUp: (question) =>
      asked('session' in question ? question.session : undefined, () => host.lookUp(question), redactReply),
  };
}

/** Redacts the reasons and the changed messages of a verdict. */
function redactVerdict(verdict: HostVerdict, redact: RedactKind): HostVerdict {
  if (!('type' in verdict)) {
    const { interrupt } = verdict;
    return interrupt === undefined ? verdict : { ...verdict, interrupt: redactJson(interrupt, redact('decision')) };
  }
  if (verdict.type === 'pass') return verdict;
  if (verdict.type === 'block') return { ...verdict, reason: redact('decision')(verdict.reason) };
  const { value } = verdict;
  if (isMessages(value)) return { type: 'transform', value: redactMessages(value, redact('history')) };
  return { type: 'transform', value: redactMessage(value, redact('answer')) };
}

function isMessages(value: readonly HistoryMessage[] | AssistantMessage): value is readonly HistoryMessage[] {
  return Array.isArray(value);
}

/** Redacts the texts of definitions and memories. Ids and names are kept: the enricher's model chooses by them. */
function redactReply(reply: EnricherReply, redact: RedactKind): EnricherReply {
  return redactJson(reply, redact('memory'), (_, name) => name === 'about' || name === 'id' || name === 'name');
}

/** Redacts a log line. If that fails, the line has the error of the redaction in place of its texts. */
function redactedLine(line: LogLine, redactor: Redactor): LogLine {
  const redact = redactor.of(line.session);
  const { message, error, stack } = line;
  try {
    return {
      ...line,
      message: redact('log')(message),
      ...(error === undefined ? {} : { error: redactError(error, redact('log')) }),
      ...(stack === undefined ? {} : { stack: redact('log')(stack) }),
    };
  } catch (thrown) {
    const { stack: _stack, ...kept } = line;
    const failure = redactionError(thrown);
    return { ...kept, message: failure.message, error: errorShape(failure) };
  }
}
