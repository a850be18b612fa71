/**
 * Gives each open call of a suspended run a placeholder as its result, because none of these calls will run. Used only
 * with the setting `repair.onInterrupt: 'fill'`. Pure.
 */
import type { Environment } from '../state/inputs.ts';
import type { SessionState } from '../state/state.ts';
import { EditDraft, type EditRecord } from './edit-draft.ts';
import { wireId } from './logged-form.ts';
import { callsOf, interruptedResult } from './repair.ts';

/**
 * The edit that answers every open call directly after its assistant message, in call order, and the ids of the calls.
 * Undefined if no call is open. No open call of the session may have started. Callbacks for new messages are not
 * called, because no participant wrote these messages.
 */
export function fillOpenCalls(
  state: SessionState,
  environment: Environment,
): { readonly record: EditRecord; readonly ids: readonly string[] } | undefined {
  if (state.openCalls.size === 0) return undefined;
  const { now, transients } = environment;
  // The bound on message bytes is for messages from an embedder, not for these texts.
  const draft = new EditDraft(state, { now, messageBytesMax: Number.POSITIVE_INFINITY, transients });
  const ids: string[] = [];
  for (const entry of draft.entries) {
    // Placeholders for the last message are added at the end, so that no epoch opens.
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
