/** Bounds of the journal and of the search index (`src/journal`, `src/search`, `src/runtime/search`). */

// ---- rows, flushes and blobs --------------------------------------------------------------------------------------

/**
 * Transitions packed into one row of the journal. A row has transitions of several sessions, so this bounds how much a
 * reader of one session decodes in vain.
 */
export const ROW_TURNS_MAX = 64;
/** Rows of one flush. This bound keeps the p99 of a flush under 20 ms with thousands of rows in flight. */
export const FLUSH_ROWS_MAX = 4_096;
/** UTF-8 bytes after which a row of the journal accepts no further transition. A larger transition has its own row. */
export const ROW_BYTES_MAX: number = 64 * 1024;
/**
 * UTF-8 bytes gathered for one flush. Later rows wait for the next flush, so that a flush of a slow disk stays short.
 */
export const FLUSH_BYTES_MAX: number = 4 * 1024 * 1024;
/**
 * Milliseconds that a transition without a waiting caller waits for a flush started by another transition: the duration
 * of one flush on a slow device.
 */
export const FLUSH_PATIENCE_MS = 5;
/**
 * Characters of a session's name in the journal: four times the longest session id. LMDB's own bound is far higher:
 * 1,978 bytes of a key.
 */
export const JOURNAL_NAME_CHARACTERS_MAX = 512;
/** Rows that a scan of the log fetches at a time, so that no LMDB cursor stays open between two steps of the reader. */
export const SCAN_ROWS = 16;
/**
 * Each entry of a log points back to the session's previous entry, and a reader follows these pointers. It holds at
 * most this many characters of the session's entries. Beyond this bound rows are fetched twice.
 */
export const READ_HELD_CHARACTERS_MAX: number = 4 * 1024 * 1024;
/** Names fetched at a time when the name table is listed. */
export const SCAN_NAMES = 256;
/** Removed sessions are erased in slices of this many rows: 1 to 5 ms of the session thread. */
export const ERASE_SLICE_ROWS_MAX = 8;
/** Bytes of rows after which a slice of an erasure ends. */
export const ERASE_SLICE_BYTES_MAX: number = 256 * 1024;
/** Milliseconds between two slices of an erasure. All slices then take about a tenth of the session thread. */
export const ERASE_PAUSE_MS = 30;
/** Sessions that one step of the search for old data checks: about a millisecond of the session thread. */
export const RETENTION_SLICE_SESSIONS = 32;
/**
 * UTF-16 units of a log that one step reads to find and remove old history. With the next bound, a step takes one or
 * two milliseconds of the session thread.
 */
export const RETENTION_SLICE_CHARACTERS: number = 128 * 1024;
/** Rows of a log that one step reads to find and remove old history. */
export const RETENTION_SLICE_ROWS = 32;
/**
 * A search for old data is delayed by at least this share of the shortest retention time. It then finds all data that
 * became old in the meantime. So data is removed late by about this share.
 */
export const RETENTION_LATE_SHARE: number = 1 / 16;
/**
 * The longest delay of a search for old data, in milliseconds. A search reads the summaries of all sessions, so it
 * should be rare.
 */
export const RETENTION_PAUSE_MS_MAX: number = 60 * 60 * 1000;
/** The shortest delay of a search for old data, in milliseconds. */
export const RETENTION_PAUSE_MS_MIN = 20;
/**
 * Most milliseconds for which the timer of a search for old data is set: a day. So the search notices within a day that
 * the clock was changed.
 */
export const RETENTION_WAIT_MS_MAX: number = 24 * 60 * 60 * 1000;
/** The shortest time for which the option `retention` may keep data, in milliseconds. */
export const RETENTION_MS_MIN = 1;
/** UTF-8 bytes of a commit that may run on the session thread itself: a few transitions. */
export const COMMIT_HERE_BYTES_MAX: number = 8 * 1024;
/** Milliseconds that a commit on the session thread may take: no longer than a tick may. */
export const COMMIT_HERE_MS_MAX = 2;
/**
 * The data of a journal row is compressed if it has at least this many bytes. For less data, compressing costs more
 * than the part of a page it saves.
 */
export const ROW_PACKED_BYTES_MIN = 512;
/** Bytes of one flush's rows that are compressed on the session thread: 1 to 5 ms. Pool threads compress the rest. */
export const ROWS_PACKED_HERE_BYTES_MAX: number = 1024 * 1024;
/**
 * Bytes of unpacked rows that a journal keeps for the next reader: the rows that a few dozen sessions of a tick share.
 */
export const ROW_CACHE_BYTES_MAX: number = 1024 * 1024;
/**
 * A row holds an unwritten transition as bytes if the transition has at least this many UTF-8 bytes. A smaller
 * transition costs more to copy than to keep as it is.
 */
export const ROW_TURN_HELD_BYTES_MIN: number = 16 * 1024;
/**
 * Least characters of a base64 text whose bytes are stored as a medium, once for each session: more than a page of the
 * store. A shorter text takes less space in its compressed row.
 */
export const MEDIA_CHARACTERS_MIN: number = 6 * 1024;
/** Bytes of base64 texts that a journal keeps in memory for the next entry with the same medium: a few photographs. */
export const MEDIA_CACHE_BYTES_MAX: number = 16 * 1024 * 1024;
/** Bytes of base64 texts that the messages of a session share while its log is read: as many as a request may have. */
export const SHARED_MEDIA_BYTES_MAX: number = 32 * 1024 * 1024;
/** A blob is compressed if it has at least this many UTF-8 bytes. */
export const BLOB_PACKED_BYTES_MIN = 512;
/** UTF-8 bytes of the largest blob that is compressed or unpacked: half of the longest string. */
export const BLOB_PACKED_BYTES_MAX: number = 256 * 1024 * 1024;
/**
 * A value is compressed before its encryption if it has at least this many characters. For a shorter value, compressing
 * costs more than the bytes it saves.
 */
export const SEALED_PACKED_BYTES_MIN = 4_096;
/** Bytes of the largest value that is compressed before it is encrypted: 2 ms of the session thread. */
export const SEALED_PACKED_BYTES_MAX: number = 256 * 1024;
/** Bytes that unwrapped data keys of sessions may take in memory, each counted as 1 KiB: 4,096 sessions. */
export const DATA_KEYS_BYTES_MAX: number = 4 * 1024 * 1024;
/**
 * Each opening of the store encrypts with its own key, derived from a session's data key. A data key keeps at most this
 * many derived keys of earlier openings. Values that are read together were mostly written in a few openings.
 */
export const OPENINGS_HELD_MAX = 16;
/**
 * Earlier master keys that `open` takes: enough for a store that was not opened during several years of key rotation.
 */
export const PREVIOUS_KEYS_MAX = 16;
/** Data keys that one write wraps again when the master key is replaced: 20 ms of the session thread. */
export const REWRAPPED_KEYS_MAX = 1_000;

/**
 * Characters of a text in an entry of the audit log, such as the id of a call: a longer text is cut. An entry then
 * takes at most a few KiB. Only the option `retention.auditMs` bounds the number of entries: an audit log that forgot
 * entries by itself would prove nothing.
 */
export const AUDIT_TEXT_CHARACTERS_MAX = 256;
/** Rows of the audit log that one page looks at, on each session thread: 50 ms, in slices. */
export const AUDIT_SCAN_MAX = 10_000;
/** Rows of the audit log that are read, or removed because of their age, in one tick: 1 to 2 ms. */
export const AUDIT_SLICE_ROWS = 256;

// ---- the store and its files --------------------------------------------------------------------------------------

/** Bytes of address space for the map of one shard's file. `src/journal/lmdb/environment.ts` gives the reason. */
export const STORE_MAP_BYTES: number = 64 * 1024 ** 3;
/** Least bytes of the data file that are kept ready behind the last page: room for some commits of a lone session. */
export const STORE_ROOM_BYTES_MIN: number = 1024 * 1024;
/**
 * Most bytes of the data file that are kept ready. One flush of `FLUSH_BYTES_MAX` needs this many at worst. An eighth
 * of the store's size is kept ready, so a store reaches this bound at 128 MiB.
 */
export const STORE_ROOM_BYTES_MAX: number = 16 * 1024 * 1024;
/**
 * Bytes that must be free, besides twice the commit, if the file system writes to new blocks. The file system's own
 * tables need space too.
 */
export const STORE_SPARE_BYTES_MIN: number = 4 * 1024 * 1024;
/**
 * Bytes of a new data file that are made ready before LMDB creates its tables. Each table takes one commit, and the
 * bytes are six times what these commits need.
 */
export const STORE_OPEN_BYTES: number = 256 * 1024;
/** Bytes of LMDB's lock file that are made ready: the size of its table of 126 readers, and one more page. */
export const STORE_LOCK_FILE_BYTES: number = 12 * 1024;
/** Files of a store whose rights are checked when it is opened: all files of most stores, in a few milliseconds. */
export const STORE_RIGHTS_ENTRIES_MAX = 256;
/**
 * Milliseconds between checks that the store's files are still in its directory. A lost store is noticed within a
 * second.
 */
export const STORE_LOOK_MS = 500;
/** Milliseconds that an opener waits for a younger opener to give way. After that it reports the store as locked. */
export const STORE_LOCK_WAIT_MS = 5_000;
/** Milliseconds between two attempts of an opener to take the lock, also while the former owner gives the store up. */
export const STORE_LOCK_POLL_MS = 10;
/** Milliseconds after which a store's owner looks again for a process that takes the store over. A look takes 50 us. */
export const TAKEOVER_LOOK_MS = 100;
/** Milliseconds that a process may give the former owner for its half-steps: as long as the longest model calls. */
export const TAKEOVER_MS_MAX = 600_000;
/**
 * A process that takes a store over first waits for the owner's half-steps, and then this many milliseconds longer
 * before it reports the store as locked. These milliseconds cover the owner's close (`SHARD_CLOSE_MS`), the owner's
 * next look, and the release of its files.
 */
export const TAKEOVER_GRACE_MS = 35_000;
/** Bytes of a store's file up to which all pages are checked before LMDB maps it: about 30 ms. */
export const STORE_CHECK_BYTES_MAX: number = 32 * 1024 * 1024;
/** Bytes of a store's file up to which each entry of the small tables is checked as well: about 30 ms. */
export const STORE_CHECK_ENTRIES_BYTES_MAX: number = 8 * 1024 * 1024;
/**
 * If the small tables have more entries than this, their entries are not checked one by one. A session has five
 * entries, and the check of an entry takes a microsecond or two.
 */
export const STORE_CHECK_ENTRIES_MAX = 16_384;
/** Pages of a larger store's file that are checked before LMDB maps it, from the roots down: about 30 ms. */
export const STORE_CHECK_PAGES_MAX = 2_048;
/** Pieces of a store's file, 256 KiB each, that a reader without LMDB keeps: 16 MiB. */
export const DOCTOR_PIECES_MAX = 64;

/**
 * Bytes of a compact copy that are cleaned in one step: about a millisecond of the session thread. A whole number of
 * pages.
 */
export const COPY_PIECE_BYTES: number = 512 * 1024;
/**
 * Share of a shard's file that must be free before an open compacts the file. If half is free, the copy writes no more
 * bytes than it frees.
 */
export const COMPACT_FREE_SHARE_MIN = 0.5;
/**
 * Bytes of a shard's file that must be free before an open compacts it. Fewer bytes are soon used again, so a copy is
 * not worth its cost.
 */
export const COMPACT_FREE_BYTES_MIN: number = 8 * 1024 * 1024;
/**
 * An open compacts a shard's file only if it has at most this many used bytes: the copy takes one or two seconds. An
 * operator compacts larger files with `troupe compact`.
 */
export const COMPACT_AT_OPEN_BYTES_MAX: number = 64 * 1024 * 1024;
/** Bytes of the record of a backup: a line for each of `SHARDS_MAX` shards. */
export const BACKUP_RECORD_BYTES_MAX: number = 64 * 1024;
/** Result files of a backup that are copied at once: as many as the thread pool has threads. */
export const BACKUP_FILES_AT_ONCE = 4;
/**
 * Bytes of one write while sessions are copied into another number of shards. They are enough to make a commit worth
 * its cost, and take little memory.
 */
export const LAYOUT_BATCH_BYTES: number = 8 * 1024 * 1024;
/** Milliseconds between two log lines while a store is copied into another number of shards. */
export const LAYOUT_REPORT_MS = 5_000;

// ---- the search index and its searches ----------------------------------------------------------------------------

/**
 * Messages that a search index holds: about 30 bytes of memory each. Beyond this number, search no longer finds the
 * oldest messages.
 */
export const SEARCH_DOCUMENTS_MAX = 4_000_000;
/**
 * Messages that a search index accepts before it writes them to a segment. After a crash it reads at most this many
 * again.
 */
export const SEARCH_SEGMENT_DOCUMENTS = 32_768;
/** Characters of message texts after which a segment is written even if `SEARCH_SEGMENT_DOCUMENTS` is not reached. */
export const SEARCH_SEGMENT_CHARACTERS: number = 16 * 1024 * 1024;
/** Messages that one search reads to check whether they match: the best ones by their terms. */
export const SEARCH_CANDIDATES_MAX = 200;
/**
 * Characters of a message that are indexed. In a longer message the interesting words are usually at the beginning, or
 * they also occur in another message.
 */
export const SEARCH_TEXT_CHARACTERS_MAX = 65_536;
/** Characters of one term. A longer term is not a word. */
export const SEARCH_TERM_CHARACTERS_MAX = 64;
/** Stems remembered for the most recent words: more than a language has in daily use. */
export const SEARCH_STEMS_MAX = 65_536;
/** Characters of one query that are read. */
export const SEARCH_QUERY_CHARACTERS_MAX = 1_000;
/** Words and phrases of one query that are read. */
export const SEARCH_UNITS_MAX = 32;
/** Messages that one search of an embedder returns at most: a page that a person reads. */
export const SEARCH_RESULTS_MAX = 100;
/** Messages that a search returns if the embedder does not say how many. */
export const SEARCH_RESULTS_DEFAULT = 20;
/** Most terms between two words that count as near each other. */
export const SEARCH_NEAR_TERMS = 10;
/**
 * Rows of the log handed to an index in one step. With this and the next bound, a step takes less than a millisecond of
 * the session thread.
 */
export const SEARCH_PAGE_ROWS = 128;
/** Stored bytes of the log handed to an index in one step. A larger row crosses in parts. */
export const SEARCH_PAGE_BYTES: number = 128 * 1024;
/** Bytes of a page of an encrypted segment: what one read of a term decrypts, in about 3 microseconds. */
export const SEGMENT_PAGE_BYTES = 4_096;
/** Rows found in one step when one session is read alone. */
export const SEARCH_CHAIN_ROWS = 128;
/** Names of sessions looked up in one step. */
export const SEARCH_PAGE_NAMES = 128;
/** Messages of one session indexed between two checks that the index has room. */
export const SEARCH_BATCH_MESSAGES = 1_024;
/**
 * Longest time in ms that a search waits until the index has read the latest writes. Then it returns the matches so
 * far, and says so.
 */
export const SEARCH_WAIT_MS = 20_000;
/**
 * Milliseconds beyond `SEARCH_WAIT_MS` for which a search waits for the other nodes of a cluster: a node that is gone has
 * delayed it enough then, and what the others found is returned.
 */
export const SEARCH_OTHERS_MS = 2_000;
/**
 * Longest time in ms that a closing runtime waits for the index to be saved. The unsaved part is read from the logs
 * again.
 */
export const SEARCH_CLOSE_MS = 5_000;
/** Characters shown of a found message (contract §6.9). */
export const SEARCH_SNIPPET_CHARACTERS = 300;
/**
 * Session trees that a search scope may open to one session. The list is posted to the search thread with every search.
 */
export const SEARCH_SCOPE_TREES_MAX = 10_000;

// ---- compaction of an open store ----------------------------------------------------------------------------------

/**
 * Milliseconds within which bytes of a deleted session leave a store's files, unless `eraseWithinMs` says otherwise.
 */
export const ERASE_WITHIN_MS_DEFAULT = 60_000;
/** The shortest value of `eraseWithinMs`. Even the erasure of a small session and a small copy together take longer. */
export const ERASE_WITHIN_MS_MIN = 100;
/**
 * The longest value of `eraseWithinMs`: thirty days. A compaction begins after half of that time, which a timer of Node
 * can still wait.
 */
export const ERASE_WITHIN_MS_MAX: number = 30 * 24 * 60 * 60 * 1000;
/**
 * Share of `eraseWithinMs` after which a compaction begins. The rest is left for the erasure of rows and for the copy.
 */
export const COMPACT_START_SHARE = 0.5;
/**
 * Share of all time that the compactions of one shard take at most. After each compaction the shard waits long enough
 * for this share.
 */
export const COMPACT_TIME_SHARE_MAX = 0.1;
/**
 * Milliseconds between two compactions that only make the file smaller. Some stores free and use the same pages again,
 * and would otherwise be copied all the time.
 */
export const COMPACT_FREE_PAUSE_MS: number = 10 * 60 * 1000;
/** Flushes between two looks at the free pages of a file: a look takes a tenth of a millisecond. */
export const COMPACT_LOOK_FLUSHES = 1_024;
/** Milliseconds after which a compaction that failed once is tried again. */
export const COMPACT_RETRY_MS_MIN = 5_000;
/** Milliseconds between two attempts after many failures. */
export const COMPACT_RETRY_MS_MAX: number = 10 * 60 * 1000;
/**
 * While a running shard is compacted into a copy, at most this many bytes of batches are kept in memory for the copy.
 * Beyond this bound the compaction ends.
 */
export const COMPACT_KEPT_BYTES_MAX: number = 64 * 1024 * 1024;
/** Bytes of changes in one transaction of the copy: about a millisecond of the session thread. */
export const COMPACT_SLICE_BYTES_MAX: number = 256 * 1024;
/** Changes in one transaction of the copy: each takes about a microsecond of the session thread. */
export const COMPACT_SLICE_CHANGES_MAX = 512;
/** Once the copy lacks at most this many bytes of changes, commits wait until the copy has them: one transaction. */
export const COMPACT_HELD_BYTES_MAX: number = 256 * 1024;
/** Milliseconds of one slice in which the pages of a copy are checked. */
export const COMPACT_CHECK_SLICE_MS = 1;
/**
 * Bytes of the device that must stay free beside a compact copy of a running shard: for the commits of the shard, and
 * for the commits of the copy.
 */
export const COMPACT_SPARE_BYTES_MIN: number = 128 * 1024 * 1024;
