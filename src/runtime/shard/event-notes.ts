/**
 * Collects the events that a shard publishes in one tick into one note for the host. A note for each transition would
 * be too many notes: one flush may publish for hundreds of actors.
 *
 * Owns: the note that still accepts events. Does not own: which events are published and when; the endpoint. Belongs to
 * the shard's thread.
 *  V1 Events arrive in the order in which they were published. They arrive before everything that was sent after the
 *     first event of their note.
 *  V2 A note holds at most `EVENTS_OF_NOTE_MAX` events.
 *  V3 A session is introduced with its first events or before them.
 */
import { EVENTS_OF_NOTE_MAX } from '../../base/bounds.ts';
import type { PublishedEvent } from '../../events/event.ts';
import { EventPacking } from '../../events/packing/packing.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { SessionIntroduction } from '../protocol/protocol.ts';

/** Publishes the events of a shard to its host. */
export interface EventPublisher {
  events(events: readonly PublishedEvent[]): void;
  introduced(sessions: readonly SessionIntroduction[]): void;
}

/** Publishes to the host thread, with packed events. */
export function publishPacked(endpoint: Endpoint): EventPublisher {
  return notesOf(endpoint, 'events.packed', () => new EventPacking());
}

/** Publishes to a host on the same thread, without packing. */
export function publishInPlace(endpoint: Endpoint): EventPublisher {
  return notesOf(endpoint, 'events', () => {
    const values: PublishedEvent[] = [];
    return { values, add: (event) => void values.push(event) };
  });
}

/** Accepts events, and holds the values that are sent for them. */
interface Form {
  add(event: PublishedEvent): void;
  readonly values: readonly unknown[];
}

interface OpenNote {
  readonly form: Form;
  introduced: SessionIntroduction[] | undefined;
  size: number;
}

function notesOf(endpoint: Endpoint, method: string, form: () => Form): EventPublisher {
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
        // A note that begins with a delta is sent early, before the tick reads the remaining sockets.
        if (open.size === 0 && (event.type === 'text.delta' || event.type === 'thinking.delta')) endpoint.hasten();
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
