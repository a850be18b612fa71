/**
 * nact: one actor for each session, spawned at its first question. The actor's state is the conversation; a question
 * arrives by `query`. Everything is only in memory. A parent's children are its actors, and send it their replies by
 * `dispatch`.
 */
import { type ActorSystemRef, dispatch, query, type Ref, spawn, start, stop } from 'nact';
import { type Question, textOf } from '../../systems/system.ts';
import type { PeerSystem } from '../peer.ts';
import { type Said, say } from './script.ts';

type Message =
  | { readonly role: 'user' | 'assistant' | 'tool'; readonly text: string }
  | { readonly role: 'assistant'; readonly call: Extract<Said, { type: 'call' }> };

interface Asked {
  readonly question: Question;
  readonly sender: Ref<Reply>;
}

/** The answer of a session to the caller of `query`, or to a parent. */
interface Reply {
  readonly type: 'reply';
  readonly text: string;
}

type ParentMessage =
  | { readonly type: 'family'; readonly questions: readonly Question[]; readonly sender: Ref<readonly string[]> }
  | Reply
  | { readonly type: 'replies'; readonly sender: Ref<readonly string[]> };

interface Family {
  readonly replies: readonly string[];
  readonly waiting?: { readonly count: number; readonly sender: Ref<readonly string[]> };
}

const TIMEOUT_MS = 600_000;

/** Opens an actor system; the directory is not used. */
export function openPeer(): Promise<PeerSystem> {
  const system = start();
  const conversations = new Map<string, readonly Message[]>();
  const sessions = new Map<string, Ref<Asked>>();
  const parents = new Map<string, Ref<ParentMessage>>();
  const keep = (name: string, messages: readonly Message[]): void => void conversations.set(name, messages);
  const sessionOf = (name: string): Ref<Asked> => known(sessions, name, () => spawnSession(system, name, keep));
  const parentOf = (name: string): Ref<ParentMessage> => known(parents, name, () => spawnParent(system, name));
  const ask = async (name: string, question: Question): Promise<string> => {
    const asked = (sender: Ref<Reply>): Asked => ({ question, sender });
    const { text } = await query(sessionOf(name), asked, TIMEOUT_MS);
    return text;
  };
  return Promise.resolve({
    turn: ask,
    async family(parent, questions) {
      const asked = (sender: Ref<readonly string[]>): ParentMessage => ({ type: 'family', questions, sender });
      await query(parentOf(parent), asked, TIMEOUT_MS);
    },
    replies: (parent) =>
      query(
        parentOf(parent),
        (sender: Ref<readonly string[]>): ParentMessage => ({ type: 'replies', sender }),
        TIMEOUT_MS,
      ),
    messages: (session) => Promise.resolve(conversations.get(session)?.length ?? 0),
    close() {
      stop(system);
      return Promise.resolve();
    },
  });
}

/** One actor per conversation: a turn is one message, and the next message waits in the mailbox. */
function spawnSession(
  system: ActorSystemRef | Ref<ParentMessage>,
  name: string,
  keep: (name: string, messages: readonly Message[]) => void,
): Ref<Asked> {
  const turn = async (messages: readonly Message[], { question, sender }: Asked): Promise<readonly Message[]> => {
    const after = [...messages, ...(await converse(question))];
    keep(name, after);
    const last = after.at(-1);
    dispatch(sender, { type: 'reply', text: last !== undefined && 'text' in last ? last.text : '' });
    return after;
  };
  return spawn(system, turn, name, { initialState: [] });
}

/** The four messages of a turn. */
async function converse(question: Question): Promise<readonly Message[]> {
  const text = textOf(question);
  const call = await Promise.resolve(say({ type: 'question', text }));
  if (call.type !== 'call') throw new Error('the model called no tool');
  const result = String(call.input.a + call.input.b);
  const answer = await Promise.resolve(say({ type: 'result', text: result }));
  if (answer.type !== 'answer') throw new Error('the model said nothing');
  return [
    { role: 'user', text },
    { role: 'assistant', call },
    { role: 'tool', text: result },
    { role: 'assistant', text: answer.text },
  ];
}

function spawnParent(system: ActorSystemRef, name: string): Ref<ParentMessage> {
  const receive = (family: Family, message: ParentMessage, { self }: { readonly self: Ref<ParentMessage> }): Family => {
    switch (message.type) {
      case 'family':
        for (const [index, question] of message.questions.entries()) {
          dispatch(
            spawnSession(self, `child-${index}`, () => undefined),
            { question, sender: self },
          );
        }
        return {
          ...family,
          waiting: { count: family.replies.length + message.questions.length, sender: message.sender },
        };
      case 'reply': {
        const replies = [...family.replies, message.text];
        if (family.waiting?.count === replies.length) dispatch(family.waiting.sender, replies);
        return { ...family, replies };
      }
      case 'replies':
        dispatch(message.sender, family.replies);
        return family;
    }
  };
  return spawn(system, receive, `${name}-parent`, { initialState: { replies: [] } });
}

function known<T>(all: Map<string, T>, name: string, make: () => T): T {
  const found = all.get(name);
  if (found !== undefined) return found;
  const made = make();
  all.set(name, made);
  return made;
}
