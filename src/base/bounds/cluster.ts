/** Bounds of a cluster (`src/cluster`, `src/postgres`, `src/journal/replica`). */

// ---- leases -------------------------------------------------------------------------------------------------------

/**
 * Milliseconds of a lease by default. A fail-over takes this long. Most restarts of a database are shorter, so they end
 * no lease.
 */
export const LEASE_MS_DEFAULT = 10_000;
/**
 * The shortest lease, in milliseconds. Its renewal has a quarter of that time (`LEASE_ATTEMPT_SHARE`), which is enough
 * at a busy database.
 */
export const LEASE_MS_MIN = 500;
/** The longest lease, in milliseconds. After a crash, the shards have no owner for up to this time. */
export const LEASE_MS_MAX = 600_000;
/**
 * Share of a lease for which its holder works as the owner. The rest covers the difference between the clocks of two
 * machines, which is far smaller during one lease.
 */
export const LEASE_BELIEVED_SHARE = 0.9;
/** Share of a lease after which the holder renews it. Two attempts may fail before the lease ends. */
export const LEASE_RENEWAL_SHARE: number = 1 / 4;
/** Share of a lease that one attempt to renew it may take. */
export const LEASE_ATTEMPT_SHARE: number = 1 / 4;
/**
 * A lease has a gap if no renewal was answered for this share of its time. A node whose lease has a gap must not end
 * the lease of another node. An outage too short for a gap leaves the other node enough time to renew its lease.
 */
export const LEASE_GAP_SHARE: number = 1 / 2;
/** Share of a lease that a node waits before it tries again to renew its lease or to claim the shards. */
export const LEASE_RETRY_SHARE: number = 1 / 20;
/**
 * Milliseconds for which `open` waits by default for the lease of another node. The lease of a crashed node ends within
 * this time, unless `leaseMs` is longer.
 */
export const OWNER_WAIT_MS_DEFAULT = 30_000;
/**
 * The largest number of the option `waitMs`, in milliseconds: a day. With `'forever'`, `open` waits without a bound.
 */
export const OWNER_WAIT_MS_MAX = 86_400_000;
/**
 * Milliseconds for which the database keeps the row of a node that ended without leaving: a day, so that an operator
 * can look at it.
 */
export const NODE_ROWS_KEPT_MS = 86_400_000;
/** Leases that a fail-over may take: the lease of the former owner, and the time that the next one must have waited. */
export const FAIL_OVER_LEASES = 2;
/**
 * Milliseconds between two attempts of a node to claim a shard that it looks for. Without a search it tries each
 * `LEASE_RETRY_SHARE` of a lease.
 */
export const SHARD_LOOK_MS = 100;
/** Milliseconds between two shards that one node gives away: the requests of one shard wait at a time. */
export const SHARD_MOVE_MS = 1_000;
/**
 * Milliseconds for which a shard that is given away waits for its half-steps: most model calls end within this time. The
 * next owner begins the others again.
 */
export const HAND_OVER_MS = 10_000;
/** Milliseconds that a closing node has to give its lease back. Otherwise the lease ends by itself. */
export const LEAVE_MS = 2_000;

// ---- the log of a shard -------------------------------------------------------------------------------------------

/** Milliseconds for which a commit waits by default for a database that does not answer. Then the commit is refused. */
export const LOG_HOLD_MS_DEFAULT = 15_000;
/** The longest wait of a commit, in milliseconds: callers of `send` wait for the commit. */
export const LOG_HOLD_MS_MAX = 600_000;
/** Milliseconds after which one statement is given up: a connection that was cut may never answer. */
export const STATEMENT_MS = 5_000;
/**
 * Bytes that a slow line between two buildings carries in one millisecond. The time limit of an append is
 * `STATEMENT_MS` plus the time that the entry takes at this speed.
 */
export const LOG_BYTES_PER_MS = 1_000;
/** The first and the longest wait in milliseconds between two attempts to reach the database. */
export const LOG_RETRY_MS: { readonly first: number; readonly longest: number } = { first: 10, longest: 500 };
/** Bytes of log entries that one read fetches. A larger entry is fetched alone. */
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
/**
 * Whole texts of shortened results that the log keeps of one session. Each commit with such a text reads the addresses
 * of all, in about a millisecond.
 */
export const LOGGED_RESULTS_MAX = 1_000;
/**
 * UTF-8 bytes of these texts: 16 of the longest results of a tool (`TOOL_RESULT_CROSSING_BYTES_MAX`). They are in the
 * log, in its snapshots and in the copy of each node, so a session that reads large files all day must not fill them.
 */
export const LOGGED_RESULTS_BYTES_MAX: number = 64 * 1024 * 1024;
/** Characters of addresses of damaged texts that a shard has reported and remembers: about a thousand addresses. */
export const DAMAGED_ADDRESSES_BYTES_MAX: number = 64 * 1024;
/** Milliseconds between two looks at this node's own lease. A commit or a call waits until the lease is valid again. */
export const LEASE_LOOK_MS = 10;

// ---- snapshots of a log -------------------------------------------------------------------------------------------

/** Bytes of a store's file in one piece of a snapshot: one statement, which a slow line takes within a second. */
export const SNAPSHOT_PIECE_BYTES: number = 1024 * 1024;
/**
 * Entries of a log after its snapshot from which the next snapshot is due. An `open` without a copy of the store reads
 * the snapshot and these entries, which take some seconds.
 */
export const SNAPSHOT_ENTRIES_MIN = 50_000;
/** Bytes of a log after its snapshot from which the next snapshot is due. Reading them takes some seconds, too. */
export const SNAPSHOT_LOG_BYTES_MIN: number = 64 * 1024 * 1024;
/**
 * A long log makes the next snapshot due only if the log has at least this share of the store's used bytes. A snapshot
 * writes the whole store. So the snapshots of long logs write at most four times the bytes of the log.
 */
export const SNAPSHOT_LOG_SHARE_MIN: number = 1 / 4;
/**
 * Newest entries that stay in a log although a snapshot contains them. A node whose copy lacks only these entries needs
 * no snapshot. An erasure removes them, too.
 */
export const LOG_KEPT_ENTRIES = 10_000;
/** Pieces of former snapshots that one statement removes: as many bytes as a read of the log fetches. */
export const SNAPSHOT_PIECES_REMOVED_MAX = 4;

// ---- reading a cluster --------------------------------------------------------------------------------------------

/**
 * Milliseconds that the database has to count the entries of all logs. A log that no snapshot has cut yet may have
 * millions of them.
 */
export const OVERVIEW_MS = 60_000;

// ---- lines between nodes ------------------------------------------------------------------------------------------

/** Milliseconds between two attempts to reach a shard. A new owner needs about as long to open its shards. */
export const LINE_RETRY_MS = 100;
/** Milliseconds until a node that has a shard and cannot open it tries again: as long as a full store waits. */
export const SHARD_START_RETRY_MS = 1_000;
/** Milliseconds in which a line must be open: a connection between two regions, its handshake, and a busy loop. */
export const LINE_CONNECT_MS = 2_000;
/**
 * Bytes of one frame of a line: twice the largest model request, which is the largest single value that a shard
 * answers with.
 */
export const LINE_FRAME_BYTES_MAX: number = 64 * 1024 * 1024;
/**
 * Bytes that were written to a line and that the socket has not taken: two of the largest frames. Beyond this bound the
 * line ends, since a node that does not read must not fill the memory of the other.
 */
export const LINE_WAITING_BYTES_MAX: number = 128 * 1024 * 1024;
/** First bytes of a buffer for a frame that arrives in pieces: one read of a socket. */
export const LINE_BUFFER_BYTES_MIN: number = 64 * 1024;
/** Milliseconds without anything sent after which a side of a line sends an empty frame. */
export const LINE_PING_MS = 1_000;
/**
 * Milliseconds without anything received after which a line ends. Two empty frames may be late before. The default
 * lease is three times as long. So a member finds another path while the lease of a node without a network still runs.
 * A closing line has as long to send what was posted.
 */
export const LINE_SILENCE_MS = 3_000;
/**
 * Connections of a node's line server at once: 16 other nodes with the most shards, or 128 nodes with eight shards. An
 * idle line has some 40 kB of memory.
 */
export const LINES_MAX = 1_024;
/** Milliseconds that a new connection has for its handshake and its hello: some round trips, at a busy node. */
export const LINE_HELLO_MS = 5_000;
/** Bytes of a hello: three short members, with room for those of a later version. */
export const LINE_HELLO_BYTES_MAX = 1_024;
/** Milliseconds between two reports of one kind of failure. Otherwise a node that tries again fills the log. */
export const LINE_REPORT_MS = 60_000;

// ---- options ------------------------------------------------------------------------------------------------------

/** Characters of the address of a database. */
export const DATABASE_URL_CHARACTERS_MAX = 2_048;
/** Characters of a node's name. Error messages of other nodes contain the name. */
export const NODE_NAME_CHARACTERS_MAX = 128;
/** Bytes of the name of a schema: PostgreSQL's own bound. */
export const SCHEMA_NAME_BYTES_MAX = 63;
/** Characters of the host at which a node listens: the longest name that the domain name system has. */
export const NODE_HOST_CHARACTERS_MAX = 253;
/** The largest port of TCP. */
export const PORT_MAX = 65_535;
/** Fewest characters of the secret that the nodes share. 32 hexadecimal digits have 128 random bits: beyond guessing. */
export const LINE_SECRET_CHARACTERS_MIN = 32;
/** Most characters of this secret: room for any encoding of a long key. */
export const LINE_SECRET_CHARACTERS_MAX = 1_024;
