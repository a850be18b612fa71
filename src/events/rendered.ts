/** Types of the view modes: the form of a message or a mailbox entry that a person sees. */

/** How much a reader wants to see; each mode shows everything that the previous mode shows. */
export type ViewMode = 'basic' | 'verbose' | 'debug';

/** All modes, the tersest first. */
export const VIEW_MODES: readonly ViewMode[] = Object.freeze(['basic', 'verbose', 'debug']);

/** The role under which an item is shown. */
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

/** A message or a mailbox entry as one mode shows it. Members that a mode does not show are absent. */
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
  /** Only for mailbox entries. */
  readonly status?: 'pending';
  /** The name of the source; only for `pending_subagent` and `pending_melete`. */
  readonly source?: string;
  /** The subject of the entry; only for `pending_melete`. */
  readonly kind?: 'skill' | 'workflow' | 'goal';
}
