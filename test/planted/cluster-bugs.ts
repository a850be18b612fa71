/** Planted bugs of a cluster: its log, its copies, its leases. The simulation of a cluster hunts for them. */
import type { PlantedBug } from './planted-bug.ts';

const LOG = 'src/postgres/shard-log.ts';
const REPLICA = 'src/journal/replica/replicated-engine.ts';
const STAY = 'src/cluster/stay.ts';
const LEASE = 'src/cluster/lease.ts';
const RESULTS = 'actors/result-store.ts';
const LINK = 'src/runtime/host/shard-link.ts';
const LINK_PARTS = 'src/runtime/host/link-parts.ts';
const CLOSE = 'src/runtime/host/shard-close.ts';
const DIRECTORY = 'src/postgres/directory.ts';
const GUESTS = 'src/runtime/host/shard-guests.ts';

const bugs: readonly Omit<PlantedBug, 'simulation'>[] = [
  {
    name: 'copy-before-log',
    what: 'a commit is in the copy before it is in the log',
    file: REPLICA,
    find: `    await this.#append(entry);
    await this.#put(stored, entry);`,
    replace: `    await this.#put(stored, entry);
    await this.#append(entry);`,
  },
  {
    name: 'acknowledged-before-append',
    what: 'a commit is acknowledged while its append is still on its way',
    file: REPLICA,
    find: `    await this.#append(entry);
    await this.#put(stored, entry);`,
    replace: `    this.#append(entry).catch(() => undefined);
    await this.#put(stored, entry);`,
  },
  {
    name: 'digest-in-next-commit',
    what: 'the digest of a commit is written outside its transaction, with the next one',
    file: REPLICA,
    find: "value: entry.digest.toString('hex') }];",
    replace: "value: this.#end.digest.toString('hex') }];",
  },
  {
    name: 'copy-believed-by-number',
    what: 'a copy is believed if the log has as many entries, whatever they are',
    file: REPLICA,
    find: "return found.equals(digest) ? undefined : 'diverged';",
    replace: "return digest.length === 0 ? 'diverged' : undefined;",
  },
  {
    name: 'fence-without-token',
    what: 'an append is fenced by the epoch of its claim alone',
    file: LOG,
    find: 'WHERE shard = $1 AND epoch = $2 AND token = $3 AND last = $4::bigint - 1 `',
    replace: 'WHERE shard = $1 AND epoch = $2 AND last = $4::bigint - 1 `',
  },
  {
    name: 'no-fence',
    what: 'an append is not fenced at all: the next number is enough',
    file: LOG,
    find: 'WHERE shard = $1 AND epoch = $2 AND token = $3 AND last = $4::bigint - 1 `',
    replace: 'WHERE shard = $1 AND last = $4::bigint - 1 `',
  },
  {
    name: 'retry-under-next-number',
    what: 'an append whose answer was lost is sent again under the next number',
    file: LOG,
    find: 'return this.#hold.run(() => this.#write(entry));',
    replace: 'return this.#hold.run((attempt) => this.#write({ ...entry, number: entry.number + attempt - 1 }));',
  },
  {
    name: 'no-row-taken-for-success',
    what: 'an append that wrote no row counts as done',
    file: LOG,
    find: 'return rowCount === 1 ? { number, digest } : this.#found(entry);',
    replace: 'return rowCount === null ? this.#found(entry) : { number, digest };',
  },
  {
    name: 'no-row-taken-for-fenced',
    what: 'an append that wrote no row counts as refused for another claim, although its first attempt took effect',
    file: LOG,
    find: 'return rowCount === 1 ? { number, digest } : this.#found(entry);',
    replace: `if (rowCount !== 1) throw this.#moved();
    return { number, digest };`,
  },
  {
    name: 'reclaim-keeps-token',
    what: 'after a refused write the token stays, so that an append that is still on its way takes effect later',
    file: LOG,
    find: 'if (found.equals(token)) {',
    replace: 'if (found.equals(this.#token) || found.equals(token)) {',
  },
  {
    name: 'lease-by-wall-clock',
    what: 'a node believes in its lease by its wall clock alone, which may be set back',
    file: LEASE,
    find: 'return Math.max(0, Math.min(monotonicMs, wallMs));',
    replace: 'return Math.max(0, wallMs);',
  },
  {
    name: 'lease-by-monotonic-clock',
    what: 'a node believes in its lease by its monotonic clock alone, which stands still while the machine is suspended',
    file: LEASE,
    find: 'return Math.max(0, Math.min(monotonicMs, wallMs));',
    replace: 'return Math.max(0, monotonicMs);',
  },
  {
    name: 'lease-counted-from-answer',
    what: 'a node counts its lease from the answer to its renewal',
    file: STAY,
    find: `if (isGap) this.#heldSinceMs = this.#grantedMs;
        lease.granted(moment, leaseMs);`,
    replace: `if (isGap) this.#heldSinceMs = this.#grantedMs;
        lease.granted(lease.moment(), leaseMs);`,
  },
  {
    name: 'claim-without-lease-rule',
    what: 'a node ends the leases of others although its own has not held for a lease',
    file: STAY,
    find: 'return !this.#isGap() && this.#parts.clock.monotonic() - this.#heldSinceMs >= this.#parts.leaseMs;',
    replace: 'return !this.#isGap();',
  },
  {
    name: 'work-without-lease',
    what: 'a commit is acknowledged, and its calls begin, without a lease',
    file: REPLICA,
    find: 'if (await this.#parts.leased()) return;',
    replace: 'if (await this.#parts.leased().then(() => true)) return;',
  },
  {
    name: 'result-not-in-log',
    what: 'the whole text of a shortened result is only a file of the node that ran the tool',
    file: RESULTS,
    find: 'return logged.keep(owner, hash, whole);',
    replace: 'return logged.keep.length > 0;',
  },
  {
    name: 'result-read-where-it-was',
    what: 'the path in a shortened result leads only to the directory of the node that ran the tool',
    file: RESULTS,
    find: 'if (logged === undefined || owner === undefined || hash === undefined) return undefined;',
    replace:
      'if (logged === undefined || owner === undefined || hash === undefined || dirname(path) !== this.#directory) return undefined;',
  },
  {
    name: 'watches-not-repeated-after-move',
    what: 'the node that has the shards next is not told what a node reads',
    file: LINK,
    find: 'await this.#watches.repeat(incarnation.endpoint, incarnation.line === undefined);',
    replace: 'await Promise.resolve();',
  },
  {
    name: 'follow-number-of-guest',
    what: 'the number under which a node follows a receipt is passed on to the shard, where the host has its own numbers',
    file: GUESTS,
    find: "return await shard.call('session.send', { ...message, follow: id });",
    replace: "return await shard.call('session.send', { ...message, follow });",
  },
  {
    name: 'repeated-over-next-line',
    what: 'a request that is not safe to repeat is sent again over the next line',
    file: LINK,
    find: 'if (!repeatable) throw unknownOutcome(cause, ended);',
    replace: 'if (!repeatable && ended.line === undefined) throw unknownOutcome(cause, ended);',
  },
  {
    name: 'unknown-outcome-told-as-not-done',
    what: 'a request whose line ended is answered as one that was not done',
    file: LINK_PARTS,
    find: 'return new ShardMovedError(`the line to the node that has the session ',
    replace: 'return new ShardMovedError(`Nothing was done: the line to the node that has the session ',
  },
  {
    name: 'followers-of-broken-line-forgotten',
    what: 'receipts that were followed over a line are not asked for after its end',
    file: LINK,
    find: `    incarnation.end();
    this.receipts.abandon();
    if`,
    replace: `    incarnation.end();
    if (incarnation.line === undefined) this.receipts.abandon();
    if`,
  },
  {
    name: 'claim-beyond-share',
    what: 'a node claims every free shard, also those of which it gives away what is beyond its share',
    file: DIRECTORY,
    find: 'greatest(0, CASE WHEN',
    replace: 'greatest(1024, CASE WHEN',
  },
  {
    name: 'guests-refused-at-hand-over',
    what: 'the other nodes that use a shard are told that its runtime is closed when it is given away',
    file: CLOSE,
    find: `  incarnation.guests.close();
  try {`,
    replace: '  try {',
  },
  {
    name: 'given-shard-stays-claimed',
    what: 'a node that has closed a shard to give it away keeps the claim',
    file: LINK,
    find: `    this.#isGiven = false;
    this.#parts.finder?.release(this.#parts.plan.index);
  }`,
    replace: `    this.#isGiven = false;
  }`,
  },
];

/** See the head of the file. */
export const clusterBugs: readonly PlantedBug[] = bugs.map((bug) => ({ ...bug, simulation: 'cluster' }));
