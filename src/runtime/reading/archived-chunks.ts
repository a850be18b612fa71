/**
 * Archives made by compressions, read from the log. The log keeps an archive's messages as they were when the archive
 * was made, until `retention` removes that part of the log.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { CancelledError } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import type { Journal } from '../../journal/journal.ts';
import { apply } from '../../session/apply/apply.ts';
import { inRanges } from '../../session/history/compression-plan.ts';
import { historyEntries } from '../../session/history/history-form.ts';
import { decodeTransition, type TransitionRecords } from '../../session/state/records.ts';
import type { ChunkInfo, CompressionResult } from '../protocol/protocol.ts';
import { plantFork } from './fork-reader.ts';
import { beginningOf } from './log-beginning.ts';

/** All archives of a session, oldest first. Reads the whole log. */
export function archivedChunks(journal: Journal, actor: SessionActor): readonly ChunkInfo[] {
  const chunks: ChunkInfo[] = [];
  // No archive was ever made, so the log need not be read.
  if ((actor.state.compression?.chunk ?? 0) === 0) return chunks;
  // An archive is not listed if the part of the log with its record was removed.
  for (const entry of journal.read(actor.key, 0)) {
    const { at, records } = decodeTransition(entry.data);
    for (const record of records) {
      if (record.type !== 'compacted' || record.chunk === undefined) continue;
      const { number, messageCount, topics } = record.chunk;
      const info = { session: actor.id, number, level: record.level, archivedAt: at, messageCount };
      chunks.push(topics === undefined ? info : { ...info, topics });
    }
  }
  return chunks;
}

/**
 * The messages of an archive, as they were when the archive was made; `undefined` if there is no such archive. Reads
 * the log up to the record of the archive.
 */
export function chunkMessages(
  journal: Journal,
  actor: SessionActor,
  number: number,
): readonly HistoryMessage[] | undefined {
  if (number > (actor.state.compression?.chunk ?? 0)) return undefined;
  const { state, position } = beginningOf(journal, actor.id, actor.key);
  let turns = position;
  for (const entry of journal.read(actor.key, 0)) {
    const turn: TransitionRecords = decodeTransition(entry.data);
    if (turns === 0) plantFork(journal, actor.key, state, turn);
    turns += 1;
    for (const record of turn.records) {
      if (record.type === 'compacted' && record.chunk?.number === number) {
        const isOf = inRanges(record.chunk.messages);
        return historyEntries(state).flatMap(({ seq, message }) => (isOf(seq) ? [message] : []));
      }
      if (record.type !== 'evicted') apply(state, record, turn.at);
    }
  }
  return undefined;
}

/** The result of a compression, or `undefined` while it runs. Throws `CancelledError` when the session is gone. */
export function compressionEnd(actor: SessionActor | undefined, halfStep: number): CompressionResult | undefined {
  if (actor === undefined) throw new CancelledError('the session was deleted');
  const { current, compression } = actor.state;
  if (current?.halfStep === halfStep && current.compaction !== undefined) return undefined;
  const last = compression?.last;
  if (last === undefined) return { compressed: false, reason: 'unknown' };
  const { halfStep: _halfStep, ...end } = last;
  return end;
}
