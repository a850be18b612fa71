/** Rights of everything in the store: it holds users' messages, so only its owner may read it. */

/** Rights of a file. */
export const PRIVATE_FILE_MODE = 0o600;
/** Rights of a directory. */
export const PRIVATE_DIRECTORY_MODE = 0o700;
