/** Mneme's prompts for writing summaries (contract §6.5, §6.5b). Pure. */
import type { Goal } from '../../src/base/goals.ts';
import { transcript } from '../../src/events/transcript.ts';
import type { Pin } from '../../src/session/state/goals.ts';
import type { Snapshot } from '../../src/session/state/memory.ts';
import type { LoggedMessage } from '../../src/session/state/messages.ts';

/** The common part of both prompts. */
const IDENTITY = [
  'You are Mneme, the memory of a conversation between a user and an assistant. You take no part in it: no one reads what you write.',
  'You act through your tools alone.',
].join(' ');

/** System prompt of the run over messages. */
export const ZONE_SYSTEM: string = [
  IDENTITY,
  [
    'The oldest part of the conversation, the eviction zone, is about to leave what the assistant sees. What you save of it is all that remains in front of the assistant.',
    'Save what will matter: what the user wants, decisions and their reasons, facts, names, numbers, paths, promises, what was tried and failed, what is still open. Leave out pleasantries and what the context behind the zone repeats.',
    'Write plain statements that can be understood without the messages they come from. Name a message by its number where its exact words may be looked up later.',
  ].join('\n'),
  [
    'Your tools:',
    '- save_snapshot: saves your summary of the eviction zone.',
    '- attach_messages_to_goals: pins messages of the eviction zone whose exact words an active goal needs: they are shown to the assistant as long as that goal is active.',
    '- everything_ok: nothing in the zone is worth remembering.',
  ].join('\n'),
  'Call save_snapshot, or everything_ok. Then stop.',
].join('\n\n');

/** System prompt of the run over snapshots. */
export const SNAPSHOTS_SYSTEM: string = [
  IDENTITY,
  [
    'You are given summaries of consecutive parts of the conversation. Make one summary of them, which takes their place.',
    'Keep what still matters, and say only once what several of them say; of what changed keep how it ended. Leave out what is over and done.',
  ].join('\n'),
  'Call save_snapshot with it, or everything_ok if they must stay as they are. Then stop.',
].join('\n\n');

/** Input text of the run over messages. `zone`: the messages to summarise. `context`: the messages after them. */
export function zoneText(parts: {
  readonly zone: readonly LoggedMessage[];
  readonly context: readonly LoggedMessage[];
  readonly goals: readonly Goal[];
  readonly pins: readonly Pin[];
}): string {
  const { zone, context, goals, pins } = parts;
  return [
    section('EVICTION ZONE', transcript(zone, [], 'mneme')),
    section('CONTEXT', transcript(context, [], 'mneme')),
    section('ACTIVE GOALS', goalLines(goals)),
    ...(pins.length === 0 ? [] : [section('ALREADY PINNED', pins.map(pinLine))]),
    'Remember the eviction zone: save_snapshot, or everything_ok if nothing in it matters. Pin what must be kept word for word.',
  ].join('\n\n');
}

/** Input text of the run over snapshots. */
export function snapshotsText(snapshots: readonly Snapshot[]): string {
  return [
    `${snapshots.length} snapshots, oldest first:`,
    ...snapshots.map(({ from, to, text }, index) => `Snapshot ${index + 1} (messages ${from}..${to})\n${text}`),
    'Save one summary of all of them.',
  ].join('\n\n');
}

function section(heading: string, lines: readonly string[]): string {
  return [heading, '='.repeat(heading.length), ...(lines.length === 0 ? ['(none)'] : lines)].join('\n');
}

function goalLines(goals: readonly Goal[]): readonly string[] {
  return goals
    .filter((goal) => goal.status === 'active')
    .flatMap(({ id, description, subGoals }) => [
      `goal ${id}: ${description}`,
      ...subGoals.map((part) => `  - [${part.status === 'active' ? ' ' : 'x'}] goal ${part.id}: ${part.description}`),
    ]);
}

function pinLine({ seq, goals }: Pin): string {
  return `message ${seq} → goals [${goals.join(', ')}]`;
}
