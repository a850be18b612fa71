/**
 * Selects the messages that a compression keeps unchanged. A call and its results form one group, wherever they are in
 * the history. The parts of one answer also form a group, together with the answers that continue it (see
 * `continuesAnswer`). A group is kept or archived whole. Pure.
 */

import { continuesAnswer } from '../rules/answer.ts';
import type { LoggedMessage } from '../state/messages.ts';

export class MessageGroups {
  readonly #messages: readonly LoggedMessage[];
  /** For each message, by index: the index of the first message of its group. */
  readonly #leaders: readonly number[];
  readonly #members = new Map<number, number[]>();

  constructor(messages: readonly LoggedMessage[]) {
    this.#messages = messages;
    this.#leaders = leadersOf(messages);
    for (const [index, leader] of this.#leaders.entries()) {
      const members = this.#members.get(leader);
      if (members === undefined) this.#members.set(leader, [index]);
      else members.push(index);
    }
  }

  /** Indexes of the group that contains a message, ascending. */
  of(index: number): readonly number[] {
    return this.#members.get(this.#leaders[index] ?? index) ?? [];
  }

  /**
   * Indexes of the kept messages. All messages from index `end` on are kept, with their whole groups. Before `end`, the
   * newest groups are kept until they contain `count` messages of the history. System messages are not counted.
   */
  recent(count: number, end: number): ReadonlySet<number> {
    const kept = new Set<number>();
    for (let index = this.#messages.length - 1; index >= end; index -= 1) {
      for (const member of this.of(index)) kept.add(member);
    }
    let counted = 0;
    for (let index = end - 1; index >= 0 && counted < count; index -= 1) {
      if (kept.has(index) || this.#messages[index]?.prompt === true) continue;
      for (const member of this.of(index)) {
        kept.add(member);
        if (isCounted(this.#messages[member])) counted += 1;
      }
    }
    return kept;
  }

  /**
   * The index at which the last `count` messages of the history begin, or a lower index if that one would divide a
   * group. Undefined if only the index of the first message would fit.
   */
  tailStart(count: number): number | undefined {
    const first = this.#messages.findIndex((message) => message.prompt !== true);
    let counted = 0;
    /** The lowest index of any group that has a member at or after the current index. */
    let reach = this.#messages.length;
    for (let index = this.#messages.length - 1; index > first; index -= 1) {
      if (isCounted(this.#messages[index])) counted += 1;
      reach = Math.min(reach, this.#leaders[index] ?? index, this.of(index)[0] ?? index);
      if (counted >= count && reach === index) return index;
    }
    return undefined;
  }
}

/** True if the logged message begins a message of the history. Later parts of an answer do not. */
function isCounted(message: LoggedMessage | undefined): boolean {
  return message !== undefined && message.inAnswer !== true;
}

/** The number of history messages that these logged messages form, system messages included. */
export function historySize(messages: readonly LoggedMessage[]): number {
  let size = 0;
  for (const message of messages) if (message.inAnswer !== true) size += 1;
  return size;
}

function leadersOf(messages: readonly LoggedMessage[]): readonly number[] {
  const leaders: number[] = [];
  const byCall = new Map<string, number>();
  /**
   * The leader (first message of the group) of the last answer. Results may come between that answer and an answer that
   * continues it.
   */
  let answer = 0;
  for (const [index, message] of messages.entries()) {
    const isJoined = message.inAnswer === true || continuesAnswer(messages[index - 1], message);
    const leader = isJoined ? answer : index;
    if (message.blocks !== undefined) answer = leader;
    leaders.push(leader);
    if (message.type === 'tool_call' && message.toolUseId !== undefined) byCall.set(message.toolUseId, leader);
  }
  for (const [index, message] of messages.entries()) {
    if (message.type !== 'tool_response' || message.toolUseId === undefined) continue;
    leaders[index] = byCall.get(message.toolUseId) ?? index;
  }
  return leaders;
}
