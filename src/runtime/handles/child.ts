/** A sub-agent as its spawner holds it: a session, and how it ended. */
import { CancelledError, errorFromShape, TurnFailedError } from '../../base/errors.ts';
import type { ChildEnd } from '../protocol/protocol.ts';
import { Session, type SessionParts } from './session.ts';

/** How a child ended. */
export interface ChildExit {
  readonly reason: 'completed' | 'failed' | 'cancelled';
}

/** See the head of the file. */
export class Child extends Session {
  readonly parent: Session;
  readonly #link: SessionParts['link'];
  #name: string;

  constructor(parts: SessionParts, of: { readonly name: string; readonly parent: Session }) {
    super(parts);
    this.#name = of.name;
    this.parent = of.parent;
    this.#link = parts.link;
  }

  /**
   * The child's nickname: its messages reach the parent as `from_<name>`. A child spawned without a name is called
   * `agent-N`. If an enricher named the child, the handle has that name only after the child's end.
   */
  get name(): string {
    return this.#name;
  }

  /** The first result, or the final text of the first turn. Rejects with `TurnFailedError` or `CancelledError`. */
  async reply(): Promise<string> {
    const end = await this.end();
    if (end.reason === 'completed') return end.reply;
    throw childError(this.name, end);
  }

  /** Resolves when the child has ended for the first time; it stays addressable. */
  async exit(): Promise<ChildExit> {
    const { reason } = await this.end();
    return { reason };
  }

  /** How the child ended: reason, reply and error. */
  async end(): Promise<ChildEnd> {
    const end = await this.#link.call('child.wait', this.address, true);
    this.#name = end.name ?? this.#name;
    return end;
  }
}

/** The error that a child's end represents. */
export function childError(name: string, end: ChildEnd): Error {
  const cause = end.error === undefined ? {} : { cause: errorFromShape(end.error), data: { error: end.error } };
  if (end.reason === 'cancelled') return new CancelledError(`child ${JSON.stringify(name)} was cancelled`, cause);
  return new TurnFailedError(`child ${JSON.stringify(name)} failed: ${end.error?.message ?? 'no reason given'}`, cause);
}
