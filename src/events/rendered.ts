/** Types of the view modes: what an event of a message or a mailbox entry looks like to a person. */

/** How much a reader wants to see; each mode shows all that the one before it shows. */
export type ViewMode = 'basic' | 'verbose' | 'debug';

/** All modes, the least talkative first. */
export const VIEW_MODES: readonly ViewMode[] = Object.freeze(['basic', 'verbose', 'debug']);

/** What a person is shown as. */
export type RenderedRole =
  | 'user'
  | 'assistant'
  | 'system'
  | 'tool_call'
  | 'think'
  | 'tool_response'
  | 'pending_subagent'
  | 'pending_mneme'
  | 'pending_melete';

/** A message or a mailbox entry as one mode shows it. Members a mode does not show are absent. */
export interface Rendered {
  readonly role: RenderedRole;
  readonly content?: string;
  /** Epoch ms. */
  readonly timestamp?: number;
  readonly tokens?: number;
  readonly tool?: string;
  readonly input?: string;
  readonly tool_use_id?: string;
  readonly visibility?: 'inner' | 'aloud';
  readonly success?: boolean;
  /** Mailbox entries only. */
  readonly status?: 'pending';
  /** `pending_subagent`, `pending_melete`: the name it comes from. */
  readonly source?: string;
  /** `pending_melete` only. */
  readonly kind?: 'skill' | 'workflow' | 'goal';
}
