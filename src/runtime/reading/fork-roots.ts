/**
 * Runs before a log that forks share, or its older part, is removed: the beginning of each fork is stored separately
 * (K5). One pass over the log finds all beginnings. Each fork has a separate stored text, which is removed with the
 * fork.
 */
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import { forkSeed } from '../../session/history/fork-seed.ts';
import { decodeTransition } from '../../session/state/records.ts';
import type { ForkOrigin, SessionState } from '../../session/state/state.ts';
import { encodeSeed, forksOf } from './fork-reader.ts';
import { decodeHead } from './head.ts';
import { decodeBase } from './log-beginning.ts';

/** A fork with the address of its beginning. */
export interface ForkRoot {
  readonly name: string;
  readonly key: SessionKey;
  readonly base: string;
}

/**
 * Stores the beginnings of this session's forks that still exist, unless they are stored already. Returns all these
 * forks with the addresses of their beginnings. Throws `Error` or `StoreCorruptError` when the session's log cannot be
 * read.
 */
export function storeRoots(journal: Journal, state: SessionState, key: SessionKey): readonly ForkRoot[] {
  const roots: ForkRoot[] = [];
  const wanted = new Map(forksThere(journal, state));
  for (const [fork, { name, key: forkKey }] of wanted) {
    const base = baseOf(journal, forkKey);
    if (base === undefined) continue;
    // The fork's beginning was stored when the older part of this log was removed, or the fork was moved.
    roots.push({ name, key: forkKey, base });
    wanted.delete(fork);
  }
  if (wanted.size === 0) return roots;
  let found = 0;
  let last: { readonly text: string; readonly place: string } | undefined;
  for (const { marker, state: then, turns } of forksOf(journal, state.id, key, Math.min(...wanted.keys()))) {
    const fork = wanted.get(marker.fork);
    if (fork === undefined) continue;
    const { name, at } = fork;
    // A marker is a separate transition that changes only what a session knows of its forks. So forks with directly
    // adjacent markers have the same beginning.
    const place = `${turns - then.nextFork}/${then.eventSeq}/${then.epoch}/${at ?? ''}`;
    if (last?.place !== place) last = { place, text: encodeSeed(forkSeed(then, at)) };
    roots.push({ name, key: fork.key, base: journal.putBlob(last.text, fork.key) });
    found += 1;
    if (found === wanted.size) break;
  }
  return roots;
}

/**
 * The forks that depend on this session's log, by number. Each fork is verified, because its id may belong to another
 * session by now.
 */
function forksThere(
  journal: Journal,
  state: SessionState,
): ReadonlyMap<number, { readonly name: string; readonly key: SessionKey; readonly at: number | undefined }> {
  const found = new Map<number, { readonly name: string; readonly key: SessionKey; readonly at: number | undefined }>();
  for (const name of new Set(state.forks)) {
    const key = journal.keyOf(name);
    const origin = key === undefined ? undefined : originOf(journal, key);
    if (key === undefined || origin?.fork === undefined) continue;
    if (origin.session !== state.id || origin.createdAt !== state.createdAt) continue;
    found.set(origin.fork, { name, key, at: origin.at });
  }
  return found;
}

/** The address of a fork's beginning, if the beginning is stored separately. */
function baseOf(journal: Journal, key: SessionKey): string | undefined {
  const head = journal.head(key);
  return head === undefined ? undefined : decodeHead(head.data).base;
}

/** The origin that a session's first record names. */
function originOf(journal: Journal, key: SessionKey): ForkOrigin | undefined {
  const start = journal.starts.of(key);
  if (start !== undefined) return decodeBase(journal.blob(start.base) ?? '').origin;
  for (const { data } of journal.read(key, 0)) {
    const [first] = decodeTransition(data).records;
    return first?.type === 'forked' ? first.origin : undefined;
  }
  return undefined;
}
