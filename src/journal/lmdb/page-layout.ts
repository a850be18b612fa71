/**
 * Flags, offsets and sizes of LMDB's pages and entries: struct MDB_meta, MDB_db, MDB_page, MDB_node and MDB_ovpage of
 * LMDB's mdb.c as lmdb builds it, little-endian. The page header has 24 bytes. It has the numbers of the page and its
 * transaction.
 */

/** Flag of a branch page of a tree. */
export const BRANCH_FLAG = 0x01;
/** Flag of a leaf page of a tree. */
export const LEAF_FLAG = 0x02;
/** Flag of the first page of a large value. */
export const OVERFLOW_FLAG = 0x04;
/** Flag of a meta page. */
export const META_FLAG = 0x08;
/** Flag of an entry whose value is in overflow pages. */
export const NODE_BIG_DATA = 0x01;
/** Flag of an entry that is the record of a table. */
export const NODE_SUB_DATA = 0x02;
/** Flag of a table whose keys are native integers of 32 or 64 bits. */
export const INTEGER_KEY_FLAG = 0x08;
/** The number that marks a meta page of LMDB, and the version of its layout. */
export const MAGIC = 0xbeefc0de;
export const DATA_VERSION = 2;
/** Offset of the flags in the head of a page. */
export const FLAGS_AT = 18;
/**
 * Offsets, in the head of a tree page, of the lower and upper end of its gap, both counted from the end of the head.
 */
export const LOWER_AT = 20;
export const UPPER_AT = 22;
/** Bytes of the head of a page. */
export const PAGE_HEADER_BYTES = 24;
/** Bytes of an entry before its key. */
export const NODE_HEADER_BYTES = 8;
/** Offset of the page size in a meta page. */
export const PAGE_BYTES_AT = 48;
/** Offset of the commit's number in a meta page. */
export const META_TRANSACTION_AT = 152;
