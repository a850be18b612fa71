/**
 * The key of an encrypted file that one call of `read_file` reads: a shortened result. The key is a member of the
 * call's context under a symbol, and only tools of `read-file.ts` receive it.
 */
import type { ToolContext } from './tool.ts';

const FILE_KEY: unique symbol = Symbol('troupe.file-key');

/** Adds the key, as hexadecimal digits, to a context. */
export function withFileKey<T extends object>(context: T, fileKey: string | undefined): T {
  return fileKey === undefined ? context : Object.assign(context, { [FILE_KEY]: fileKey });
}

/** The key in a context; undefined if the call reads no encrypted file. */
export function fileKeyOf(context: ToolContext): Buffer | undefined {
  const key: unknown = Reflect.get(context, FILE_KEY);
  return typeof key === 'string' ? Buffer.from(key, 'hex') : undefined;
}
