/** The notes of a shard, as its host receives them. */
import { type ErrorShape, errorFromShape, type TroupeError } from '../../base/errors.ts';
import type { PublishedEvent } from '../../events/event.ts';
import type { PackedEvents } from '../../events/packing/packed-form.ts';
import { unpackEvents } from '../../events/packing/unpacking.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { NoticeNote } from '../protocol/notices.ts';
import type { EventsNote, LogLine, SaidNote } from '../protocol/protocol.ts';
import type { FollowedReceipts } from './followed-receipts.ts';
import type { LinkListener } from './link-parts.ts';
import type { ShardGuests } from './shard-guests.ts';

/** The receivers of the notes of one incarnation of a shard. */
export interface NoteReceivers {
  readonly listener: LinkListener;
  readonly receipts: FollowedReceipts;
  /** They receive events and messages after this host. */
  readonly guests: ShardGuests;
  readonly degraded: (error: TroupeError | undefined) => void;
}

/** Passes each note that arrives on `endpoint` to its receivers. */
export function listenToShard(endpoint: Pick<Endpoint, 'handle'>, receivers: NoteReceivers): void {
  const { listener, receipts, guests, degraded } = receivers;
  // A worker thread passes events packed; a shard on the host thread, or on another node, passes them as they are.
  endpoint.handle('events', (note) => takeEvents(note as EventsNote<readonly PublishedEvent[]>, receivers));
  endpoint.handle('events.packed', (note) => {
    const { introduced, events } = note as EventsNote<PackedEvents>;
    takeEvents({ introduced, events: unpackEvents(events) }, receivers);
  });
  endpoint.handle('receipt.settled', (note) => {
    const { follow, state } = note as { readonly follow: number; readonly state: ReceiptState | undefined };
    receipts.notify(follow, state);
  });
  endpoint.handle('history.said', (note) => {
    listener.said?.(note as SaidNote);
    guests.said(note as SaidNote);
  });
  endpoint.handle('noticed', (note) => listener.noticed?.(note as NoticeNote));
  endpoint.handle('log', (line) => listener.log(line as LogLine));
  endpoint.handle('degraded', (note) => {
    const { error } = note as { readonly error?: ErrorShape };
    guests.degraded(error);
    degraded(error === undefined ? undefined : errorFromShape(error));
  });
}

function takeEvents(
  { introduced, events }: EventsNote<readonly PublishedEvent[]>,
  { listener, guests }: Pick<NoteReceivers, 'listener' | 'guests'>,
): void {
  // Introductions come first, so that the sessions are known before their events.
  if (introduced !== undefined) listener.introduced?.(introduced);
  if (events.length === 0) return;
  listener.events(events);
  guests.events(events);
}
