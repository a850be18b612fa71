/** Events for tests: short to write, of one session, at time 0. */
import type { SessionEvent } from '../../../src/events/event.ts';
import type { Replay } from '../../../src/events/reading/event-queue.ts';

/** A durable event. */
export function durable(seq: number, session = 's'): SessionEvent {
  return { session, at: 0, seq, type: 'session.name', name: `name ${seq}` };
}

/** An ephemeral piece of text. */
export function delta(text: string, turn = 't', session = 's'): SessionEvent {
  return { session, at: 0, type: 'text.delta', text, turn };
}

/** An ephemeral event that is never joined with another. */
export function progress(data: unknown, session = 's'): SessionEvent {
  return { session, at: 0, type: 'tool.progress', toolUseId: 'call', data };
}

/** Durable events `from` to `to`. */
export function durables(from: number, to: number): SessionEvent[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => durable(from + index));
}

/** Reads a log that is an array; the array may grow. */
export function replayOf(log: readonly SessionEvent[]): Replay {
  return async (fromSeq, limit) => log.filter((event) => (event.seq ?? 0) >= fromSeq).slice(0, limit);
}

/** An event as a short text: its number, `gap 3-5`, or its content. */
export function short(event: SessionEvent): string {
  if (event.type === 'gap') return `gap ${event.from}-${event.to}`;
  if (event.seq !== undefined) return String(event.seq);
  if (event.type === 'text.delta' || event.type === 'thinking.delta') return event.text;
  return event.type === 'tool.progress' ? String(event.data) : event.type;
}

/** The next `count` events as short texts; fewer if the iteration ends. */
export async function take(events: AsyncIterator<SessionEvent>, count: number): Promise<string[]> {
  const words: string[] = [];
  while (words.length < count) {
    const result = await events.next();
    if (result.done === true) break;
    words.push(short(result.value));
  }
  return words;
}

/** All events to the end of the iteration, as short texts. */
export async function takeAll(events: AsyncIterable<SessionEvent>): Promise<string[]> {
  const words: string[] = [];
  for await (const event of events) words.push(short(event));
  return words;
}

/** Runs all promises that are ready, and those that they settle. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
