/**
 * Reads a store for `troupe doctor`: every shard with all its rows, however damaged. It does not take the store's lock
 * and writes nothing into its directory. It refuses while a living process has the store, and notices when a process
 * opens the store during the read.
 *
 * Owns: the open data files. Reads block the thread.
 *
 * Invariants:
 *  V1 an entry is returned only if its checksum is right. The checksums and back pointers of all earlier entries of its
 *     session must be right, too.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { SHARDS_MAX } from '../../base/bounds.ts';
import { asError, StoreCorruptError, StoreLockedError, TroupeError } from '../../base/errors.ts';
import type { StoreEncryption } from '../encryption/master-keys.ts';
import type { Vault } from '../encryption/vault.ts';
import { PageFile } from '../lmdb/pages.ts';
import { DATA_FILE } from '../lmdb/tables.ts';
import type { LogStart, SessionKey, StoredEntry } from '../position.ts';
import { withMedia } from '../rows/media-text.ts';
import { decodeRow, positionOf, type RowEntry, rowOf, rowSessions, sliceRow } from '../rows/row-codec.ts';
import { unpackRow, unpackTable } from '../rows/row-packing.ts';
import { refuseIfOwned } from '../store/lock.ts';
import { readSettledManifest, type StoreManifest, shardDirectory } from '../store/manifest.ts';
import { fittingKeys, type GivenKeys } from '../store/store-key.ts';
import type { AuditRow } from '../stored-audit.ts';
import { gatherIndex, type SalvageIndex } from './salvage-index.ts';
import { auditText, blobText, headData, mediumBytes, salvageVault, sealedDamage } from './salvage-keys.ts';

/** A fault in the store, with its location if that is known. */
export interface Finding {
  readonly path: string;
  readonly reason: string;
  readonly page?: number;
  readonly row?: number;
  readonly session?: string;
}

/** A row of a session, and the session's previous row as recorded in it (0: none). */
interface Link {
  readonly row: number;
  readonly previousRow: number;
}

/** One shard of a store that is being read. */
export class SalvageShard {
  readonly path: string;
  readonly contents: SalvageIndex;
  readonly findings: Finding[] = [];
  /** Transitions in all rows that can be read. */
  turns = 0;
  readonly #file: PageFile;
  readonly #links = new Map<SessionKey, Link[]>();
  readonly #vault: Vault | undefined;

  /** `keys`: missing if the store is not encrypted, or is checked without decrypting anything. */
  constructor(path: string, keys?: StoreEncryption) {
    this.path = path;
    this.#file = new PageFile(path);
    this.contents = gatherIndex(this.#file);
    this.#vault = salvageVault(this.contents.index, keys);
    for (const each of this.contents.damage) this.findings.push({ path, ...each });
    this.#readRows();
    for (const address of this.contents.index.wrongBlobs(this.#file)) {
      this.findings.push({ path, reason: `the blob ${address} is damaged` });
    }
    this.#checkMedia();
  }

  /** Bytes of the shard's data file. */
  get bytes(): number {
    return this.#file.size;
  }

  /** Names with their keys, ascending. */
  sessions(): readonly (readonly [string, SessionKey])[] {
    const { names, keys } = this.contents.index;
    // A session is known if it is in one of the two tables.
    const all = new Map<string, SessionKey>([...keys].map(([key, name]) => [name, key]));
    for (const [name, key] of names) if (!all.has(name)) all.set(name, key);
    return [...all].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /**
   * The entries of a session, oldest first, up to the first damage. The damage is thrown as `StoreCorruptError` (V1).
   */
  *entries(key: SessionKey): Iterable<StoredEntry> {
    // Rows up to `first` belong to the removed part of the log. Some of them may still be there.
    const first = rowOf(this.contents.index.starts.get(key)?.position ?? 0);
    let before = first;
    for (const { row, previousRow } of this.#links.get(key) ?? []) {
      if (row <= first) continue;
      if (previousRow !== before && (before > first || previousRow > first))
        throw this.#corrupt(row, `row ${previousRow}, which comes before row ${row}, is lost`);
      for (const { turn, data } of sliceRow(unpackRow(this.#row(row), row), row, key, this.#vault?.reveal)?.entries ??
        []) {
        yield { key, position: positionOf(row, turn), data: this.#filled(data) };
      }
      before = row;
    }
    const { lastRows, heads } = this.contents.index;
    const last = Math.max(lastRows.get(key) ?? 0, Math.floor((heads.get(key)?.position ?? 0) / positionOf(1, 0)));
    if (last > before) throw this.#corrupt(last, `row ${last}, the last of the session, is lost`);
  }

  /**
   * A blob's text; undefined when the blob is missing, or does not match its address. Throws `StoreCorruptError` when a
   * medium of the text cannot be read.
   */
  blob(address: string): string | undefined {
    const stored = blobText(this.contents.index, this.#file, address, this.#vault);
    return stored === undefined ? undefined : this.#filled(stored);
  }

  /** A head's text; undefined when the session has none. Throws `StoreCorruptError` when it cannot be decrypted. */
  head(key: SessionKey): string | undefined {
    return headData(this.contents.index, key, this.#vault);
  }

  /** The beginning of a session's log, for a reader of `blob`; undefined if nothing of it was removed. */
  startOf(key: SessionKey): LogStart | undefined {
    const start = this.contents.index.starts.get(key);
    return start === undefined || this.#vault === undefined ? start : this.#vault.start(start);
  }

  /** Rows of the audit log as JSON texts, with their numbers, ascending. A damaged row is left out; see `findings`. */
  *audit(): Iterable<AuditRow> {
    const { index } = this.contents;
    for (const number of [...index.audit.keys()].sort((a, b) => a - b)) {
      const text = auditText(index, this.#file, number, this.#vault);
      if (text !== undefined) yield { number, text };
    }
  }

  close(): void {
    this.#file.close();
  }

  #filled(stored: string): string {
    const { index } = this.contents;
    return withMedia(stored, (address) => mediumBytes(index, this.#file, address, this.#vault).toString('base64'));
  }

  #checkMedia(): void {
    if (this.#vault !== undefined) {
      for (const reason of sealedDamage(this.contents.index, this.#file, this.#vault)) {
        this.findings.push({ path: this.path, reason });
      }
    }
    // The address of an encrypted medium is not a hash of its contents, so the loop below cannot check it.
    if (this.contents.index.dataKeys.size > 0) return;
    for (const address of this.contents.index.media.keys()) {
      try {
        this.contents.index.medium(this.#file, address);
      } catch (error) {
        if (!(error instanceof StoreCorruptError)) throw error;
        this.findings.push({ path: this.path, reason: String(error.data['reason']) });
      }
    }
  }

  #readRows(): void {
    for (const row of [...this.contents.index.rows.keys()].sort((a, b) => a - b)) {
      try {
        const stored = this.#row(row);
        for (const [key, previousRow] of rowSessions(unpackTable(stored, row), row))
          this.#link(key, { row, previousRow });
        this.#countTurns(decodeRow(unpackRow(stored, row), row, this.#vault?.reveal));
      } catch (error) {
        const reason = error instanceof TroupeError ? error.data['reason'] : undefined;
        this.findings.push({ path: this.path, reason: String(reason ?? asError(error).message), row });
      }
    }
  }

  #countTurns(entries: readonly RowEntry[]): void {
    this.turns += new Set(entries.map(({ turn }) => turn)).size;
  }

  #link(key: SessionKey, link: Link): void {
    const links = this.#links.get(key);
    if (links === undefined) this.#links.set(key, [link]);
    else if (links.at(-1)?.row !== link.row) links.push(link);
  }

  #row(row: number): Buffer {
    const place = this.contents.index.rows.get(row);
    if (place === undefined) throw this.#corrupt(row, `row ${row} is lost`);
    return this.#file.bytes(place.offset, place.length);
  }

  #corrupt(row: number, reason: string): StoreCorruptError {
    return new StoreCorruptError(reason, { data: { path: this.path, row, reason } });
  }
}

/** A store opened for reading. */
export interface SalvageStore {
  readonly shards: readonly SalvageShard[];
  /** Faults outside the shards' own files. */
  readonly findings: readonly Finding[];
  /** True if the store is encrypted. Without its keys only `findings` of shards are known. */
  readonly isEncrypted: boolean;
  /** Rejects with `StoreLockedError` when a process has the store open, or wrote to it after `openSalvage`. */
  checkUnchanged(): Promise<void>;
  close(): void;
}

/**
 * Opens a store for inspection. Rejects with `StoreKeyError` for keys that do not fit, and with `StoreLockedError`
 * while a process has the store open. Rejects with `StoreVersionError` for a newer format, and with the system's error.
 * A damaged store is opened too; `findings` lists the damage.
 */
export async function openSalvage(directory: string, keys?: GivenKeys): Promise<SalvageStore> {
  await refuseIfOwned(directory);
  const findings: Finding[] = [];
  const manifest = await manifestOf(directory, findings);
  const fitting = keysFor(directory, manifest, keys);
  const shards: SalvageShard[] = [];
  const times = new Map<string, number>();
  for (let shard = 0; shard < (manifest?.shards ?? SHARDS_MAX); shard += 1) {
    const path = join(shardDirectory(directory, shard), DATA_FILE);
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) continue;
    times.set(path, found.mtimeMs);
    shards.push(new SalvageShard(path, fitting));
  }
  return {
    shards,
    findings,
    isEncrypted: manifest?.encryption !== undefined || shards.some(({ contents }) => contents.index.dataKeys.size > 0),
    async checkUnchanged() {
      await refuseIfOwned(directory);
      for (const [path, time] of times) {
        if ((await stat(path)).mtimeMs === time) continue;
        throw new StoreLockedError(`the store ${directory} was written while it was read`, { data: { path } });
      }
    },
    close: () => {
      for (const shard of shards) shard.close();
    },
  };
}

/**
 * Chooses the keys for a store. A manifest that cannot be read does not say which key is right, so all given keys are
 * tried.
 */
function keysFor(
  directory: string,
  manifest: StoreManifest | undefined,
  keys: GivenKeys | undefined,
): StoreEncryption | undefined {
  if (keys === undefined) return undefined;
  if (manifest === undefined) return { ...keys, isRotating: true, isAnyStore: true };
  return fittingKeys(directory, manifest.encryption, keys);
}

async function manifestOf(directory: string, findings: Finding[]): Promise<StoreManifest | undefined> {
  try {
    return await readSettledManifest(directory);
  } catch (error) {
    if (!(error instanceof StoreCorruptError)) throw error;
    const { path, reason } = error.data;
    findings.push({ path: String(path), reason: String(reason) });
    return undefined;
  }
}
