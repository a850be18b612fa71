/** The check at the end of the demonstration: what the logs have once, what they lack, and what they have twice. */
import type { Message } from '../../../src/base/messages.ts';
import { type Client, createClient } from '../../../src/client/index.ts';
import { nameOf, PARENT, taskOf } from './work.ts';

/** Sessions whose messages are read side by side. */
const READS = 8;
const PAGE = 1_000;

/** A sub-agent as its log has it. */
export interface ChildFacts {
  readonly name: string;
  /** The texts that it was sent. */
  readonly tasks: readonly string[];
  /** The number of its answers. */
  readonly answers: number;
}

/** See the head of the file. */
export interface DemoFacts {
  readonly children: readonly ChildFacts[];
  /** The name of the sub-agent of each reply that the parent has. */
  readonly replies: readonly string[];
}

/** The verdict. `faults`: a sentence for each thing that is missing or there twice. */
export interface Verdict {
  /** Answers that are in the log of a sub-agent once, whose reply the parent has once. */
  readonly answers: number;
  readonly lost: number;
  readonly double: number;
  readonly faults: readonly string[];
}

/** Reads all sub-agents and the parent at the node with this address. */
export async function readFacts(url: string): Promise<DemoFacts> {
  const client = createClient({ url });
  const children: ChildFacts[] = [];
  const listed = await childrenAt(client);
  const read = async (): Promise<void> => {
    for (let child = listed.pop(); child !== undefined; child = listed.pop()) {
      const messages = await client.session(child.id).messages();
      children.push({
        name: child.name,
        tasks: messages.flatMap(({ type, content }) => (type === 'user_message' ? [String(content)] : [])),
        answers: messages.filter(({ type }) => type === 'agent_message').length,
      });
    }
  };
  await Promise.all(Array.from({ length: READS }, read));
  return { children, replies: (await client.session(PARENT).messages()).flatMap(repliesIn) };
}

async function childrenAt(client: Client): Promise<{ readonly id: string; readonly name: string }[]> {
  const found: { readonly id: string; readonly name: string }[] = [];
  let after: string | undefined;
  do {
    const page = await client.sessions({ parent: PARENT, limit: PAGE, ...(after === undefined ? {} : { after }) });
    found.push(...page.sessions.map(({ id, name = '' }) => ({ id, name })));
    after = page.next;
  } while (after !== undefined);
  return found;
}

function repliesIn({ type, source }: Message): readonly string[] {
  return type === 'tool_response' && source?.type === 'subagent' ? [source.name ?? 'a sub-agent without a name'] : [];
}

/** Compares the facts with what was ordered: `total` sub-agents, one for each key. */
export function judge(total: number, { children, replies }: DemoFacts): Verdict {
  const faults: string[] = [];
  let [answers, lost, double] = [0, 0, 0];
  const once = (times: number, thing: string): boolean => {
    if (times === 0) lost += 1;
    if (times > 1) double += 1;
    if (times !== 1) faults.push(`${thing} is there ${times === 0 ? 'not at all' : `${times} times`}`);
    return times === 1;
  };
  const byTask = new Map<string, ChildFacts[]>();
  for (const child of children) {
    for (const task of child.tasks) byTask.set(task, [...(byTask.get(task) ?? []), child]);
  }
  for (let index = 1; index <= total; index += 1) {
    const found = byTask.get(taskOf(index)) ?? [];
    byTask.delete(taskOf(index));
    const name = nameOf(index);
    if (!once(found.length, `the sub-agent of key ${name}`)) continue;
    const isAnswered = once(found[0]?.answers ?? 0, `the answer of ${name}`);
    const isReplied = once(replies.filter((from) => from === name).length, `the reply of ${name} at its parent`);
    if (isAnswered && isReplied) answers += 1;
  }
  for (const task of byTask.keys()) faults.push(`there is a task that was not given: ${task}`);
  return { answers, lost, double, faults };
}
