/** Rights of everything the store is made of: it holds what users said, so its owner alone reads it. */

/** Of a file. */
export const PRIVATE_FILE_MODE = 0o600;
/** Of a directory. */
export const PRIVATE_DIRECTORY_MODE = 0o700;
