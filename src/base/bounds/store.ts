/** Bounds of the journal and of the search index (`src/journal`, `src/search`, `src/runtime/search`). */

// ---- rows, flushes and blobs --------------------------------------------------------------------------------------

/** Turns packed into one row of the journal; bounds what a reader of one session decodes in vain. */
export const ROW_TURNS_MAX = 64;
/** Rows written before one flush is waited for; keeps the p99 of a flush under 20 ms at thousands in flight. */
export const FLUSH_ROWS_MAX = 4_096;
/** UTF-8 bytes after which a row of the journal takes no further turn; one larger turn has a row of its own. */
export const ROW_BYTES_MAX: number = 64 * 1024;
/** UTF-8 bytes gathered for one flush; what comes later rides the next, so that a flush of a slow disk stays short. */
export const FLUSH_BYTES_MAX: number = 4 * 1024 * 1024;
/** Characters of a session's name in the journal: four times the longest session id, far below LMDB's 1,978 bytes. */
export const JOURNAL_NAME_CHARACTERS_MAX = 512;
/** Rows fetched at a time by a scan of the log, so that no cursor outlives a step of the reader. */
export const SCAN_ROWS = 16;
/** Characters of one session's entries held while its back pointers are followed; beyond it rows are fetched twice. */
export const READ_HELD_CHARACTERS_MAX: number = 4 * 1024 * 1024;
/** Names fetched at a time when the name table is listed. */
export const SCAN_NAMES = 256;
/** UTF-8 bytes of a commit that may run on the session thread itself: a few turns. */
export const COMMIT_HERE_BYTES_MAX: number = 8 * 1024;
/** Milliseconds such a commit may take: no longer than a turn of the loop may. */
export const COMMIT_HERE_MS_MAX = 2;
/** Bytes of a row of the journal from which its data is compressed: below, the call costs more than a part of a page is worth. */
export const ROW_PACKED_BYTES_MIN = 512;
/** Bytes of rows of one flush that are compressed on the session thread: 1 to 5 ms; the rest is on threads of the pool. */
export const ROWS_PACKED_HERE_BYTES_MAX: number = 1024 * 1024;
/** Bytes of unpacked rows a journal keeps for the next reader: as many as a few dozen sessions of one tick share. */
export const ROW_CACHE_BYTES_MAX: number = 1024 * 1024;
/** UTF-8 bytes of a turn from which its row holds it as bytes until it is written: smaller ones cost more to copy than to keep. */
export const ROW_TURN_HELD_BYTES_MIN: number = 16 * 1024;
/** UTF-8 bytes of a blob from which it is compressed. */
export const BLOB_PACKED_BYTES_MIN = 512;
/** UTF-8 bytes of a blob up to which it is compressed, and beyond which nothing is unpacked: half of the longest string. */
export const BLOB_PACKED_BYTES_MAX: number = 256 * 1024 * 1024;

// ---- the store and its files --------------------------------------------------------------------------------------

/** Bytes of address space one shard's file is mapped with; see `src/journal/lmdb/environment.ts` for the reason. */
export const STORE_MAP_BYTES: number = 64 * 1024 ** 3;
/** Bytes of the data file that are kept ready behind the last page, at least: some commits of a lone session. */
export const STORE_ROOM_BYTES_MIN: number = 1024 * 1024;
/** Bytes kept ready at most; one flush of `FLUSH_BYTES_MAX` needs as many at worst, and a store of 128 MiB grows by an eighth. */
export const STORE_ROOM_BYTES_MAX: number = 16 * 1024 * 1024;
/** Bytes that must be free, beside twice the commit, where the file system writes to new blocks: its own tables need some as well. */
export const STORE_SPARE_BYTES_MIN: number = 4 * 1024 * 1024;
/** Bytes of a new data file that are made ready before lmdb makes its tables, in one commit each; six times what they take. */
export const STORE_OPEN_BYTES: number = 256 * 1024;
/** Bytes of lmdb's lock file that are made ready: what its table of 126 readers takes, and a page more. */
export const STORE_LOCK_FILE_BYTES: number = 12 * 1024;
/** Files of a store whose rights are looked at when it is opened: all of most stores, in a few milliseconds. */
export const STORE_RIGHTS_ENTRIES_MAX = 256;
/** Milliseconds between looks whether the store is still where it was: a lost one is noticed within a second. */
export const STORE_LOOK_MS = 500;
/** Milliseconds an opener waits for a younger opener to give way before it calls the store locked. */
export const STORE_LOCK_WAIT_MS = 5_000;
/** Bytes of a store's file whose pages are all looked at before LMDB maps it: about 30 ms. */
export const STORE_CHECK_BYTES_MAX: number = 32 * 1024 * 1024;
/** Bytes of a store's file of which each entry of the small tables is looked at as well: about 30 ms. */
export const STORE_CHECK_ENTRIES_BYTES_MAX: number = 8 * 1024 * 1024;
/** Entries of those tables up to which that is done: five a session, a microsecond or two each. */
export const STORE_CHECK_ENTRIES_MAX = 16_384;
/** Pages of a larger store's file looked at before LMDB maps it, from the roots down: about 30 ms. */
export const STORE_CHECK_PAGES_MAX = 2_048;
/** Pieces of a store's file, 256 KiB each, a reader without LMDB keeps: 16 MiB. */
export const DOCTOR_PIECES_MAX = 64;

// ---- the search index and its searches ----------------------------------------------------------------------------

/** Messages a search index holds: about 30 bytes of memory each; beyond it the oldest cannot be found by search any more. */
export const SEARCH_DOCUMENTS_MAX = 4_000_000;
/** Messages a search index takes in before it writes them to a segment: what a crash makes it read again. */
export const SEARCH_SEGMENT_DOCUMENTS = 32_768;
/** Characters of their texts that have the same effect. */
export const SEARCH_SEGMENT_CHARACTERS: number = 16 * 1024 * 1024;
/** Messages read to see whether they match, for one search: the best by their terms. */
export const SEARCH_CANDIDATES_MAX = 200;
/** Characters of a message that are indexed: what is searched for in a longer one stands at its beginning, or in another. */
export const SEARCH_TEXT_CHARACTERS_MAX = 65_536;
/** Characters of one term; what is longer is no word. */
export const SEARCH_TERM_CHARACTERS_MAX = 64;
/** Stems remembered, of the words met last: more than a language has in daily use. */
export const SEARCH_STEMS_MAX = 65_536;
/** Characters of one query that are read. */
export const SEARCH_QUERY_CHARACTERS_MAX = 1_000;
/** Words and phrases of one query that are read. */
export const SEARCH_UNITS_MAX = 32;
/** Terms between two words that stand near each other. */
export const SEARCH_NEAR_TERMS = 10;
/** Rows of the log handed to an index in one step: with the next bound, less than a millisecond of the session thread. */
export const SEARCH_PAGE_ROWS = 128;
/** Stored bytes of the log handed over in one step; a larger row goes in parts. */
export const SEARCH_PAGE_BYTES: number = 128 * 1024;
/** Rows of one session found in one step, when it is read by itself. */
export const SEARCH_CHAIN_ROWS = 128;
/** Names of sessions looked up in one step. */
export const SEARCH_PAGE_NAMES = 128;
/** Messages of one session taken into an index between two looks at whether it has room. */
export const SEARCH_BATCH_MESSAGES = 1_024;
/** Longest a search waits for the index to have read what was written; then it tells what it has, and says so. */
export const SEARCH_WAIT_MS = 20_000;
/** Longest a closing runtime waits for the index to be saved; what is not is read from the logs again. */
export const SEARCH_CLOSE_MS = 5_000;
/** Characters shown of a message that was found (contract §6.9). */
export const SEARCH_SNIPPET_CHARACTERS = 300;
/** Session trees a search scope may open to one session: a list of them crosses to the search thread with every search. */
export const SEARCH_SCOPE_TREES_MAX = 10_000;
