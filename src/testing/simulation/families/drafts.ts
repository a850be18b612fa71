/**
 * Drafts and lost answers (I34 of `invariants.ts`). The model notes the text and the tokens of each call. Each lost
 * answer in a log is the beginning of the text of one of these calls. No two lost answers are of the same call.
 * Between two processes, a stored draft belongs to a session that exists and to a half-step without an answer.
 *
 * Owns: nothing. Does not own: the ledger and the stores.
 */
import { defined } from '../../../base/defined.ts';
import { isRecord } from '../../../base/json.ts';
import type { StoreEncryption } from '../../../journal/encryption/master-keys.ts';
import { openMemoryJournal } from '../../../journal/memory-journal.ts';
import type { MemoryStore } from '../../../journal/memory-store.ts';
import { readUsage } from '../../../models/usage.ts';
import type { SessionRecord } from '../../../session/state/records.ts';
import type { SessionState } from '../../../session/state/state.ts';
import type { Ledger, StreamedCall } from '../ledger.ts';

/** A lost answer in a log. */
export type LostFact = Extract<SessionRecord, { type: 'lost' }>;

/** The parts of a session's story that the checks read. */
interface DraftedStory {
  readonly id: string;
  readonly lost: readonly LostFact[];
  readonly responded: ReadonlySet<number>;
}

/** The call that streams these blocks and reports this usage; `usage` undefined: the call reports no usage. */
export function streamedCall(content: unknown, usage: unknown): StreamedCall {
  const blocks: readonly unknown[] = Array.isArray(content) ? content : [];
  const texts = blocks.filter(isRecord).filter(({ type }) => type === 'text');
  return {
    text: texts.map(({ text }) => String(text)).join(''),
    ...(usage === undefined ? {} : { inputTokens: readUsage(usage).input_tokens }),
  };
}

/** The fault of a state that still has a draft after its model has answered; undefined if there is none. */
export function draftFault(
  { id, draft }: SessionState,
  record: SessionRecord,
): { readonly kind: 'repeated'; readonly what: string } | undefined {
  if (record.type !== 'responded' || draft === undefined) return undefined;
  return { kind: 'repeated', what: `${id} keeps a draft after the answer of half-step ${record.halfStep} (I34)` };
}

/** Checks that each lost answer is the beginning of the text of a call of its session, no two of the same call. */
export function checkLost(ledger: Ledger, { id, lost }: DraftedStory): void {
  if (lost.length === 0) return;
  const left = [...(ledger.streams.get(id) ?? [])];
  for (const fact of lost.toSorted((a, b) => b.text.length - a.text.length)) {
    const index = left.findIndex((call) => isBeginning(fact, call));
    if (index === -1) {
      const what = `half-step ${fact.halfStep} lost ${JSON.stringify(fact.text)}, ${fact.usage?.input_tokens} tokens`;
      ledger.violate('changed', `${id}: ${what}, which no further call streamed (I34)`);
    } else {
      left.splice(index, 1);
    }
  }
}

function isBeginning({ text, usage }: LostFact, call: StreamedCall): boolean {
  const isKnown = usage !== undefined && call.inputTokens !== undefined;
  if (isKnown && usage.input_tokens !== call.inputTokens) return false;
  return call.text.startsWith(text);
}

/** Checks the drafts that a process left in its stores. `encryption`: missing if the stores are not encrypted. */
export async function checkDrafts(
  stores: readonly MemoryStore[],
  ledger: Ledger,
  stories: ReadonlyMap<string, DraftedStory>,
  encryption: StoreEncryption | undefined,
): Promise<void> {
  for (const [shard, store] of stores.entries()) {
    if (store.drafts.size === 0) continue;
    const journal = openMemoryJournal({ store, ...defined({ encryption }) });
    for (const key of store.drafts.keys()) {
      const name = store.names.get(key);
      if (name === undefined) ledger.violate('lost', `shard ${shard}: a draft of the deleted session ${key} (I34)`);
      const draft: unknown = JSON.parse(journal.drafts.get(key) ?? '{}');
      const halfStep = isRecord(draft) ? Number(draft['halfStep']) : 0;
      if (stories.get(name ?? '')?.responded.has(halfStep) === true)
        ledger.violate('repeated', `${name} has a draft of half-step ${halfStep}, which is answered (I34)`);
    }
    await journal.close();
  }
}
