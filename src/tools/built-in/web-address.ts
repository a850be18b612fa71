/**
 * Decides which addresses a request may go to (F75): public unicast addresses, and targets that an embedder allowed.
 * All other addresses belong to this machine, to its local network, or to nothing at all. A public address of this
 * machine is refused as well. A request from this machine to itself would not pass the firewall that protects the
 * machine's services.
 */
import { BlockList, isIP, isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';

/** Decides which hosts and addresses may be requested. */
export interface AddressGuard {
  /** True for a host that was allowed by its name: its addresses need no check. */
  allowsHost(host: string): boolean;
  /** True for an address, in any spelling, that a connection may be made to. */
  allowsAddress(address: string): boolean;
}

/** Special-purpose addresses (the IANA registry of RFC 6890), multicast, and unassigned addresses. */
const DENIED_V4: readonly (readonly [string, number])[] = [
  ['0.0.0.0', 8], // this host
  ['10.0.0.0', 8], // private
  ['100.64.0.0', 10], // behind a carrier's address translation; metadata of one cloud
  ['127.0.0.0', 8], // loopback
  ['168.63.129.16', 32], // the host agent of one cloud, at an address that looks public
  ['169.254.0.0', 16], // link-local, including the metadata of most clouds
  ['172.16.0.0', 12], // private
  ['192.0.0.0', 24], // protocol assignments
  ['192.0.2.0', 24], // documentation
  ['192.88.99.0', 24], // relays of 6to4
  ['192.168.0.0', 16], // private
  ['198.18.0.0', 15], // benchmarks
  ['198.51.100.0', 24], // documentation
  ['203.0.113.0', 24], // documentation
  ['224.0.0.0', 4], // multicast
  ['240.0.0.0', 4], // reserved, broadcast
];
/** Public IPv6 addresses are only in `2000::/3`. These parts of that range are not public either. */
const DENIED_V6: readonly (readonly [string, number])[] = [
  ['2001::', 23], // protocol assignments, including Teredo
  ['2001:db8::', 32], // documentation
  ['2002::', 16], // 6to4: an embedded IPv4 address, no longer used
  ['3fff::', 20], // documentation
];
/** Prefixes (six groups) of addresses whose last 32 bits are the intended IPv4 address: mapped addresses, and NAT64. */
const V4_INSIDE: readonly string[] = ['0:0:0:0:0:ffff', '64:ff9b:0:0:0:0'];

const denied = new BlockList();
for (const [address, bits] of DENIED_V4) denied.addSubnet(address, bits, 'ipv4');
for (const [address, bits] of DENIED_V6) denied.addSubnet(address, bits, 'ipv6');
const globalUnicast = new BlockList();
globalUnicast.addSubnet('2000::', 3, 'ipv6');

/** The current addresses of this machine's interfaces. */
function ownAddresses(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address));
}

/** True for a public unicast address; false for any other text. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !denied.check(address, 'ipv4');
  // An address with a zone belongs to one of this machine's links.
  if (family !== 6 || address.includes('%')) return false;
  const inside = v4Inside(address);
  if (inside !== undefined) return isPublicAddress(inside);
  return globalUnicast.check(address, 'ipv6') && !denied.check(address, 'ipv6');
}

/**
 * The guard of one tool. `allow`: host names (exactly these), addresses, and ranges (`10.1.0.0/16`). Any other entry
 * throws a `RangeError` that names the entry. `own`: returns the addresses of this machine.
 */
export function addressGuard(allow: readonly string[], own: () => readonly string[] = ownAddresses): AddressGuard {
  const hosts = new Set<string>();
  const allowed = new BlockList();
  for (const entry of allow) {
    const range = /^([^/%]+)\/(\d{1,3})$/u.exec(entry);
    const address = range?.[1] ?? entry;
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    if (isIP(address) === 0 || address.includes('%')) hosts.add(allowedHost(entry));
    else if (range === null) allowed.addAddress(address, family);
    else allowed.addSubnet(address, rangeBits(entry, Number(range[2]), family), family);
  }
  return {
    allowsHost: (host) => hosts.has(plainHost(host)),
    allowsAddress: (address) =>
      isListed(address, allowed) ||
      (isPublicAddress(address) && !isListed(v4Inside(address) ?? address, listOf(own()))),
  };
}

function listOf(addresses: readonly string[]): BlockList {
  const list = new BlockList();
  for (const address of addresses) {
    // Addresses with a zone belong to a link, so they are not public.
    if (isIP(address) !== 0 && !address.includes('%')) list.addAddress(address, isIPv4(address) ? 'ipv4' : 'ipv6');
  }
  return list;
}

function isListed(address: string, list: BlockList): boolean {
  if (isIP(address) === 0 || address.includes('%')) return false;
  return list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
}

function rangeBits(entry: string, bits: number, family: 'ipv4' | 'ipv6'): number {
  const bitsMax = family === 'ipv4' ? 32 : 128;
  if (bits > bitsMax) throw new RangeError(`${JSON.stringify(entry)} is not a range of addresses`);
  return bits;
}

function allowedHost(entry: string): string {
  const isName = /^[^\s/\\:@?#*%]+$/u.test(entry) && URL.canParse(`http://${entry}/`);
  const host = isName ? plainHost(new URL(`http://${entry}/`).hostname) : '';
  // An address in an unusual spelling is refused: it could look like one address and allow another.
  if (host === '' || isIP(host) !== 0) {
    throw new RangeError(`${JSON.stringify(entry)} is neither a host's name nor an address or a range of them`);
  }
  return host;
}

/** A host name in its plain form: capitals and a final dot make no difference. */
function plainHost(host: string): string {
  return host.toLowerCase().replace(/\.$/u, '');
}

/** The IPv4 address embedded in an IPv6 address; `undefined` if there is none. */
function v4Inside(address: string): string | undefined {
  if (isIPv4(address)) return undefined;
  const groups = groupsOf(address);
  if (!V4_INSIDE.includes(groups.slice(0, 6).join(':'))) return undefined;
  const [high = 0, low = 0] = groups.slice(6).map((group) => Number.parseInt(group, 16));
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
}

/** The eight groups of an IPv6 address, in hexadecimal without leading zeros. */
function groupsOf(address: string): readonly string[] {
  // The URL parser gives each address one spelling, without dots.
  const plain = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [head = '', tail] = plain.split('::');
  const first = head === '' ? [] : head.split(':');
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  return [...first, ...new Array<string>(8 - first.length - last.length).fill('0'), ...last];
}
