/** Reports about whole sessions: which are paused, which are deleted, and for which this is unknown. */
import type { Line } from './protocol.ts';

/** True if a session is paused, as reported to its owner; `unknown` after an order that was not acknowledged. */
export type PauseStory = 'paused' | 'running' | 'unknown';

/** See the head of the file. */
export class SessionStories {
  readonly pauses: Map<string, PauseStory> = new Map();
  /** Requested deletions; true: acknowledged. Deleted sessions never come back. */
  readonly deletions: Map<string, boolean> = new Map();
  /** Sessions that a deletion did not find. */
  readonly absent: Set<string> = new Set();
  /** Entries that were recalled, or whose recall came too late, by receipt: `<session>/<pending id>`. */
  readonly recalls: Map<string, { readonly session: string; readonly pendingId: number; readonly won: boolean }> =
    new Map();

  /** Takes a line of a victim; ignores lines that are not about a whole session. */
  hear(line: Line): void {
    switch (line.type) {
      case 'pausing':
      case 'resuming':
        this.pauses.set(line.session, 'unknown');
        return;
      case 'paused':
        this.pauses.set(line.session, 'paused');
        return;
      case 'resumed':
        this.pauses.set(line.session, 'running');
        return;
      case 'deleting':
        if (!this.deletions.has(line.session)) this.deletions.set(line.session, false);
        return;
      case 'deleted':
        this.deletions.set(line.session, true);
        if (!line.wasThere) this.absent.add(line.session);
        return;
      case 'recalled':
        this.recalls.set(`${line.session}/${line.pendingId}`, line);
        return;
      default:
        return;
    }
  }

  /** Sessions that may be paused. */
  get maybePaused(): readonly string[] {
    return [...this.pauses].filter(([, story]) => story !== 'running').map(([session]) => session);
  }

  /** True if the deletion of this session itself was requested. */
  isRequested(session: string): boolean {
    return this.deletions.has(session);
  }

  /** Deletions that were requested and not acknowledged. */
  get unacknowledged(): readonly string[] {
    return [...this.deletions].filter(([, isTold]) => !isTold).map(([session]) => session);
  }

  /** The session may be missing, because its deletion, or that of an ancestor, was requested. */
  mayBeGone(session: string): boolean {
    return lineageOf(session).some((each) => this.deletions.has(each));
  }

  /** The session must be missing, because it or an ancestor was deleted. */
  isGone(session: string): boolean {
    return lineageOf(session).some((each) => this.deletions.get(each) === true);
  }
}

/** A session's id and those of its ancestors; a child's id is `<parent>:<n>`. */
export function lineageOf(session: string): readonly string[] {
  const parts = session.split(':');
  return parts.map((_, index) => parts.slice(0, index + 1).join(':'));
}
