/** Functions on the names and addresses of a service. Pure. */
import { isIP } from 'node:net';

/** True for a name or address that only this machine can reach. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase();
  if (name === 'localhost') return true;
  if (isIP(name) === 4) return name.startsWith('127.');
  return isIP(name) === 6 && (name === '::1' || name === '0:0:0:0:0:0:0:1' || name.startsWith('::ffff:127.'));
}

/** True for a wildcard address, which stands for all addresses of a machine. */
export function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::' || host === '0:0:0:0:0:0:0:0';
}

/**
 * Splits a `Host` header or the authority of a URL into name and port. The name is in lower case, without brackets.
 * Undefined if the text is invalid.
 */
export function parseAuthority(authority: string): { readonly name: string; readonly port: string } | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?$/.exec(authority);
  const name = match?.[1] ?? match?.[2];
  if (name === undefined || (match?.[1] !== undefined && isIP(name) !== 6)) return undefined;
  return { name: name.toLowerCase(), port: match?.[3] ?? '' };
}

/** True when a `Host` header names one of `hosts`. An entry of `hosts` without a port matches any port. */
export function isNamed(authority: string, hosts: readonly string[]): boolean {
  const asked = parseAuthority(authority);
  if (asked === undefined) return false;
  return hosts.some((host) => {
    const known = isIP(host) === 6 ? { name: host.toLowerCase(), port: '' } : parseAuthority(host);
    return known !== undefined && known.name === asked.name && (known.port === '' || known.port === asked.port);
  });
}

/** An address in the form that a URL requires. */
export function inUrl(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
