/**
 * `repair.onInterrupt: 'fill'`: the calls of a run that stops are answered with placeholders, as none of them will run.
 * Pure.
 */
import type { Environment } from '../state/inputs.ts';
import type { SessionState } from '../state/state.ts';
import { EditDraft, type EditRecord } from './edit-draft.ts';
import { wireId } from './logged-form.ts';
import { callsOf, interruptedResult } from './repair.ts';

/**
 * The edit that answers every open call right behind its assistant message, in call order, and the ids of the calls.
 * Undefined if no call is open. Only for a session in which no open call has started. Callbacks are not notified, since
 * these messages come from no participant.
 */
export function fillOpenCalls(
  state: SessionState,
  environment: Environment,
): { readonly record: EditRecord; readonly ids: readonly string[] } | undefined {
  if (state.openCalls.size === 0) return undefined;
  const { now, transients } = environment;
  // The bound does not apply to these texts, because they do not come from an embedder.
  const draft = new EditDraft(state, { now, messageBytesMax: Number.POSITIVE_INFINITY, transients });
  const ids: string[] = [];
  for (const entry of draft.entries) {
    // Placeholders for the last message are added at the end: nothing before them changes, and no epoch opens.
    const after = entry === draft.entries.at(-1) ? undefined : entry.seq;
    for (const call of callsOf(entry.message)) {
      const id = wireId(call.callId);
      if (!state.openCalls.has(id)) continue;
      const { id: _id, ...placeholder } = interruptedResult(call, '', now);
      draft.add(placeholder, after);
      ids.push(id);
    }
  }
  const { record } = draft.plan('fillOrphans', undefined);
  return record === undefined ? undefined : { record, ids };
}
