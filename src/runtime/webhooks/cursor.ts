/** The durable cursor of a webhook: how far its notices were delivered. It is a file in the store's directory. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { WEBHOOK_CURSOR_BYTES_MAX } from '../../base/bounds.ts';
import { systemCodeOf } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import { putFile } from '../../journal/store/durable-file.ts';
import type { SavedLane } from './delivery-queue.ts';

/** The contents of a cursor. All notices up to `positions` are delivered, except those of the sessions in `behind`. */
export interface WebhookCursor {
  /** Identifies the store and the webhook in the ids of deliveries. */
  readonly source: string;
  /** A position in the log of each shard. */
  readonly positions: readonly number[];
  readonly behind: readonly SavedLane[];
}

/** Keeps cursors. A simulator has its own. */
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
  behind: z
    .array(z.object({ shard: whole, session: z.string(), key: whole, delivered: whole, known: whole }))
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
