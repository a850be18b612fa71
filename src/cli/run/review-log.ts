/** The counts of a whole review, read from its log after the process that wrote the log has closed the store. */
import type { SessionSummary } from '../../runtime/protocol/protocol.ts';
import type { StoredSessions } from '../places/stored-sessions.ts';

/** See the head of the file. The counts include the parts that other processes wrote. */
export interface ReviewLog {
  readonly messages: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** The sessions of the review `id`: the reviewer and its readers. */
export function sessionsOf(sessions: StoredSessions, id: string): readonly SessionSummary[] {
  return sessions.list().filter((each) => each.id === id || each.parent === id);
}

/** See the head of the file. */
export function logOf(sessions: StoredSessions, id: string): ReviewLog {
  let [messages, inputTokens, outputTokens] = [0, 0, 0];
  for (const each of sessionsOf(sessions, id)) {
    const session = sessions.session(each.id);
    messages += session?.messages ?? 0;
    inputTokens += session?.usage.input_tokens ?? 0;
    outputTokens += session?.usage.output_tokens ?? 0;
  }
  return { messages, inputTokens, outputTokens };
}
