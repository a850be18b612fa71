/**
 * Finds the sessions of a command, in one order for all commands: the server that `--url` names, the directory that
 * `--data` names, the server of `TROUPE_URL`, the directory of `TROUPE_DATA`, `./data`. If a process has the directory
 * open and serves it, its server is asked. The lock of the store names that server.
 */
import { networkInterfaces } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { PLACE_POLL_MS, PLACE_WAIT_MS } from '../../base/bounds.ts';
import { StoreLockedError } from '../../base/errors.ts';
import { type StoreOwner, storeOwner } from '../../journal/store/lock.ts';
import { readManifest } from '../../journal/store/manifest.ts';
import type { GivenKeys } from '../../journal/store/store-key.ts';
import { type Arguments, type OptionSpec, UsageError } from '../command.ts';
import type { Surroundings } from '../surroundings.ts';
import { DATA_OPTION, dataDirectory, JSON_OPTION, requireStore, shownPath } from './data-directory.ts';
import { KEY_FILE_OPTION, keysOf } from './key-file.ts';
import { type Server, serverAt } from './server.ts';

/** The environment variables that name a server and its token. */
const URL_VARIABLE = 'TROUPE_URL';
const TOKEN_VARIABLE = 'TROUPE_TOKEN';

/** The options that name the place of the sessions. */
export const PLACE_OPTIONS: Readonly<Record<'data' | 'key-file' | 'url' | 'token' | 'json', OptionSpec>> = {
  data: DATA_OPTION,
  'key-file': KEY_FILE_OPTION,
  url: {
    kind: 'text',
    value: 'URL',
    help: `A running server (default: $${URL_VARIABLE}, or the server of the directory)`,
  },
  token: { kind: 'text', value: 'TOKEN', help: `Token of the server (default: $${TOKEN_VARIABLE})` },
  json: JSON_OPTION,
};

/**
 * A running server, or a data directory that no process has open. `shown`: its name for people. `isNamed`: the server
 * was named by its address, so it may be on another machine. `keys`: the keys of an encrypted store, if any were given.
 */
export type Place =
  | { readonly kind: 'server'; readonly server: Server; readonly shown: string; readonly isNamed: boolean }
  | {
      readonly kind: 'directory';
      readonly directory: string;
      readonly shown: string;
      readonly keys: GivenKeys | undefined;
    };

/**
 * The place of the sessions. `mayCreate`: a directory without a store is a place too. Rejects with `UsageError` for
 * options that exclude each other, and with `NotFoundError` for a directory without a store. Rejects with
 * `StoreLockedError` if a process has the directory open and does not serve it.
 */
export async function findPlace(
  given: Arguments,
  surroundings: Surroundings,
  { mayCreate = false }: { readonly mayCreate?: boolean } = {},
): Promise<Place> {
  const url = given.text('url');
  const data = given.text('data');
  if (url !== undefined && data !== undefined) throw new UsageError('--url and --data exclude each other');
  const token = tokenOf(given, surroundings);
  if (url !== undefined) return served(serverAt(url, token, '--url'), true);
  const address = surroundings.environment[URL_VARIABLE];
  // An option takes precedence over a variable.
  if (data === undefined && address !== undefined && address.trim() !== '') {
    return served(serverAt(address, token, URL_VARIABLE), true);
  }
  const directory = dataDirectory(given, surroundings);
  if (!mayCreate) await requireStore(directory);
  const owner = (await readManifest(directory)) === undefined ? undefined : await settledOwner(directory);
  if (owner === undefined) {
    const keys = await keysOf(given, surroundings);
    return { kind: 'directory', directory, shown: shownPath(directory, surroundings), keys };
  }
  return served(serverOf(owner, token, shownPath(directory, surroundings)), false);
}

/**
 * The owner of the store: the process that has it open. A new owner may be a command that only reads the store, or a
 * program that is about to serve it. So this waits until the owner has gone, serves the store, or has had it open for
 * `PLACE_WAIT_MS`.
 */
async function settledOwner(directory: string): Promise<StoreOwner | undefined> {
  for (;;) {
    const owner = await storeOwner(directory);
    const isNew = owner !== undefined && Date.now() - owner.since < PLACE_WAIT_MS;
    if (owner?.server !== undefined || !isNew) return owner;
    await pause(PLACE_POLL_MS);
  }
}

/** The token of a server that a command asks. */
export function tokenOf(given: Arguments, { environment }: Surroundings): string | undefined {
  const token = given.text('token') ?? environment[TOKEN_VARIABLE];
  return token === undefined || token === '' ? undefined : token;
}

function served(server: Server, isNamed: boolean): Place {
  return { kind: 'server', server, shown: server.origin, isNamed };
}

/** The server of the process that has a directory open. */
function serverOf({ pid, host, since, isLocal, server }: StoreOwner, token: string | undefined, shown: string): Server {
  const holder = `${shown} is in use by process ${pid} on ${host} since ${new Date(since).toISOString()}`;
  const data = { pid, host, since };
  if (server === undefined) {
    throw new StoreLockedError(
      `${holder}, which does not serve it over HTTP. End that process, or let it call serve() of troupe/server; the command then finds it`,
      { data },
    );
  }
  if (!isLocal || !isOfThisMachine(server.url)) {
    throw new StoreLockedError(
      `${holder}, which serves it at ${server.url}. That is not on this machine: if you trust it, name it with --url`,
      { data },
    );
  }
  if (server.needsToken && token === undefined) {
    throw new UsageError(`the server of ${shown} at ${server.url} needs a token: --token TOKEN or ${TOKEN_VARIABLE}`);
  }
  return serverAt(server.url, token, `the lock of ${shown}`);
}

/**
 * True for an address of this machine. A directory that came from elsewhere may have a lock that names any server. Such
 * a server must not receive the token.
 */
function isOfThisMachine(url: string): boolean {
  const name = URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, '') : '';
  if (name === 'localhost' || name.startsWith('127.')) return true;
  return Object.values(networkInterfaces()).some((addresses = []) => addresses.some(({ address }) => address === name));
}
