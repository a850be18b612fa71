/** Bounds of a cluster (`src/cluster`, `src/postgres`, `src/journal/replica`). */

// ---- leases -------------------------------------------------------------------------------------------------------

/** Milliseconds of a lease by default: a fail-over takes as long, and most restarts of a database are shorter. */
export const LEASE_MS_DEFAULT = 10_000;
/** The shortest lease, in milliseconds: a quarter of it is enough for a renewal at a busy database. */
export const LEASE_MS_MIN = 500;
/** The longest lease, in milliseconds: ten minutes without an owner after a crash. */
export const LEASE_MS_MAX = 600_000;
/**
 * Share of a lease for which its holder believes in it. The rest is far more than the clocks of two machines differ in
 * speed.
 */
export const LEASE_BELIEVED_SHARE = 0.9;
/** Share of a lease after which it is renewed: two attempts may fail before it ends. */
export const LEASE_RENEWAL_SHARE: number = 1 / 4;
/** Share of a lease after which an attempt to renew it is given up. */
export const LEASE_ATTEMPT_SHARE: number = 1 / 4;
/**
 * Share of a lease without an answer to a renewal after which the lease has a gap. The lease of an owner that renewed
 * shortly before such a gap still holds behind it, for longer than two attempts take.
 */
export const LEASE_GAP_SHARE: number = 1 / 2;
/** Share of a lease that a node waits before it tries again, after a failure or while another node has the shards. */
export const LEASE_RETRY_SHARE: number = 1 / 20;
/**
 * Milliseconds for which `open` waits by default for the lease of another node. The lease of a node that crashed ends
 * within this time.
 */
export const OWNER_WAIT_MS_DEFAULT = 30_000;
/** The longest such wait that is a number, in milliseconds: a day. */
export const OWNER_WAIT_MS_MAX = 86_400_000;
/** Milliseconds for which the row of a node that ended without leaving is kept: a day, for someone who looks at it. */
export const NODE_ROWS_KEPT_MS = 86_400_000;
/** Milliseconds in which a node that closes gives its lease back. After that the lease ends by itself. */
export const LEAVE_MS = 2_000;

// ---- the log of a shard -------------------------------------------------------------------------------------------

/** Milliseconds for which a commit waits by default for a database that does not answer, before it is refused. */
export const LOG_HOLD_MS_DEFAULT = 15_000;
/** The longest such wait, in milliseconds: callers of `send` wait as long. */
export const LOG_HOLD_MS_MAX = 600_000;
/** Milliseconds after which one statement is given up: a connection that was cut may never answer. */
export const STATEMENT_MS = 5_000;
/** Bytes of an entry that give its statement one millisecond more: the speed of a slow line between two buildings. */
export const LOG_BYTES_PER_MS = 1_000;
/** The first and the longest wait in milliseconds between two attempts to reach the database. */
export const LOG_RETRY_MS: { readonly first: number; readonly longest: number } = { first: 10, longest: 500 };
/** Bytes of log entries that one read fetches; an entry that is larger is fetched alone. */
export const LOG_FETCH_BYTES_MAX: number = 4 * 1024 * 1024;
/** Entries that one read of the log fetches. */
export const LOG_FETCH_ENTRIES_MAX = 1_000;
/**
 * Bytes of the newest commits that a shard keeps in memory. If the database goes back to an earlier state, the shard
 * appends them again.
 */
export const LOG_RING_BYTES_MAX: number = 16 * 1024 * 1024;
/** The most commits that a shard keeps in memory for this purpose. */
export const LOG_RING_ENTRIES_MAX = 10_000;
/** Bytes of one commit in the log: a quarter of what one value of PostgreSQL can have. */
export const LOG_ENTRY_BYTES_MAX: number = 256 * 1024 * 1024;
/** Milliseconds between two looks at a lease that a commit waits for. */
export const LEASE_LOOK_MS = 10;

// ---- snapshots of a log -------------------------------------------------------------------------------------------

/** Bytes of a store's file in one piece of a snapshot: one statement, which a slow line takes within a second. */
export const SNAPSHOT_PIECE_BYTES: number = 1024 * 1024;
/** Entries of a log after its snapshot from which the next one is due: some seconds of an open without a copy. */
export const SNAPSHOT_ENTRIES_MIN = 50_000;
/** Bytes of a log after its snapshot from which the next one is due: as long an open. */
export const SNAPSHOT_LOG_BYTES_MIN: number = 64 * 1024 * 1024;
/**
 * Share of the store's size that the log after a snapshot must have before the next one is due for its length. A snapshot
 * writes the whole store, so all snapshots together write at most four times what the log does.
 */
export const SNAPSHOT_LOG_SHARE_MIN: number = 1 / 4;
/** The newest entries that stay in a log, for nodes whose copies lack only these. An erasure removes them too. */
export const LOG_KEPT_ENTRIES = 10_000;
/** Pieces of former snapshots that one statement removes: as many bytes as a read of the log fetches. */
export const SNAPSHOT_PIECES_REMOVED_MAX = 4;

// ---- options ------------------------------------------------------------------------------------------------------

/** Characters of the address of a database. */
export const DATABASE_URL_CHARACTERS_MAX = 2_048;
/** Characters of the name of a node, in messages of other nodes. */
export const NODE_NAME_CHARACTERS_MAX = 128;
/** Bytes of the name of a schema: PostgreSQL's own bound. */
export const SCHEMA_NAME_BYTES_MAX = 63;
