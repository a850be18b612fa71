/** Requests about a history to the shard of its session. */
import { HISTORY_ATTEMPTS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { SessionBusyError } from '../../base/errors.ts';
import type { HistoryQuery, HistorySnapshot } from '../../session/history/history-query.ts';
import type { EditRequest } from '../../session/state/edit-request.ts';
import { checkEditOptions, type EditOptions, fingerprintOf } from './history-options.ts';
import type { HistoryAddress } from './history-tasks.ts';

/** Requests an edit. `incarnation`: the incarnation in the message handle of the caller (see `Receipt.id`). */
export async function editHistory(
  { link, address }: HistoryAddress,
  edit: EditRequest,
  options: { readonly [Name in keyof EditOptions]?: EditOptions[Name] | undefined },
  incarnation?: number,
): Promise<unknown> {
  const { key, by } = checkEditOptions(edit.operation, options);
  const keyed = key === undefined ? {} : { key, fingerprint: fingerprintOf(edit) };
  const named = defined({ incarnation, by });
  const request = { ...address, edit, ...keyed, ...named };
  // A copy, because a shard on this thread answers with its own objects.
  return structuredClone(await link.call('history.edit', request, key !== undefined));
}

/** Requests the answer to a query. `T`: the type of the answer to a query of this name. */
export async function readHistory<T>({ link, address }: HistoryAddress, query: HistoryQuery): Promise<T> {
  return (await link.call('history.read', { ...address, query }, true)) as T;
}

/**
 * Makes an edit from a snapshot of the history. If a new epoch was opened in between, tries again, with at most
 * `HISTORY_ATTEMPTS_MAX` attempts. An appended message opens no epoch. `make` returns undefined if there is nothing to
 * change.
 */
export async function editOnSnapshot(
  history: HistoryAddress,
  make: (snapshot: HistorySnapshot) => EditRequest | undefined,
  options: EditOptions,
): Promise<void> {
  // The options are checked even if there is nothing to change.
  checkEditOptions('history', options);
  for (let attempt = 1; ; attempt += 1) {
    const edit = make(await readHistory<HistorySnapshot>(history, { name: 'snapshot' }));
    if (edit === undefined) return;
    try {
      await editHistory(history, edit, options);
      return;
    } catch (error) {
      const isMoved = error instanceof SessionBusyError && error.data['moved'] === true;
      if (!isMoved || attempt >= HISTORY_ATTEMPTS_MAX) throw error;
    }
  }
}
