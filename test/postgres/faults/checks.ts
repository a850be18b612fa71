/**
 * The verdict on one cluster: what its clients were promised, against what a node with an empty directory reads. Pure:
 * `faulty-cluster.ts` gathers the facts.
 */
import type { Violation } from './findings.ts';
import type { EffectLine, MessageFact, SessionFacts } from './protocol.ts';

/** The promises, and the facts. */
export interface Story {
  /** Keys by session, in the order in which they were acknowledged; nothing else was sent. */
  readonly acknowledged: ReadonlyMap<string, readonly string[]>;
  /** The answers that were given, by key. */
  readonly answers: ReadonlyMap<string, string>;
  /** Keys that only a former owner was sent, each in a session with its name. */
  readonly former: readonly string[];
  /** Such keys that it acknowledged. */
  readonly wrong: readonly string[];
  readonly sessions: readonly SessionFacts[];
  readonly effects: readonly EffectLine[];
  /** Milliseconds since the end of the lease that a node had at a moment; 0 if it held. */
  readonly overMs: (node: string, atMs: number) => number;
  /** The times at which nodes continued that had stood still. */
  readonly thawed: ReadonlyMap<string, number>;
}

/** Milliseconds after the end of a freeze in which a call may begin whose node had looked at its lease before. */
const THAW_MS = 100;

/** True for a call that was on its way to its tool while its node stood still. No look at a lease can prevent it. */
export function isThawed({ node, atMs }: EffectLine, thawed: Story['thawed']): boolean {
  const continuedMs = thawed.get(node);
  return continuedMs !== undefined && atMs >= continuedMs - 1 && atMs <= continuedMs + THAW_MS;
}

/** The violations of a story. */
export function judge(story: Story): readonly Violation[] {
  return [
    ...judgeMessages(story),
    ...judgeAnswers(story),
    ...judgeChildren(story),
    ...judgeFormer(story),
    ...judgeOnce(story),
    ...judgeLeases(story),
    ...story.sessions
      .filter(({ state }) => state !== 'idle')
      .map(({ id, state }): Violation => ({ kind: 'unfinished', what: `${id} is ${state}` })),
  ];
}

/** The keys of a session's messages, in the order of its log. */
function keysOf({ messages }: Pick<SessionFacts, 'messages'>): readonly string[] {
  return messages.flatMap(({ type, key }) => (type === 'user_message' && key !== undefined ? [key] : []));
}

function judgeMessages({ acknowledged, sessions }: Story): readonly Violation[] {
  const byId = new Map(sessions.map((session) => [session.id, session]));
  const found: Violation[] = [];
  for (const [id, wanted] of acknowledged) {
    const there = keysOf(byId.get(id) ?? { messages: [] });
    const counts = new Map<string, number>();
    for (const key of there) counts.set(key, (counts.get(key) ?? 0) + 1);
    for (const key of wanted) if (!counts.has(key)) found.push({ kind: 'lost', what: `${key} of ${id}` });
    for (const [key, count] of counts) {
      if (count > 1) found.push({ kind: 'duplicated', what: `${key} is ${count} times in ${id}` });
    }
    const known = new Set(wanted);
    const inOrder = [...new Set(there)].filter((key) => known.has(key));
    const expected = wanted.filter((key) => counts.has(key));
    if (inOrder.join() !== expected.join()) {
      found.push({ kind: 'reordered', what: `${id} has ${inOrder.join(' ')} in place of ${expected.join(' ')}` });
    }
  }
  return found;
}

function judgeAnswers({ answers, sessions }: Story): readonly Violation[] {
  const found: Violation[] = [];
  const places = new Map<string, { readonly messages: readonly MessageFact[]; readonly at: number }>();
  for (const { messages } of sessions) {
    for (const [at, { type, key }] of messages.entries()) {
      if (type === 'user_message' && key !== undefined) places.set(key, { messages, at });
    }
  }
  for (const [key, text] of answers) {
    const place = places.get(key);
    const isThere = place?.messages.some(
      (message, at) => at > place.at && message.type === 'agent_message' && message.text === text,
    );
    if (isThere !== true) found.push({ kind: 'untrue', what: `the answer ${JSON.stringify(text)} to ${key}` });
  }
  return found;
}

/** A message that asks for a sub-agent has one, whose task names its key. */
function judgeChildren({ acknowledged, sessions }: Story): readonly Violation[] {
  const tasks = new Map<string, number>();
  for (const { parent, messages } of sessions) {
    const [key] = /\bs\d+-\d+\b/u.exec(messages[0]?.text ?? '') ?? [];
    if (parent !== undefined && key !== undefined) tasks.set(key, (tasks.get(key) ?? 0) + 1);
  }
  const sent = new Set([...acknowledged.values()].flat());
  const found: Violation[] = [];
  for (const { messages } of sessions) {
    for (const { type, key, text } of messages) {
      if (type !== 'user_message' || key === undefined || !sent.has(key) || !/\bspawn\b/u.test(text)) continue;
      const count = tasks.get(key) ?? 0;
      if (count !== 1) found.push({ kind: 'orphan', what: `${key} has ${count} sub-agents` });
    }
  }
  return found;
}

function judgeFormer({ former, wrong, sessions }: Story): readonly Violation[] {
  const there = new Set(sessions.map(({ id }) => id));
  return [
    ...wrong.map((key): Violation => ({ kind: 'former', what: `${key} was acknowledged` })),
    ...former.filter((key) => there.has(key)).map((key): Violation => ({ kind: 'former', what: `${key} is there` })),
  ];
}

function judgeOnce({ effects, sessions }: Story): readonly Violation[] {
  const found: Violation[] = [];
  const begun = new Map<string, number>();
  for (const { kind, name, key } of effects) {
    if (kind === 'tool' && name === 'once' && key !== undefined) begun.set(key, (begun.get(key) ?? 0) + 1);
  }
  for (const [key, count] of begun) {
    if (count > 1) found.push({ kind: 'once', what: `${key} began ${count} times` });
  }
  for (const { id, messages } of sessions) {
    for (const { type, tool, failed, text } of messages) {
      if (type !== 'tool_response' || tool !== 'once' || failed === true) continue;
      const key = text.replace(/^once /u, '');
      if (begun.get(key) !== 1) found.push({ kind: 'once', what: `${id} has the result ${JSON.stringify(text)}` });
    }
  }
  return found;
}

function judgeLeases({ effects, overMs, thawed }: Story): readonly Violation[] {
  return effects.flatMap((effect): readonly Violation[] => {
    const { kind, name, node, atMs } = effect;
    const ms = overMs(node, atMs);
    if (ms === 0 || isThawed(effect, thawed)) return [];
    return [{ kind: 'lease', what: `${kind} ${name} of ${node} began ${ms.toFixed(0)} ms after the end of its lease` }];
  });
}
