/** The findings of `troupe doctor check`. Pure over the data that was read. */
import { relative } from 'node:path';
import type { Finding, SalvageStore } from '../../journal/check/salvage-store.ts';
import { oneLine } from '../text-layout.ts';
import { foldedSessions } from './sessions.ts';

/** All damage of a store, and the number of folded sessions. Reads the whole store. */
export function checkStore(store: SalvageStore): { readonly findings: readonly Finding[]; readonly sessions: number } {
  const findings: Finding[] = [...store.findings, ...store.shards.flatMap((shard) => shard.findings)];
  let sessions = 0;
  for (const { id, shard, damage } of foldedSessions(store)) {
    sessions += 1;
    if (damage !== undefined) findings.push({ path: shard.path, session: id, ...damage });
  }
  return { findings, sessions };
}

/** A finding on one line. */
export function findingText({ path, reason, page, row, session }: Finding, directory: string): string {
  const place = [
    relative(directory, path) || '.',
    ...(session === undefined ? [] : [`session ${session}`]),
    ...(page === undefined || reason.includes(`page ${page}`) ? [] : [`page ${page}`]),
    ...(row === undefined || reason.includes(`row ${row}`) ? [] : [`row ${row}`]),
  ];
  return oneLine(`${place.join(', ')}: ${reason}`);
}
