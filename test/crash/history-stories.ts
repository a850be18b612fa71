/** Reports about histories: their notes, their forks, and the tasks begun in them. */
import type { Line } from './protocol.ts';
import type { SessionFacts } from './session-facts.ts';

/**
 * A note as it was reported to its writer. `texts` are its possible texts; null means that the note is absent. There
 * are several possible texts after an order that was not acknowledged.
 */
export interface NoteStory {
  readonly session: string;
  texts: readonly (string | null)[];
}

/** See the head of the file. */
export class HistoryStories {
  readonly notes: Map<string, NoteStory> = new Map();
  readonly forks: Map<string, { readonly session: string; readonly digest: string }> = new Map();
  /** The highest acknowledged task, by session. */
  readonly tasks: Map<string, number> = new Map();

  /** Takes a line of a victim; ignores lines that are not about a history. */
  hear(line: Line): void {
    switch (line.type) {
      case 'noting': {
        const story = this.notes.get(line.uid) ?? { session: line.session, texts: [null] };
        this.notes.set(line.uid, { ...story, texts: [...story.texts, line.text] });
        return;
      }
      case 'noted':
        this.notes.set(line.uid, { session: line.session, texts: [line.text] });
        return;
      case 'forked':
        this.forks.set(line.fork, { session: line.session, digest: line.digest });
        return;
      case 'tasked':
        this.tasks.set(line.session, Math.max(line.task, this.tasks.get(line.session) ?? 0));
        return;
      default:
        return;
    }
  }

  /** Differences between the store and the reports. `mayBeGone`: true for a session that may be missing. */
  contradictions(
    sessions: ReadonlyMap<string, SessionFacts>,
    mayBeGone: (session: string) => boolean = () => false,
  ): readonly string[] {
    const found: string[] = [];
    for (const [uid, { session, texts }] of this.notes) {
      const stored = sessions.get(session)?.notes.get(uid) ?? null;
      if (!texts.includes(stored))
        found.push(`note ${uid} of ${session} is ${JSON.stringify(stored)}, told was ${JSON.stringify(texts)}`);
    }
    for (const [fork, { session, digest }] of this.forks) {
      if (mayBeGone(fork)) continue;
      const begins = sessions.get(fork)?.begins;
      if (begins !== digest) found.push(`${fork}, a fork of ${session}, begins with ${begins}, told was ${digest}`);
    }
    for (const [session, task] of this.tasks) {
      const current = sessions.get(session)?.state.tasks.current ?? 0;
      if (current < task) found.push(`task ${task} of ${session} was told, the store has ${current}`);
    }
    return found;
  }
}
