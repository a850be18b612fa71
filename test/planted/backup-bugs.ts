/** Planted bugs of backups (I40): cursors that are newer than the shards, and a shard in another's place. */
import type { PlantedBug } from './planted-bug.ts';

const BACKUP = 'src/journal/store/backup.ts';

/** See the head of the file. */
export const backupBugs: readonly PlantedBug[] = [
  {
    name: 'backup-cursors-after-shards',
    what: 'the cursors of webhooks are copied last, so that they name notices that the backup lacks (B4)',
    file: BACKUP,
    find: 'return { cursors, shards };',
    replace: 'return { cursors: await copies.cursors().then((late) => late ?? cursors), shards };',
  },
  {
    name: 'backup-of-one-shard',
    what: 'the first shard is copied in place of each',
    file: 'src/runtime/handles/backup.ts',
    find: 'const link = links[shard];',
    replace: 'const link = links[shard > 0 ? 0 : shard];',
  },
];
