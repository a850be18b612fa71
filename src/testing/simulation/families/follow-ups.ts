/**
 * Children that have ended are asked again (I27 of `invariants.ts`): the embedder sends them messages, and spawns their
 * tasks again with `continue`.
 *
 * Owns: the schedule of these requests, drawn from a stream that no other draw uses. Does not own: the children.
 */
import { defined } from '../../../base/defined.ts';
import type { SpawnStory } from '../ledger.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { agentOfSession } from '../swarm.ts';
import { drawnFor, LifeActions, type LifeParts } from './life-actions.ts';

/** Share of the runs in which ended children are asked again. */
const SHARE = 0.4;
/** Separates the stream of these draws from that of the whole run. */
const STREAM = 0x5eed_f011;
/** Most requests in one life. */
const REQUESTS_MAX = 12;

/** The random numbers of a run in which ended children are asked again; undefined: this run does not ask them. */
export function followUpRandom(seed: number): SeededRandom | undefined {
  return drawnFor(seed, STREAM, SHARE);
}

/** The requests of one life. */
export class FollowUps {
  readonly #parts: LifeParts;
  readonly #random: SeededRandom;
  readonly #actions: LifeActions;

  constructor(parts: LifeParts, random: SeededRandom) {
    this.#parts = parts;
    this.#random = random;
    this.#actions = new LifeActions(parts, random, 'f');
  }

  /** Asks children at random moments, until the process dies or `leave` is called. */
  run(): Promise<void> {
    return this.#actions.run(REQUESTS_MAX, () => {
      const born = [...this.#parts.ledger.spawns.values()].filter(isLasting);
      const story = this.#random.pick([...born, undefined]);
      if (story === undefined) return undefined;
      // The request is not awaited, so several children may wait for a place at once.
      const isContinued = story.key !== undefined && this.#random.chance(0.5);
      void (isContinued ? this.#continue(story) : this.#send(story.child));
      return undefined;
    });
  }

  /** Stops the requests. */
  leave(): void {
    this.#actions.leave();
  }

  #continue({ uid, session, key, replies, child }: SpawnStory): Promise<void> {
    const { runtime, ledger, process, trace } = this.#parts;
    return this.#actions.attempts.attempt('continue', async () => {
      const handle = runtime.session(session, agentOfSession(session));
      const again = await handle.spawn({ task: `${uid} task`, replies }, { ...defined({ key }), continue: true });
      if (!process.isAlive) return;
      trace(`continued ${uid} as ${again.id}`);
      if (again.id !== child) ledger.violate('duplicated', `${uid} is ${child} and ${again.id}`);
    });
  }

  #send(child: string): Promise<void> {
    const { runtime, ledger, process, trace } = this.#parts;
    const uid = this.#actions.uid('m');
    const content = `${uid} please do`;
    const sentAfter = ledger.acknowledgedUpTo(child);
    ledger.messages.set(uid, { uid, session: child, content, key: undefined, deliver: undefined, sentAfter });
    return this.#actions.attempts.attempt('ask', async () => {
      const receipt = await runtime.session(child, agentOfSession(child)).send(content);
      if (!process.isAlive) return;
      trace(`asked ${child} again: ${receipt.id}`);
      ledger.acknowledged(uid, receipt.pendingId, receipt.duplicate);
    });
  }
}

/** True for the story of a child that is never deleted, and that owes no structured reply. */
function isLasting(story: SpawnStory): story is SpawnStory & { readonly child: string } {
  return story.child !== undefined && story.session.startsWith('s') && story.form === undefined;
}
