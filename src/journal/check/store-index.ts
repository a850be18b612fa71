/**
 * The contents of the tables of an environment (the LMDB file of one shard), collected by a walk over its pages.
 * `StoreIndex` also finds where the tables contradict each other. For rows, blobs and media only the location in the
 * file is kept. Texts of the other tables carry a seal, which is a checksum (`rows/sealed-text.ts`).
 */

import { isSealed } from '../encryption/data-key.ts';
import { integerOf, type LeafNode, PageDamage, type PageFile, type PageTree } from '../lmdb/pages.ts';
import { isTableName, STORE_FORMAT, TABLE_FLAGS, TABLE_SINCE } from '../lmdb/tables.ts';
import type { Erasure, LogStart } from '../position.ts';
import { corruptMedium, isMediumOf, ownerOfMedium } from '../rows/media-text.ts';
import { parseResultAddress } from '../rows/result-address.ts';
import { checkRow } from '../rows/row-codec.ts';
import { unpackRow } from '../rows/row-packing.ts';
import { unsealText } from '../rows/sealed-text.ts';
import { decodeBlob, isBlobOf } from '../rows/stored-text.ts';

/** Bytes of the version number that lmdb stores before each value of the table `meta`. */
const VERSION_BYTES = 8;
const HEAD_LINE = /^1 (\d+) ([01])$/;
const ADDRESS = /^(?:\d{1,10}\/)?[0-9a-f]{64}$/;
/** One of the earlier parts in a note about a removed session or part. */
const EARLIER = /after (\d+) (\d+) /g;
/** The whole note, see `erasureText`. */
const ERASURE = /^(part )?((?:after \d{1,16} \d{1,16} )*)(\d{1,16}) ((?:\d{1,10},?)*) ([\x21-\x7e]+)$/;
/**
 * The first nibble of a key of the table `log`, as lmdb writes it. The bits of a double follow it, without trailing
 * zeros.
 */
const ROW_KEY_PREFIX = 0x10;
const ROW_KEY_BYTES_MIN = 4;
const ROW_KEY_BYTES_MAX = 9;

/** A range of bytes in a file. */
export interface FilePlace {
  readonly offset: number;
  readonly length: number;
}

/** A head as it is stored. */
export interface StoredHead {
  readonly position: number;
  readonly runnable: boolean;
  readonly data: string;
}

/** See the head of the file. */
export class StoreIndex {
  readonly names: Map<string, number> = new Map();
  readonly keys: Map<number, string> = new Map();
  readonly heads: Map<number, StoredHead> = new Map();
  readonly lastRows: Map<number, number> = new Map();
  readonly runnable: Set<number> = new Set();
  readonly rows: Map<number, FilePlace> = new Map();
  readonly blobs: Map<string, FilePlace> = new Map();
  readonly media: Map<string, FilePlace> = new Map();
  /** Keys of the sessions that have a draft. */
  readonly drafts: Set<number> = new Set();
  readonly erasures: Map<number, Erasure> = new Map();
  /** Wrapped data keys; none in a store that is not encrypted. */
  readonly dataKeys: Map<number, string> = new Map();
  readonly starts: Map<number, LogStart> = new Map();
  readonly origins: Map<number, string> = new Map();
  /** Rows of the audit log by number. */
  readonly audit: Map<number, FilePlace> = new Map();
  /** Entries whose seal or form is wrong. */
  readonly damaged: PageDamage[] = [];
  /** Texts of the table `meta`. */
  readonly records: Map<string, string> = new Map();
  /** The format record, sealed or not; undefined when there was none. */
  format: number | undefined;
  nextKey = 1;
  checkpoint: { readonly upTo: number; readonly indexedRow: number } = { upTo: 0, indexedRow: 0 };
  #hasFence = false;

  /** Adds an entry. Damage is not thrown, but added to `damaged`. */
  add(file: PageFile, tree: PageTree, node: LeafNode): void {
    try {
      this.#add(file, tree, node);
    } catch (error) {
      if (!(error instanceof PageDamage)) throw error;
      this.damaged.push(error);
    }
  }

  /** Takes over the entries that another index has and this index lacks. */
  addMissing(other: StoreIndex): void {
    addMissing(this.names, other.names);
    addMissing(this.keys, other.keys);
    addMissing(this.heads, other.heads);
    addMissing(this.lastRows, other.lastRows);
    addMissing(this.rows, other.rows);
    addMissing(this.blobs, other.blobs);
    addMissing(this.media, other.media);
    addMissing(this.dataKeys, other.dataKeys);
    addMissing(this.starts, other.starts);
    addMissing(this.origins, other.origins);
    addMissing(this.audit, other.audit);
  }

  /** A blob's text as it is stored; undefined when the address has none, or the text does not match the address. */
  blob(file: PageFile, address: string): string | undefined {
    const place = this.blobs.get(address);
    if (place === undefined) return undefined;
    const text = decodeBlob(file.bytes(place.offset, place.length));
    return text !== undefined && isBlobOf(address, text) ? text : undefined;
  }

  /** A row of the audit log as it is stored; undefined when the number has none. */
  auditRow(file: PageFile, number: number): string | undefined {
    const place = this.audit.get(number);
    return place && unsealText('audit', number, file.bytes(place.offset, place.length).toString('utf8'));
  }

  /**
   * Addresses of the blobs whose contents do not match the address. Encrypted blobs are checked when they are
   * decrypted.
   */
  *wrongBlobs(file: PageFile): Iterable<string> {
    for (const [address, { offset, length }] of this.blobs) {
      if (isSealed(file.bytes(offset, Math.min(length, 1)))) continue;
      if (this.blob(file, address) === undefined) yield address;
    }
  }

  /** Checks the contents of the rows, blobs and media that were added. Throws `PageDamage` and `StoreCorruptError`. */
  checkContents(file: PageFile): void {
    for (const [row, { offset, length }] of this.rows) checkRow(unpackRow(file.bytes(offset, length), row), row);
    for (const address of this.wrongBlobs(file)) throw new PageDamage(`the blob ${address} is damaged`);
    for (const [address, { offset, length }] of this.media) {
      if (!isSealed(file.bytes(offset, Math.min(length, 1)))) this.medium(file, address);
    }
  }

  /** Forgets all entries. The records of the table `meta` and the damage that was found stay. */
  forget(): void {
    const { names, keys, heads, lastRows, rows, blobs, media, erasures, dataKeys, starts, origins, audit } = this;
    for (const table of [
      names,
      keys,
      heads,
      lastRows,
      rows,
      blobs,
      media,
      erasures,
      dataKeys,
      starts,
      origins,
      audit,
    ]) {
      table.clear();
    }
    this.runnable.clear();
    this.drafts.clear();
  }

  /** A medium's bytes; throws `StoreCorruptError` when the address has none, or the bytes do not match the address. */
  medium(file: PageFile, address: string): Buffer {
    const place = this.media.get(address);
    const bytes = place === undefined ? undefined : file.bytes(place.offset, place.length);
    if (bytes === undefined || !isMediumOf(address, bytes)) throw corruptMedium(address, bytes !== undefined);
    return bytes;
  }

  /** Contradictions between the tables; none in an undamaged store. Call it after all entries were added. */
  *disagreements(): Iterable<string> {
    if (!this.#hasFence) yield 'the record "fence" is missing';
    for (const [name, key] of this.names) {
      if (this.keys.get(key) !== name)
        yield `the session ${JSON.stringify(name)} has the key ${key}, which belongs to another session`;
      if (key >= this.nextKey) yield `the session ${JSON.stringify(name)} has a key that was never assigned`;
    }
    for (const [key, name] of this.keys) {
      if (!this.names.has(name)) yield `the session ${JSON.stringify(name)} is not in the list of names`;
      const isRunnable = this.heads.get(key)?.runnable === true;
      if (isRunnable !== this.runnable.has(key))
        yield `the set of runnable sessions is wrong for ${JSON.stringify(name)}`;
    }
    for (const [what, keys] of [
      ['head', this.heads.keys()],
      ['mark as runnable', this.runnable],
      ['draft', this.drafts],
    ] as const) {
      for (const key of keys) if (!this.keys.has(key)) yield `a ${what} belongs to no session (key ${key})`;
    }
    for (const key of this.origins.keys()) {
      if (!this.keys.has(key) && !this.erasures.has(key)) yield `a name of results belongs to no session (key ${key})`;
    }
    for (const [key, { base }] of this.starts) {
      if (!this.keys.has(key)) yield `a beginning belongs to no session (key ${key})`;
      if (!this.blobs.has(base)) yield `the beginning of the session with key ${key} is lost`;
    }
    for (const [key, { row, keeps }] of this.erasures) {
      if (keeps !== true && this.keys.has(key)) yield `a session is noted as removed, and is there (key ${key})`;
      if (row > 0 && !this.rows.has(row)) yield `a note about a removed session leads to row ${row}, which is lost`;
    }
  }

  #add(file: PageFile, tree: PageTree, node: LeafNode): void {
    const { name } = tree;
    if (!isTableName(name)) return;
    switch (name) {
      case 'log':
        this.rows.set(rowNumber(node), node);
        return;
      case 'blobs':
        this.blobs.set(address(node), node);
        return;
      case 'media':
        this.media.set(mediumKey(node), node);
        return;
      case 'meta':
        this.#addMeta(file, node);
        return;
      case 'names':
        this.names.set(textKey(node), wholeNumber(sealed(file, name, textKey(node), node)));
        return;
      case 'keys':
        this.keys.set(keyNumber(node), sealed(file, name, keyNumber(node), node));
        return;
      case 'heads':
        this.heads.set(keyNumber(node), parseHead(sealed(file, name, keyNumber(node), node)));
        return;
      case 'lastRows':
        this.lastRows.set(keyNumber(node), wholeNumber(sealed(file, name, keyNumber(node), node)));
        return;
      case 'drafts':
        sealed(file, name, keyNumber(node), node);
        this.drafts.add(keyNumber(node));
        return;
      case 'erasures':
        this.erasures.set(keyNumber(node), parseErasure(sealed(file, name, keyNumber(node), node)));
        return;
      case 'dataKeys':
        this.dataKeys.set(keyNumber(node), sealed(file, name, keyNumber(node), node));
        return;
      case 'starts':
        this.starts.set(keyNumber(node), parseStart(sealed(file, name, keyNumber(node), node)));
        return;
      case 'audit':
        // No other table refers to a row of the audit log. So only the row's seal and its number are checked.
        sealed(file, name, rowNumber(node), node);
        this.audit.set(rowNumber(node), node);
        return;
      case 'origins':
        this.origins.set(keyNumber(node), sealed(file, name, keyNumber(node), node));
        return;
      case 'runnable':
        sealed(file, name, keyNumber(node), node);
        this.runnable.add(keyNumber(node));
    }
  }

  #addMeta(file: PageFile, node: LeafNode): void {
    const key = textKey(node);
    if (node.length < VERSION_BYTES) throw new PageDamage(`the record ${JSON.stringify(key)} is damaged`);
    const bytes = file.bytes(node.offset, node.length);
    const stored = bytes.toString('utf8', VERSION_BYTES);
    // A newer version of this library may seal the format record in another way, or not at all.
    const text = unsealText('meta', key, stored);
    if (key === 'format') this.format = text === undefined ? newerFormat(stored) : wholeNumber(text);
    if (text === undefined) throw new PageDamage(`the record ${JSON.stringify(key)} is damaged`);
    this.records.set(key, text);
    if (key === 'fence') {
      this.#hasFence = true;
      if (bytes.readDoubleLE(0) !== wholeNumber(text)) throw new PageDamage('the record "fence" is damaged');
    } else if (key === 'nextKey') {
      this.nextKey = wholeNumber(text);
    } else if (key === 'checkpoint') {
      this.checkpoint = parseCheckpoint(text) ?? this.checkpoint;
    }
  }
}

function addMissing<Key, Value>(to: Map<Key, Value>, from: ReadonlyMap<Key, Value>): void {
  for (const [key, value] of from) if (!to.has(key)) to.set(key, value);
}

/** Parses the checkpoint record; undefined when the text is not one. */
export function parseCheckpoint(text: string): { readonly upTo: number; readonly indexedRow: number } | undefined {
  const [, upTo, indexedRow] = /^(\d{1,16}) (\d{1,16})$/.exec(text) ?? [];
  return upTo === undefined ? undefined : { upTo: Number(upTo), indexedRow: Number(indexedRow) };
}

/** The text of a note about a removed session or about the removed part of a log, before it is sealed. */
export function erasureText({ row, heirs, name, keeps, earlier }: Erasure): string {
  const parts = (earlier ?? []).map((part) => `after ${part.row} ${part.left} `).join('');
  return `${keeps === true ? 'part ' : ''}${parts}${row} ${heirs.join(',')} ${name}`;
}

/** Parses a text that `erasureText` made. Throws `PageDamage`. */
export function parseErasure(text: string): Erasure {
  const [, keeps, parts = '', row, heirs, name] = ERASURE.exec(text) ?? [];
  if (row === undefined || heirs === undefined || name === undefined)
    throw new PageDamage('a note about a removed session is damaged');
  return {
    row: Number(row),
    heirs: heirs === '' ? [] : heirs.split(',').map(Number),
    name,
    ...(keeps === undefined ? {} : { keeps: true }),
    ...(parts === '' ? {} : { earlier: Array.from(parts.matchAll(EARLIER), (part) => earlierPart(part)) }),
  };
}

function earlierPart([, row, left]: RegExpExecArray): { readonly row: number; readonly left: number } {
  return { row: Number(row), left: Number(left) };
}

/** The text of the beginning of a log, before it is sealed. */
export function startText({ position, base }: LogStart): string {
  return `${position} ${base}`;
}

/** Parses a text that `startText` made. Throws `PageDamage`. */
export function parseStart(text: string): LogStart {
  const [, position, base = ''] = /^(\d{1,16}) (\S+)$/.exec(text) ?? [];
  if (position === undefined || !ADDRESS.test(base)) throw new PageDamage('the beginning of a log is damaged');
  return { position: Number(position), base };
}

/** A head's text, before it is sealed. */
export function headText(head: StoredHead): string {
  return `1 ${head.position} ${head.runnable ? 1 : 0}\n${head.data}`;
}

/** Parses a head. Throws `PageDamage`. */
export function parseHead(text: string): StoredHead {
  const end = text.indexOf('\n');
  const [, position, runnable] = HEAD_LINE.exec(text.slice(0, end)) ?? [];
  if (position === undefined) throw new PageDamage('a head is damaged');
  return { position: Number(position), runnable: runnable === '1', data: text.slice(end + 1) };
}

/**
 * Tables that are missing, or have other flags than this library gives them; none in an undamaged store. `format`: the
 * format of the store; undefined if it is unknown.
 */
export function* wrongTables(tables: readonly PageTree[], format: number | undefined): Iterable<string> {
  const names = new Set(tables.map(({ name }) => name));
  for (const name of Object.keys(TABLE_FLAGS).filter(isTableName)) {
    // Opening a store of an older format creates this table.
    if (format !== undefined && format < (TABLE_SINCE[name] ?? 0)) continue;
    if (!names.has(name)) yield `the table ${JSON.stringify(name)} is missing`;
  }
  for (const { name, flags } of tables) {
    const isRight = isTableName(name) && TABLE_FLAGS[name] === flags;
    if (!isRight) yield `the table ${JSON.stringify(name)} is not one of this library`;
  }
}

function newerFormat(stored: string): number | undefined {
  const found = Number(/^\d{1,4}$/.exec(stored)?.[0]);
  return found > STORE_FORMAT ? found : undefined;
}

function sealed(file: PageFile, table: string, key: string | number, node: LeafNode): string {
  const text = unsealText(table, key, file.bytes(node.offset, node.length).toString('utf8'));
  if (text !== undefined) return text;
  throw new PageDamage(`the entry ${JSON.stringify(key)} of the table ${JSON.stringify(table)} is damaged`);
}

function keyNumber({ key }: LeafNode): number {
  if (key.length !== 4) throw new PageDamage('the key of a session is damaged');
  return integerOf(key);
}

function textKey({ key }: LeafNode): string {
  return key.toString('latin1');
}

function rowNumber({ key }: LeafNode): number {
  const isForm = key.length >= ROW_KEY_BYTES_MIN && key.length <= ROW_KEY_BYTES_MAX;
  if (!isForm || ((key[0] ?? 0) & 0xf0) !== ROW_KEY_PREFIX) throw new PageDamage('the number of a row is damaged');
  const bytes = Buffer.alloc(ROW_KEY_BYTES_MAX);
  key.copy(bytes);
  const bits = (bytes.readBigUInt64BE(0) << 4n) | BigInt((bytes[8] ?? 0) >> 4);
  const double = Buffer.alloc(8);
  double.writeBigUInt64BE(BigInt.asUintN(64, bits));
  const row = double.readDoubleBE(0);
  if (!Number.isSafeInteger(row) || row <= 0) throw new PageDamage('the number of a row is damaged');
  return row;
}

function address(node: LeafNode): string {
  const text = textKey(node);
  if (!ADDRESS.test(text) && parseResultAddress(text) === undefined)
    throw new PageDamage('the address of a blob is damaged');
  return text;
}

function mediumKey(node: LeafNode): string {
  const text = textKey(node);
  if (ownerOfMedium(text) === undefined) throw new PageDamage('the address of a medium is damaged');
  return text;
}

function wholeNumber(text: string): number {
  const value = Number(text);
  if (!/^\d{1,16}$/.test(text) || !Number.isSafeInteger(value)) throw new PageDamage('a number is damaged');
  return value;
}
