/**
 * TLS of a line. The nodes have a secret in place of certificates, so each side proves to the other that it knows the
 * secret. Each line has its own ephemeral key: a secret that leaks later does not open what was recorded before.
 *
 * Node offers these cipher suites up to TLS 1.2 only. An OpenSSL that allows approved algorithms alone (FIPS) refuses
 * this suite, and then no line begins.
 */
import { constants, hkdfSync } from 'node:crypto';
import type { ConnectionOptions, TlsOptions } from 'node:tls';
import { systemCodeOf } from '../../base/errors.ts';
import type { NodeAddress } from '../plan.ts';

/** Receives the failures that no caller sees. */
export type LineFailure = (message: string, error: Error) => void;

/** Names the key in a handshake. */
const IDENTITY = 'troupe-line';

const KEY_BYTES = 32;

const SUITE = {
  ciphers: 'ECDHE-PSK-CHACHA20-POLY1305',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
  // A ticket holds the keys of a connection, which would outlive it.
  secureOptions: constants.SSL_OP_NO_TICKET,
} as const;

/** The options of a server that accepts only nodes with this secret. */
export function serverTls(secret: string): TlsOptions {
  const key = keyOf(secret);
  return { ...SUITE, pskCallback: (_socket, identity) => (identity === IDENTITY ? key : null) };
}

/** The options of a client that accepts only a server with this secret. */
export function clientTls(secret: string): ConnectionOptions {
  const key = keyOf(secret);
  return {
    ...SUITE,
    pskCallback: () => ({ psk: key, identity: IDENTITY }),
    // The key has proved the server, which has no certificate whose name could be checked.
    checkServerIdentity: () => undefined,
  };
}

/** True for the error with which a handshake ends, on either side, if the other side has another secret. */
export function isOtherSecret(error: unknown): boolean {
  // The first message under another key cannot be decrypted. The names differ between versions of OpenSSL.
  return /BAD_RECORD_MAC|DECRYPT_ERROR/u.test(systemCodeOf(error) ?? '');
}

/** The address as texts of errors have it. */
export function addressText({ host, port }: NodeAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** HKDF suffices, since the secret is long and random: a slow derivation protects only short secrets. */
function keyOf(secret: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, 'troupe', 'troupe-line key 1', KEY_BYTES));
}
