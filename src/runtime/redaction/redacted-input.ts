/**
 * Inputs with their texts redacted (D1 of `redactor.ts`). Pure, given the function that redacts a text.
 *
 * The table has a row for each input, so that a new input does not compile without one. A row redacts the texts that a
 * request brings, or says why there is nothing to redact: the input has no text of a user, or its texts were redacted
 * when they entered the session's thread.
 */
import { defined } from '../../base/defined.ts';
import { fingerprint } from '../../base/fingerprint.ts';
import type { HistoryDraft } from '../../base/history-message.ts';
import { stableText } from '../../base/json.ts';
import type { EditRequest } from '../../session/state/edit-request.ts';
import type { Input } from '../../session/state/inputs.ts';
import { messageBytes, messageFingerprint } from '../protocol/sent-message.ts';
import {
  type RedactKind,
  type RedactText,
  redactContent,
  redactForm,
  redactJson,
  redactMessage,
} from './redacted-values.ts';

type InputOf<T extends Input['type']> = Extract<Input, { readonly type: T }>;
type Row<T extends Input['type']> = ((input: InputOf<T>, redact: RedactKind) => Input) | 'no text' | 'redacted before';

const ROWS: { readonly [T in Input['type']]: Row<T> } = {
  send: redactSend,
  edit: (input, redact) => {
    const request = redactEdit(input.request, redact('history'));
    if (request === input.request) return input;
    // The fingerprint of an edit with an epoch covers only the name of the operation, which redaction does not change.
    const isNew = input.key !== undefined && !('epoch' in request);
    return { ...input, request, ...(isNew ? { fingerprint: fingerprint(stableText(request)) } : {}) };
  },
  approve: (input, redact) => redactJson(input, redact('decision'), (_, name) => NAMES_OF_DECISION.has(name)),
  answer: (input, redact) => {
    const reply = redactJson(input.reply, redact('decision'), (_, name) => name === 'fingerprint');
    if (reply === input.reply) return input;
    return {
      ...input,
      reply: 'value' in reply ? { ...reply, fingerprint: fingerprint(stableText(reply.value)) } : reply,
    };
  },
  interrupt: (input, redact) => redactJson(input, redact('decision'), (_, name) => name === 'type'),
  spawn: redactSpawn,
  goal: (input, redact) => {
    const { change } = input;
    if (!('description' in change)) return input;
    const description = redact('task')(change.description);
    return description === change.description ? input : { ...input, change: { ...change, description } };
  },
  activate: (input, redact) => {
    const content = redact('memory')(input.content);
    return content === input.content ? input : { ...input, content };
  },
  startTask: (input, redact) => redactJson(input, redact('task'), (_, name) => name === 'type' || name === 'by'),
  create: 'no text',
  wake: 'no text',
  boundary: 'no text',
  parentEnded: 'no text',
  approvalsExpired: 'no text',
  retryDue: 'no text',
  dispatch: 'no text',
  start: 'no text',
  continue: 'no text',
  childRevived: 'no text',
  recall: 'no text',
  dropLetter: 'no text',
  removeHistory: 'no text',
  childSpent: 'no text',
  setBudget: 'no text',
  joinBudget: 'no text',
  restartDue: 'no text',
  childReady: 'no text',
  pause: 'no text',
  resume: 'no text',
  recover: 'no text',
  heal: 'no text',
  undo: 'no text',
  switchTask: 'no text',
  fork: 'no text',
  compress: 'no text',
  answered: 'redacted before',
  modelFailed: 'redacted before',
  answerLost: 'redacted before',
  toolFinished: 'redacted before',
  ask: 'redacted before',
  verdict: 'redacted before',
  systemEvaluated: 'redacted before',
  systemFailed: 'redacted before',
  upgraded: 'redacted before',
  enriched: 'redacted before',
  summarised: 'redacted before',
  surface: 'redacted before',
  rename: 'redacted before',
  nickname: 'redacted before',
  nameChild: 'redacted before',
  nicknamed: 'redacted before',
  resendLetter: 'redacted before',
  markGoal: 'redacted before',
  subagentSaid: 'redacted before',
  parentSaid: 'redacted before',
  childExited: 'redacted before',
  childAsked: 'redacted before',
  fail: 'redacted before',
  restart: 'redacted before',
  restartLater: 'redacted before',
  escalated: 'redacted before',
  born: 'redacted before',
  forked: 'redacted before',
};

/** Members of an approval that name something. */
const NAMES_OF_DECISION: ReadonlySet<string> = new Set(['type', 'callId', 'by']);

/** The input of a request with its texts redacted. */
export function redactInput(input: Input, redact: RedactKind): Input {
  const row = ROWS[input.type] as Row<Input['type']>;
  return typeof row === 'string' ? input : (row as (given: Input, redact: RedactKind) => Input)(input, redact);
}

function redactSend(input: InputOf<'send'>, redact: RedactKind): Input {
  const { entry } = input;
  const { key } = entry;
  const content = redactContent(entry.content, redact('message'));
  const output = entry.output && redactForm(entry.output, redact('message'));
  if (content === entry.content && output === entry.output) return input;
  const keyed = key === undefined ? undefined : messageFingerprint(content, output);
  const changed = { content, ...defined({ output, fingerprint: keyed }) };
  return { ...input, bytes: messageBytes(content, output), entry: { ...entry, ...changed } };
}

function redactSpawn(input: InputOf<'spawn'>, redact: RedactKind): Input {
  const { fingerprint: _given, ...request } = input.request;
  const task = redact('task')(request.task);
  const output = request.output && redactForm(request.output, redact('task'));
  if (task === request.task && output === request.output) return input;
  const redacted = { ...request, task, ...defined({ output }) };
  if (request.key === undefined) return { ...input, request: redacted };
  // A request that continues a child asks for the child of the same key, so it has the same fingerprint.
  const { continues: _continues, callId: _callId, ...child } = redacted;
  return { ...input, request: { ...redacted, fingerprint: fingerprint(stableText(child)) } };
}

/** An edit with its texts redacted. */
export function redactEdit(edit: EditRequest, redact: RedactText): EditRequest {
  switch (edit.operation) {
    case 'add':
    case 'append':
    case 'mutateLastMatching': {
      const message = redactMessage(edit.message, redact);
      return message === edit.message ? edit : { ...edit, message };
    }
    case 'set':
    case 'replaceAll':
    case 'seed': {
      const messages = redactMessages(edit.messages, redact);
      return messages === edit.messages ? edit : { ...edit, messages };
    }
    case 'update': {
      const attributes = redactMessage(edit.attributes, redact);
      return attributes === edit.attributes ? edit : { ...edit, attributes };
    }
    case 'replaceSystemPrompt':
    case 'attachToToolResult':
    case 'settleInterrupted':
    case 'addExtensionEvent':
      return redactJson(edit, redact, (_, name) => NAMES_OF_EDIT.has(name));
    default:
      return edit;
  }
}

/** Members of an edit that name something. */
const NAMES_OF_EDIT: ReadonlySet<string> = new Set(['operation', 'callId', 'key']);

/** Messages of a history with their texts redacted; the list itself if nothing changes. */
export function redactMessages<T extends HistoryDraft>(messages: readonly T[], redact: RedactText): readonly T[] {
  const redacted = messages.map((message) => redactMessage(message, redact));
  return redacted.some((message, index) => message !== messages[index]) ? redacted : messages;
}
