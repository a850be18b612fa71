/** The durable cursor of a webhook: how far its notices were delivered. It is a file in the store's directory. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { WEBHOOK_CURSOR_BYTES_MAX } from '../../base/bounds.ts';
import { systemCodeOf } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import type { MovedSessions } from '../../journal/layout/move-sessions.ts';
import { putFile } from '../../journal/store/durable-file.ts';
import type { SavedLane } from './delivery-queue.ts';

/** The contents of a cursor. All notices up to `positions` are delivered, except those of sessions in `behind`. */
export interface WebhookCursor {
  /** Identifies the store and the webhook in the ids of deliveries. */
  readonly source: string;
  /** A position in the log of each shard. */
  readonly positions: readonly number[];
  /**
   * Positions in earlier layouts of the store. They may be after `positions`. There is one list for each layout, with a
   * position for each shard of that layout. A session's notices are also delivered up to the position of the shard that
   * the session had in that layout.
   */
  readonly former?: readonly (readonly number[])[] | undefined;
  readonly behind: readonly SavedLane[];
}

/** Keeps cursors. A simulator replaces the files. */
export interface CursorStore {
  /** The text of a cursor; undefined if there is none. */
  load(name: string): Promise<string | undefined>;
  /** Resolves when the text is durable. */
  save(name: string, text: string): Promise<void>;
}

const FORMAT = 1;
const whole = z.number().int().min(0);
const schema = z.object({
  v: z.literal(FORMAT),
  source: z.string(),
  positions: z.array(z.number()).readonly(),
  former: z.array(z.array(z.number()).readonly()).readonly().optional(),
  behind: z
    .array(
      z.object({
        shard: whole,
        session: z.string(),
        key: whole,
        origin: z.string().optional(),
        delivered: whole,
        known: whole,
      }),
    )
    .readonly(),
});

/** The name of a webhook's cursor. It follows from the address alone, so a change of other options keeps the cursor. */
export function cursorName(url: URL): string {
  return createHash('sha256').update(url.href).digest('hex').slice(0, 16);
}

export function encodeCursor(cursor: WebhookCursor): string {
  return JSON.stringify({ v: FORMAT, ...cursor });
}

/** The cursor in a text; undefined for a text that is not a cursor. */
export function decodeCursor(text: string | undefined): WebhookCursor | undefined {
  if (text === undefined) return undefined;
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/**
 * The text of a cursor for a store whose sessions were moved to `shards` shards. With the new text, no notice is
 * skipped, and no notice that the old cursor counts as delivered is delivered again. A text that is not a cursor is
 * returned unchanged.
 */
export function movedCursor(text: string, shards: number, moved: MovedSessions): string {
  const cursor = decodeCursor(text);
  // The cursor is of a layout that is not the old one, so it cannot be used. `Webhook.open` reports that.
  if (cursor === undefined || cursor.positions.length !== moved.ends.length) return text;
  // While a store refused writes, the cursor may have passed the end of the log. Later transitions get these positions.
  const former = cursor.positions.map((position, shard) => Math.min(position, moved.ends[shard] ?? 0));
  return encodeCursor({
    ...cursor,
    positions: Array.from({ length: shards }, () => Math.min(...former)),
    former: [...(cursor.former ?? []), former],
    behind: cursor.behind.flatMap((lane) => {
      const place = moved.find(lane.shard, lane.key);
      return place === undefined ? [] : { ...lane, shard: place.shard, key: place.key, origin: place.origin };
    }),
  });
}

/** Cursors as files in a directory of the store. */
export function cursorFiles(directory: string): CursorStore {
  const pathOf = (name: string): string => join(directory, 'webhooks', `${name}.json`);
  return {
    async load(name) {
      try {
        const path = pathOf(name);
        return (await stat(path)).size > WEBHOOK_CURSOR_BYTES_MAX ? '' : await readFile(path, 'utf8');
      } catch (error) {
        if (systemCodeOf(error) === 'ENOENT') return undefined;
        throw error;
      }
    },
    async save(name, text) {
      const path = pathOf(name);
      await mkdir(dirname(path), { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
      await putFile(path, text, `.${randomUUID()}.new`);
    },
  };
}
