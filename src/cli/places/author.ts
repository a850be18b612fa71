/** The author of a change that a command makes in a data directory, for the audit log. */
import { userInfo } from 'node:os';
import { AUTHOR_CHARACTERS_MAX } from '../../base/bounds.ts';
import { type Arguments, type OptionSpec, UsageError } from '../command.ts';
import type { Place } from './place.ts';

/** The option that names the author. */
export const AUTHOR_OPTION: { readonly by: OptionSpec } = {
  by: { kind: 'text', value: 'NAME', help: 'In a directory: author for the audit log (default: the user)' },
};

/**
 * The author of a change in this place: the name that `--by` gives, or the user of the system. A server takes the
 * author from the token of the request. Throws `UsageError` for `--by` on a server, and for a name that is empty or too
 * long.
 */
export function authorAt(place: Place, given: Arguments): string {
  const by = given.text('by');
  if (by === undefined) return systemUser();
  if (place.kind === 'server')
    throw new UsageError(`--by is for a directory; on ${place.shown} the token names the author`);
  if (by === '' || by.length > AUTHOR_CHARACTERS_MAX) {
    throw new UsageError(`--by must have 1 to ${AUTHOR_CHARACTERS_MAX} characters`);
  }
  return by;
}

function systemUser(): string {
  try {
    return userInfo().username;
  } catch {
    // The user has no entry in the system's list, as in some containers.
    return `user ${process.getuid?.() ?? 'unknown'}`;
  }
}
