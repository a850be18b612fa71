/**
 * What a shard tells in one turn of the loop goes to the host as one note, not as one for each turn of an actor: hundreds of actors
 * are told of behind one flush.
 *
 * Owns: the note that still takes events. Does not own: what is told, when; the line. Belongs to the shard's thread.
 *  V1 Events arrive in the order they were told, before all that was sent behind the first of their note.
 *  V2 A note holds at most `EVENTS_OF_NOTE_MAX`.
 */
import { EVENTS_OF_NOTE_MAX } from '../base/bounds.ts';
import type { SessionEvent } from '../events/event.ts';
import { EventPacking } from '../events/event-packing.ts';
import type { Endpoint } from '../threads/endpoint.ts';

/** What gathers events, and what of them is sent. */
interface Gathering {
  add(event: SessionEvent): void;
  readonly values: readonly unknown[];
}

/** Tells events to the host's thread, packed. */
export function tellPacked(endpoint: Endpoint): (events: readonly SessionEvent[]) => void {
  return gathered(endpoint, 'events.packed', () => new EventPacking());
}

/** Tells events to a host on the same thread, as they are. */
export function tellInPlace(endpoint: Endpoint): (events: readonly SessionEvent[]) => void {
  return gathered(endpoint, 'events', () => {
    const values: SessionEvent[] = [];
    return { values, add: (event) => void values.push(event) };
  });
}

function gathered(
  endpoint: Endpoint,
  method: string,
  begin: () => Gathering,
): (events: readonly SessionEvent[]) => void {
  let open: Gathering | undefined;
  let size = 0;
  const opened = (): Gathering => {
    const begun = begin();
    size = 0;
    endpoint.notifyLate(method, () => {
      if (open === begun) open = undefined;
      return begun.values;
    });
    return begun;
  };
  return (events) => {
    for (const event of events) {
      open ??= opened();
      open.add(event);
      size += 1;
      if (size >= EVENTS_OF_NOTE_MAX) open = undefined;
    }
  };
}
