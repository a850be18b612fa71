/**
 * What a shard tells in one turn of the loop goes to the host as one note, not as one for each turn of an actor: hundreds of actors
 * are told of behind one flush.
 *
 * Owns: the note that still takes events. Does not own: what is told, when; the line. Belongs to the shard's thread.
 *  V1 Events arrive in the order they were told, before all that was sent behind the first of their note.
 *  V2 A note holds at most `EVENTS_OF_NOTE_MAX` events.
 *  V3 A session is introduced with its first events or before them.
 */
import { EVENTS_OF_NOTE_MAX } from '../../base/bounds.ts';
import type { SessionEvent } from '../../events/event.ts';
import { EventPacking } from '../../events/packing/packing.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { SessionIntroduction } from '../protocol/protocol.ts';

/** How a shard tells its host of events. */
export interface EventTeller {
  events(events: readonly SessionEvent[]): void;
  introduced(sessions: readonly SessionIntroduction[]): void;
}

/** Tells the host's thread, packed. */
export function tellPacked(endpoint: Endpoint): EventTeller {
  return gathering(endpoint, 'events.packed', () => new EventPacking());
}

/** Tells a host on the same thread, events as they are. */
export function tellInPlace(endpoint: Endpoint): EventTeller {
  return gathering(endpoint, 'events', () => {
    const values: SessionEvent[] = [];
    return { values, add: (event) => void values.push(event) };
  });
}

/** What takes events, and what of them is sent. */
interface Form {
  add(event: SessionEvent): void;
  readonly values: readonly unknown[];
}

interface OpenNote {
  readonly form: Form;
  introduced: SessionIntroduction[] | undefined;
  size: number;
}

function gathering(endpoint: Endpoint, method: string, form: () => Form): EventTeller {
  let open: OpenNote | undefined;
  const opened = (): OpenNote => {
    const note: OpenNote = { form: form(), introduced: undefined, size: 0 };
    endpoint.notifyLate(method, () => {
      if (open === note) open = undefined;
      return { events: note.form.values, introduced: note.introduced };
    });
    return note;
  };
  return {
    events: (events) => {
      for (const event of events) {
        open ??= opened();
        open.form.add(event);
        open.size += 1;
        if (open.size >= EVENTS_OF_NOTE_MAX) open = undefined;
      }
    },
    introduced: (sessions) => {
      open ??= opened();
      open.introduced ??= [];
      open.introduced.push(...sessions);
    },
  };
}
