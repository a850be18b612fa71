/** The texts that `troupe inspect` prints. Pure. */
import { agentKey } from '../../base/ids.ts';
import type { Message, Usage } from '../../base/messages.ts';
import { SESSION_STATES } from '../../events/event.ts';
import type { SessionSummary } from '../../runtime/protocol/protocol.ts';
import { type StoredSession, shortText } from '../places/stored-sessions.ts';
import type { Paint } from '../surroundings.ts';
import { clip, counted, errorText, left, number, oneLine, right } from '../text-layout.ts';

/** A session in the tree; `depth` 0: a root. */
export interface TreeEntry {
  readonly session: StoredSession;
  readonly depth: number;
}

/** A session with the facts that are shown only for a single session. */
export interface InspectedSession extends StoredSession {
  /** The tokens of the session and all its descendants; missing: the session has no descendants. */
  readonly treeUsage?: Usage;
}

/** The width and colours of the output. */
export interface View {
  readonly columns: number;
  readonly paint: Paint;
}

const COLUMNS_MAX = 120;
const STATE_COLUMNS = 10;
const MAIL_COLUMNS = 6;
const MESSAGES_COLUMNS = 6;
const TOKENS_COLUMNS = 11;
const WHY_COLUMNS_MIN = 14;
/** Minimum columns for the reason as a sentence. */
const DETAIL_COLUMNS = 36;
const SESSION_COLUMNS_MAX = 36;
const KIND_COLUMNS = 12;
/** Maximum lines shown of one message. */
const MESSAGE_LINES = 4;

/** The text of the tree of sessions. `entries`: the sessions to show. `all`: every session, also those not shown. */
export function treeText(
  entries: readonly TreeEntry[],
  all: readonly SessionSummary[],
  view: View & { readonly data: string },
): string {
  const { paint, data } = view;
  const counts = SESSION_STATES.flatMap((state) => {
    const count = all.filter((session) => session.state === state).length;
    return count === 0 ? [] : [`${number(count)} ${state}`];
  });
  const title = `${paint.bold(data)}  ${counted(all.length, 'session')}${counts.length === 0 ? '' : `: ${counts.join(', ')}`}`;
  if (entries.length === 0) return `${title}\n`;
  const columns = Math.min(view.columns - 1, COLUMNS_MAX);
  const fixed = STATE_COLUMNS + MAIL_COLUMNS + MESSAGES_COLUMNS + TOKENS_COLUMNS + 2;
  const session = Math.min(SESSION_COLUMNS_MAX, Math.max(WHY_COLUMNS_MIN, columns - fixed - WHY_COLUMNS_MIN));
  const why = Math.max(WHY_COLUMNS_MIN, columns - fixed - session);
  const head = row(['session', 'state', 'mail', 'msgs', 'tokens', 'why it rests'], { session, why });
  const rows = entries.map((entry) => {
    const { state, mailbox, messageCount, usage, why: reason } = entry.session;
    const tokens = number(usage.input_tokens + usage.output_tokens);
    const cells = [
      nameOf(entry),
      state,
      number(mailbox),
      messageCount === undefined ? '' : number(messageCount),
      tokens,
      lastTurnTrouble(entry.session) ??
        (why < DETAIL_COLUMNS ? reason.reason.replaceAll('_', ' ') : oneLine(reason.detail)),
    ] as const;
    return toned(row(cells, { session, why }), entry.session, paint);
  });
  const hidden = all.length - entries.length;
  const more =
    hidden === 0 ? [] : [paint.dim(`and ${counted(hidden, 'more', 'more')}; --limit ${all.length} shows all`)];
  return [title, '', paint.dim(head), ...rows, ...more, ''].join('\n');
}

function row(
  [session, state, mail, messages, tokens, why]: readonly [string, string, string, string, string, string],
  widths: { readonly session: number; readonly why: number },
): string {
  return [
    `${left(session, widths.session - 1)} `,
    left(state, STATE_COLUMNS),
    right(mail, MAIL_COLUMNS),
    right(messages, MESSAGES_COLUMNS),
    right(tokens, TOKENS_COLUMNS),
    `  ${clip(why, widths.why)}`,
  ].join('');
}

/** The id of a root, or the end of a child's id and its nickname. */
function nameOf({ session, depth }: TreeEntry): string {
  if (depth === 0) return session.id;
  const own = session.id.slice(session.id.lastIndexOf(':'));
  return `${'  '.repeat(depth - 1)}├ ${own.startsWith(':') ? own : session.id} ${session.name ?? ''}`;
}

/**
 * How the last turn of an idle session ended, unless the turn was answered. This text is shown instead of
 * `nothing_waits`, which says less.
 */
function lastTurnTrouble(session: StoredSession): string | undefined {
  if (session.why.reason !== 'nothing_waits' || session.lastOutcome === 'answered') return undefined;
  return lastTurnText(session);
}

/** How the last turn ended, with its error; undefined if no turn has ended yet. */
function lastTurnText({ lastOutcome, lastError }: StoredSession): string | undefined {
  return lastError === undefined ? lastOutcome : `${lastOutcome ?? 'failed'}: ${errorText(lastError)}`;
}

function toned(text: string, session: StoredSession, paint: Paint): string {
  if (session.why.reason === 'failed' || session.status === 'failed' || session.blocked !== undefined)
    return paint.red(text);
  return session.state === 'idle' && session.mailbox === 0 ? text : paint.yellow(text);
}

/** The text of one session: its facts, its waiting entries, its last messages. */
export function sessionText(session: InspectedSession, view: View): string {
  const { paint } = view;
  const columns = Math.min(view.columns - 1, COLUMNS_MAX);
  const kin = [
    ...(session.name === undefined ? [] : [`named ${session.name}`]),
    ...(session.parent === undefined ? [] : [`child of ${session.parent}`]),
    ...(session.children === 0 ? [] : [`parent of ${counted(session.children, 'session')}`]),
  ].join(', ');
  const { treeUsage, budget } = session;
  const lastTurn = lastTurnText(session);
  const spoken = session.messageCount === undefined ? '' : ` (${number(session.messageCount)} of users and the agent)`;
  const facts: readonly (readonly [string, string])[] = [
    ['session', session.id],
    ['agent', `${agentKey(session.agent, session.version)}${kin === '' ? '' : `  (${kin})`}`],
    ['state', `${session.state}: ${oneLine(session.why.detail)}`],
    ...(lastTurn === undefined ? [] : [['last turn', lastTurn] as const]),
    ['log', `${counted(session.messages, 'message')}${spoken}, ${counted(session.events, 'event')}`],
    ['tokens', tokensText(session.usage)],
    ...(treeUsage === undefined ? [] : [['tree', `${tokensText(treeUsage)}, with all its descendants`] as const]),
    ...(budget === undefined
      ? []
      : [['budget', `${number(budget.used)} of ${number(budget.tokens)} tokens used`] as const]),
    ['changed', new Date(session.updatedAt).toISOString()],
    ['mailbox', session.mailbox === 0 ? 'empty' : counted(session.mailbox, 'entry', 'entries')],
  ];
  const waiting = session.pending
    .slice(0, MESSAGE_LINES)
    .map(
      ({ source, content }) =>
        `  ${left(oneLine(source.name ?? source.type), KIND_COLUMNS)} ${oneLine(shortText(content))}`,
    );
  const hidden = session.messages - session.recent.length;
  const heading =
    hidden > 0 ? `Last ${counted(session.recent.length, 'message')} of ${number(session.messages)}` : 'Messages';
  return [
    ...facts.map(([label, value]) => clip(`${paint.dim(left(label, 10))}${value}`, columns + paint.dim('').length)),
    ...waiting.map((line) => clip(line, columns)),
    '',
    paint.bold(heading),
    ...session.recent.flatMap((message) => messageLines(message, columns, paint)),
    '',
  ].join('\n');
}

function tokensText({ input_tokens, output_tokens }: Usage): string {
  return `${number(input_tokens)} in, ${number(output_tokens)} out`;
}

function messageLines(message: Message, columns: number, paint: Paint): readonly string[] {
  const indent = 6 + KIND_COLUMNS + 2;
  const lines = messageText(message)
    .split('\n')
    .map(oneLine)
    .filter((line) => line !== '');
  const shown = lines.slice(0, MESSAGE_LINES).map((line) => clip(line, columns - indent));
  if (lines.length > MESSAGE_LINES) shown.push(paint.dim(`… ${counted(lines.length - MESSAGE_LINES, 'more line')}`));
  const label = `${right(String(message.seq), 5)}  ${left(kindOf(message), KIND_COLUMNS)} `;
  return (shown.length === 0 ? [''] : shown).map((line, index) => (index === 0 ? label : ' '.repeat(indent)) + line);
}

function messageText(message: Message): string {
  if (message.type !== 'tool_call' || message.source?.type === 'subagent') return shortText(message.content);
  return `${message.toolName ?? ''} ${JSON.stringify(message.input ?? {})}`;
}

/** The kind of a message in a word or two. */
export function kindOf({ type, success, source }: Message): string {
  if (source?.type === 'subagent') return type === 'tool_call' ? 'delivery' : 'its text';
  switch (type) {
    case 'user_message':
      return 'user';
    case 'agent_message':
      return 'model';
    case 'tool_call':
      return 'tool call';
    case 'tool_response':
      return success === false ? 'tool failed' : 'tool result';
    case 'system_message':
      return 'note';
  }
}
