/** The parts of the handle of a session. Host thread. */
import type { DefinitionSource } from '../../definitions/definition.ts';
import type { EventHub } from '../events/event-hub.ts';
import type { MessageCallbacks } from '../events/message-callbacks.ts';
import type { ShardLink } from '../host/shard-link.ts';
import type { OfSession } from '../protocol/addresses.ts';
import type { OutputSchema } from '../protocol/output-option.ts';
import type { Child, ChildParts } from './child.ts';
import type { Family } from './family.ts';
import type { DeleteOptions } from './session-options.ts';

/** The parts of a handle. */
export interface SessionParts {
  readonly id: string;
  /** The members of each request that identify the agent. */
  readonly named: Omit<OfSession, 'session'>;
  readonly link: ShardLink;
  readonly hub: EventHub;
  readonly callbacks: MessageCallbacks;
  readonly remove: (id: string, options?: DeleteOptions) => Promise<boolean>;
  /** The parts for the handle of another session. That session must exist when the handle is used. */
  readonly sibling: (id: string) => SessionParts;
  /** Skills and workflows; missing: the options of `open` name no directories of definitions. */
  readonly definitions?: DefinitionSource | undefined;
  /** The schema of the answers of the session's agent, if the handle was made with that agent. */
  readonly output?: OutputSchema | undefined;
  /** Makes the handles that extend or join sessions. They are injected, because their classes import `session.ts`. */
  readonly kin: {
    readonly child: <Answer>(parts: SessionParts, of: ChildParts) => Child<Answer>;
    /** `ended`: requests the ids of the children that have ended, in order of completion. */
    readonly family: <Answer>(
      children: readonly Child<Answer>[],
      ended: () => Promise<readonly string[]>,
    ) => Family<Answer>;
  };
}
