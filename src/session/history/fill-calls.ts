/** `repair.onInterrupt: 'fill'`: the calls of a run that stops are answered with placeholders, as none of them will run. Pure. */
import type { Environment } from '../state/inputs.ts';
import type { SessionState } from '../state/state.ts';
import { EditDraft, type EditRecord } from './edit-draft.ts';
import { wireId } from './logged-form.ts';
import { callsOf, interruptedResult } from './repair.ts';

/**
 * The edit that answers every open call right behind its assistant message, in call order, and their ids; undefined where no
 * call is open. Only for a session none of whose open calls was started. Callbacks are not told: nobody said it.
 */
export function fillOpenCalls(
  state: SessionState,
  environment: Environment,
): { readonly record: EditRecord; readonly ids: readonly string[] } | undefined {
  if (state.openCalls.size === 0) return undefined;
  const { now, transients } = environment;
  // These words are ours: the bound is on what an embedder brings.
  const draft = new EditDraft(state, { now, messageBytesMax: Number.POSITIVE_INFINITY, transients });
  const ids: string[] = [];
  for (const entry of draft.entries) {
    // Behind the last message it is added at its end: nothing before it changes, and no epoch opens.
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
