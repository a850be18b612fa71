/** What was told of whole sessions: which are paused, which are deleted, and which of these nobody can know. */
import type { Line } from './protocol.ts';

/** Whether a session is paused, as its owner was told; `unknown` after an order that was not acknowledged. */
export type PauseStory = 'paused' | 'running' | 'unknown';

/** See the head of the file. */
export class SessionStories {
  readonly pauses: Map<string, PauseStory> = new Map();
  /** Deletions asked for; true: acknowledged. Deleted sessions never come back. */
  readonly deletions: Map<string, boolean> = new Map();
  /** Entries withdrawn, or found too late to be, by receipt: `<session>/<pending id>`. */
  readonly recalls: Map<string, { readonly session: string; readonly pendingId: number; readonly won: boolean }> =
    new Map();

  /** Takes a line of a victim; what is not about a whole session is passed over. */
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

  /** Deletions that were asked for and not acknowledged. */
  get unacknowledged(): readonly string[] {
    return [...this.deletions].filter(([, isTold]) => !isTold).map(([session]) => session);
  }

  /** The session, or one it descends from, was to be deleted: it need not be there. */
  mayBeGone(session: string): boolean {
    return lineageOf(session).some((each) => this.deletions.has(each));
  }

  /** The session, or one it descends from, is deleted: it must not be there. */
  isGone(session: string): boolean {
    return lineageOf(session).some((each) => this.deletions.get(each) === true);
  }
}

/** A session's id and those of its ancestors; a child's id is `<parent>:<n>`. */
export function lineageOf(session: string): readonly string[] {
  const parts = session.split(':');
  return parts.map((_, index) => parts.slice(0, index + 1).join(':'));
}
