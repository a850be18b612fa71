/** Rules for `role: "system"` in `messages`: R13, R53. Pure. */
import { isRecord } from '../../base/json.ts';
import { isServerResult } from '../../base/messages.ts';
import { blockPath, given, type MessageView, member, needsBeta, type Report, type RequestView } from './report.ts';

const CLEAR_AT = ['mid-conversation-system-clear-at-2026-08-21'];
const OUTPUT_CONFIG = ['mid-conversation-output-config-2026-07-01'];

/** Reports R13 and R53. */
export function checkSystemMessages(view: RequestView, report: Report): void {
  for (const message of view.messages) {
    checkFields(view, message, report);
    if (message.role !== 'system' || view.traits.systemMessages !== false) continue;
    report(
      'R13',
      `messages.${message.index}`,
      'messages: Unexpected role "system". The Messages API accepts a top-level system parameter, not "system" as an input message role.',
    );
  }
  if (view.traits.systemMessages === true) checkPlaces(view, report);
}

/** True for a system message without content that sets the effort. Such a message may be anywhere. */
export function isEffortOnly(message: MessageView): boolean {
  if (message.role !== 'system' || message.blocks.length > 0) return false;
  return given(member(message.fields['output_config'], 'effort'));
}

/** The groups of adjacent system messages that have content, each with the messages around it. */
export function systemGroups(view: RequestView): readonly SystemGroup[] {
  const messages = view.messages.filter((message) => !isEffortOnly(message));
  const groups: SystemGroup[] = [];
  for (let place = 0; place < messages.length; place += 1) {
    const start = place;
    while (messages[place]?.role === 'system') place += 1;
    if (place === start) continue;
    groups.push({ messages: messages.slice(start, place), before: messages[start - 1], after: messages[place] });
  }
  return groups;
}

/** Adjacent system messages, which the API judges as one message. */
export interface SystemGroup {
  readonly messages: readonly MessageView[];
  readonly before: MessageView | undefined;
  readonly after: MessageView | undefined;
}

/** True for an assistant message that ends with the result of a server tool. The model's turn has then paused. */
export function endsInServerResult(message: MessageView | undefined): boolean {
  const last = message?.blocks.at(-1);
  return message?.role === 'assistant' && last !== undefined && isServerResult(last);
}

/**
 * Reports R13: a system message must follow a user message or a paused turn, and must be last or precede an assistant
 * message.
 */
function checkPlaces(view: RequestView, report: Report): void {
  for (const { messages, before, after } of systemGroups(view)) {
    const path = `messages.${messages[0]?.index}`;
    if (before?.role !== 'user' && !endsInServerResult(before)) {
      report('R13', path, `${path}: a message of role 'system' must follow a user message or a server tool result`);
    } else if (after !== undefined && after.role !== 'assistant') {
      report('R13', path, `${path}: a message of role 'system' must be last or precede an assistant message`);
    }
  }
}

/** Reports R53: the fields that only a system message has. */
function checkFields(view: RequestView, message: MessageView, report: Report): void {
  const path = `messages.${message.index}`;
  const { clear_at: clearAt, output_config: config } = message.fields;
  if (given(config)) checkConfig(view, message, config, `${path}.output_config`, report);
  if (!given(clearAt)) return;
  const at = `${path}.clear_at`;
  if (!view.hasBeta(...CLEAR_AT)) return needsBeta(view, CLEAR_AT, 'R53', at, report);
  if (message.role !== 'system') {
    return report('R53', at, `${at}: clear_at is only permitted on role 'system' messages`);
  }
  if (clearAt === 'never') return;
  if (clearAt !== 'next_user_message') {
    return report('R53', at, `${at}: Input should be 'next_user_message' or 'never'`);
  }
  if (given(config)) report('R53', path, `${path}: output_config is not permitted on a turn-scoped system message`);
  message.blocks.forEach((block, index) => {
    const place = blockPath(message, index);
    if (block.type !== 'text') {
      const text = "a turn-scoped system message supports text blocks only (clear_at: 'next_user_message')";
      report('R53', place, `${place}: ${text}`);
    } else if (given(block['cache_control'])) {
      report('R53', place, `${place}: cache_control is not permitted on a turn-scoped system message`);
    }
  });
}

function checkConfig(view: RequestView, message: MessageView, config: unknown, path: string, report: Report): void {
  if (message.role !== 'system') {
    report('R53', path, `${path}: Extra inputs are not permitted`);
    return;
  }
  if (!isRecord(config)) {
    report('R53', path, `${path}: Input should be a valid dictionary`);
    return;
  }
  needsBeta(view, OUTPUT_CONFIG, 'R53', path, report);
  for (const key of Object.keys(config)) {
    if (key !== 'effort') report('R53', `${path}.${key}`, `${path}.${key}: Extra inputs are not permitted`);
  }
}
