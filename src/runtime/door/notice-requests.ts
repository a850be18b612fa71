/** Answers the methods `notices.…`, from the log: the notices that a follower on the host missed or could not hold. */
import { NOTICE_SCAN_SESSIONS, NOTICES_PAGE_BYTES_MAX, NOTICES_PAGE_MAX } from '../../base/bounds.ts';
import { StoreCorruptError } from '../../base/errors.ts';
import { shardOf } from '../../base/ids.ts';
import { charactersOfContent } from '../../events/reading/event-buffer.ts';
import type { SessionKey } from '../../journal/position.ts';
import { isWanted, type Notice } from '../../session/rules/notices.ts';
import type { NoticePageRequest, NoticeScan, NoticeScanRequest } from '../protocol/notices.ts';
import type { HandlersOf } from '../protocol/protocol.ts';
import { readNotices } from '../reading/notice-reader.ts';
import type { Shard } from '../shard/shard.ts';
import type { ShardDoor } from './shard-door.ts';

/** See the head of the file. */
export function noticeRequests(door: ShardDoor): HandlersOf<'notices'> {
  const { shard } = door;
  return {
    'notices.scan': (request) => door.readDurable(() => scan(shard, request)),
    'notices.page': (request) => door.readDurable(() => page(shard, request)),
  };
}

function scan(shard: Shard, { after, former = [], wish }: NoticeScanRequest): NoticeScan {
  const { journal, isolated } = shard.parts;
  const { opened } = shard.notices;
  if (after === undefined) return { found: [], end: opened, isLast: false, opened };
  const { keys, end } = journal.tailPage(after, NOTICE_SCAN_SESSIONS);
  const found: NoticeScan['found'][number][] = [];
  for (const key of keys) {
    const session = journal.nameOf(key);
    // A session that needs more memory than its thread has must not be read.
    if (session === undefined || isolated.errorOf(key, session) !== undefined) continue;
    const known = Math.max(after, ...former.map((positions) => positions[shardOf(session, positions.length)] ?? 0));
    try {
      // Most sessions that were moved from another layout have nothing after it, and need not be folded.
      if (known > after && isEmpty(journal.read(key, known))) continue;
      let range: { readonly first: number; readonly last: number } | undefined;
      for (const { notice, position } of noticesOf(shard, session, key, (position) => position <= known)) {
        if (position > end) break;
        if (position > known && isWanted(notice, wish)) range = { first: range?.first ?? notice.seq, last: notice.seq };
      }
      if (range !== undefined) found.push({ session, key, origin: journal.originOf(key), ...range });
    } catch (error) {
      // The damage is reported when the session is loaded. The other sessions are still scanned.
      if (!(error instanceof StoreCorruptError)) throw error;
    }
  }
  return { found, end, isLast: end >= journal.end(), opened };
}

function isEmpty(entries: Iterable<unknown>): boolean {
  for (const _entry of entries) return false;
  return true;
}

function page(shard: Shard, { session, key, after, until, wish }: NoticePageRequest): readonly Notice[] {
  const isolation = shard.parts.isolated.errorOf(key, session);
  if (isolation !== undefined) throw isolation;
  // The id may belong to another session by now.
  if (shard.parts.journal.keyOf(session) !== key) return [];
  const notices: Notice[] = [];
  let bytes = 0;
  for (const { notice } of noticesOf(shard, session, key, (_position, seq) => seq <= after)) {
    if (notice.seq > until || notices.length >= NOTICES_PAGE_MAX || bytes > NOTICES_PAGE_BYTES_MAX) break;
    if (notice.seq <= after || !isWanted(notice, wish)) continue;
    bytes += charactersOfContent(notice.data);
    notices.push(notice);
  }
  return notices;
}

function noticesOf(
  shard: Shard,
  session: string,
  key: SessionKey,
  isKnown: (position: number, seq: number) => boolean,
): ReturnType<typeof readNotices> {
  const expiresMs = shard.approvalsMs.bind(shard);
  return readNotices({ journal: shard.parts.journal, session, key, expiresMs, isKnown });
}
