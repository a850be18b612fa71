/**
 * Sends the deltas of a model thread to the session thread's pool, many in one note. With a thousand streams, forty
 * calls have a delta each millisecond. A separate note for each delta would cost both threads more processor time.
 *
 * Owns: the note that still accepts deltas. Does not own: which deltas are reported and when; the endpoint.
 *  V1 Deltas arrive in the order in which they were added. All deltas of a note arrive before any message that was sent
 *     after the first of them was added.
 *  V2 A note has at most `DELTAS_OF_NOTE_MAX` deltas.
 *  V3 A note leaves once the running callback has ended, and not at the end of the tick. The tick may still have a
 *     thousand sockets to read, which would delay the deltas.
 */
import { DELTAS_OF_NOTE_MAX } from '../../base/bounds.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { ModelPoolListener, StreamDraft, StreamedDelta } from '../pool.ts';
import type { ModelDelta } from '../provider.ts';

/**
 * Four values for each delta: the id of its call, its type, its text, and its `before` (see `StreamedDelta`). For a
 * delta with a draft, the type is `draft` and the fourth value is the draft. A flat list is cloned faster than
 * objects.
 */
export type DeltaNote = readonly unknown[];

const VALUES_OF_DELTA = 4;
const DRAFT = 'draft';

/** Reports deltas to the far side of `endpoint`, which reads them with `readDeltas`. */
export function deltaNotes(endpoint: Endpoint): ModelPoolListener['delta'] {
  let open: unknown[] | undefined;
  const opened = (): unknown[] => {
    const note: unknown[] = [];
    endpoint.notifyLate('deltas', () => {
      if (open === note) open = undefined;
      return note;
    });
    endpoint.hasten();
    return note;
  };
  return (id, _session, { type, text, before, draft }) => {
    open ??= opened();
    if (draft === undefined) open.push(id, type, text, before);
    else open.push(id, DRAFT, text, draft);
    if (open.length >= DELTAS_OF_NOTE_MAX * VALUES_OF_DELTA) open = undefined;
  };
}

/** Passes the deltas of a note to `take`, in order. */
export function readDeltas(note: DeltaNote, take: (id: number, delta: StreamedDelta) => void): void {
  for (let at = 0; at < note.length; at += VALUES_OF_DELTA) {
    const kind = note[at + 1] as ModelDelta['type'] | typeof DRAFT;
    const text = note[at + 2] as string;
    if (kind === DRAFT) {
      take(note[at] as number, { type: 'text', text, draft: note[at + 3] as StreamDraft });
      continue;
    }
    const type = kind;
    const before = note[at + 3] as StreamedDelta['before'];
    take(note[at] as number, before === undefined ? { type, text } : { type, text, before });
  }
}
