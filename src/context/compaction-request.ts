/**
 * The request for the summary of a compression: the conversation, followed by an instruction. The instruction is sent
 * and never stored. The part before it is byte for byte the beginning of the conversation's own requests. Pure.
 */

import type { LoggedMessage } from '../session/state/messages.ts';
import type { CompactionCall, SessionState } from '../session/state/state.ts';
import { type RenderOptions, renderSession } from './render.ts';
import type { RenderedMessage } from './request-draft.ts';

export const COMPACTION_INSTRUCTION: string = [
  '[system] This conversation has grown long. Its older part is about to be replaced by a summary that you write now.',
  'Write down everything that is needed to go on without that part: what the user wants and has decided, what was done and found out,',
  'names, paths, numbers and identifiers exactly as they are, what failed and why, what is still open and what comes next.',
  'If the conversation begins with an earlier summary, take over what still matters of it.',
  'Call no tools. Answer with text alone: first one line <topics>a few words, separated by commas</topics>, then the summary.',
].join(' ');

/** The instruction as the last message of the request. `last`: the message before it. */
export function instructionMessage(
  state: SessionState,
  compaction: CompactionCall,
  last: LoggedMessage | undefined,
): LoggedMessage {
  const message: LoggedMessage = {
    seq: state.nextMessageSeq,
    at: compaction.at,
    type: 'user_message',
    content: COMPACTION_INSTRUCTION,
    tokens: 0,
  };
  const followsAnswered = state.sealedSeq > 0 && (last?.seq ?? 0) <= state.sealedSeq;
  return followsAnswered ? { ...message, opens: true } : message;
}

/** The messages of a request for a summary. */
export function compactionMessages(
  state: SessionState,
  compaction: CompactionCall,
  options: RenderOptions,
): readonly RenderedMessage[] {
  const end = compaction.tail === undefined ? -1 : state.messages.findIndex(({ seq }) => seq === compaction.tail);
  const messages = end === -1 ? state.messages : state.messages.slice(0, end);
  const asked = [...messages, instructionMessage(state, compaction, messages.at(-1))];
  return renderSession(state, options, asked);
}
