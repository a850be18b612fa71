/** The safety net of §5.5: a call whose deadline passed without any result is answered in the log. Pure. */
import type { SessionRecord } from './records.ts';
import { isWaitingForApproval } from './run-loop-state.ts';
import type { SessionState } from './state.ts';

const SECOND_MS = 1_000;

/** A `healed` record for every open call past its deadline; `timeoutMsOf` gives a tool's own timeout. Idempotent once applied. */
export function healExpired(
  state: SessionState,
  now: number,
  timeoutMsOf: (toolName: string) => number,
): readonly SessionRecord[] {
  const records: SessionRecord[] = [];
  // What was not started has no deadline.
  if (state.held !== undefined || state.suspended !== undefined) return records;
  for (const call of state.openCalls.values()) {
    if (isWaitingForApproval(state, call.id)) continue;
    const timeoutMs = call.timeoutMs ?? timeoutMsOf(call.name);
    if (now < call.at + timeoutMs) continue;
    const seconds = Math.round(timeoutMs / SECOND_MS);
    records.push({
      type: 'healed',
      toolUseId: call.id,
      content: `The call of ${call.name} timed out after ${seconds} seconds without a result.`,
    });
  }
  return records;
}
