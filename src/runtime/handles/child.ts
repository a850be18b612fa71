/** `Child`: the handle of a sub-agent. It is a session handle with methods that wait for the end of the sub-agent. */
import { CancelledError, errorFromShape, TurnFailedError } from '../../base/errors.ts';
import { type OutputSchema, typedAnswer } from '../protocol/output-option.ts';
import type { ChildEnd } from '../protocol/protocol.ts';
import { forgivenAtClose } from './at-close.ts';
import { codeOf, issuesOf } from './receipt.ts';
import { Session } from './session.ts';
import type { SessionParts } from './session-parts.ts';

/** How a child ended. */
export interface ChildExit {
  readonly reason: 'completed' | 'failed' | 'cancelled';
}

/** The facts about a child that its handle keeps. `output`: the schema of the child's structured reply. */
export interface ChildParts {
  readonly name: string;
  readonly parent: Session<unknown>;
  readonly output?: OutputSchema | undefined;
}

/** The reply of a child that has completed. Rejects with `TurnFailedError` if the schema's own checks refuse it. */
export let replyOf: <Answer>(child: Child<Answer>, end: ChildEnd) => Answer | Promise<Answer>;

/** See the head of the file. `Answer`: text, or the type that the schema of a structured reply describes. */
export class Child<Answer = string> extends Session {
  static {
    replyOf = (child, end) => child.#replyOf(end);
  }

  readonly parent: Session<unknown>;
  readonly #link: SessionParts['link'];
  readonly #output: OutputSchema | undefined;
  #name: string;

  constructor(parts: SessionParts, of: ChildParts) {
    super(parts);
    this.#name = of.name;
    this.#output = of.output;
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

  /**
   * The child's reply: its first result, or else the final text of its first turn. If `spawn` had an `output`, the
   * reply is the structured reply. If a child was cancelled or failed and then works again, this resolves when the
   * child has ended again. Rejects with `TurnFailedError` or `CancelledError`. If there is no valid structured reply,
   * the error's code is `answer_invalid`, `answer_refused` or `answer_cut`.
   */
  reply(): Promise<Answer> {
    return forgivenAtClose(this.#link, this.#reply());
  }

  async #reply(): Promise<Answer> {
    const end = await this.#end();
    if (end.reason !== 'completed') throw childError(this.name, end);
    return this.#replyOf(end);
  }

  #replyOf(end: ChildEnd): Answer | Promise<Answer> {
    return this.#output === undefined ? (end.reply as Answer) : typedAnswer<Answer>(this.#output, end.output);
  }

  /**
   * Resolves when the child has ended; the handle can still be used. A child that was cancelled or failed and works
   * again counts as not ended. A child that has completed its task stays ended, even if it works again.
   */
  exit(): Promise<ChildExit> {
    return forgivenAtClose(
      this.#link,
      this.#end().then(({ reason }) => ({ reason })),
    );
  }

  /** How the child ended: reason, reply and error. */
  end(): Promise<ChildEnd> {
    return forgivenAtClose(this.#link, this.#end());
  }

  async #end(): Promise<ChildEnd> {
    const end = await this.#link.call('child.wait', this.address, true);
    this.#name = end.name ?? this.#name;
    return end;
  }
}

/** The error for the end of a child that did not complete. */
export function childError(name: string, end: ChildEnd): Error {
  const { error } = end;
  const cause =
    error === undefined ? {} : { cause: errorFromShape(error), data: { error, ...issuesOf(error) }, ...codeOf(error) };
  if (end.reason === 'cancelled') return new CancelledError(`child ${JSON.stringify(name)} was cancelled`, cause);
  return new TurnFailedError(`child ${JSON.stringify(name)} failed: ${end.error?.message ?? 'no reason given'}`, cause);
}
