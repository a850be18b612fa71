/**
 * The sessions of a runtime as one tree, built from lists and from events.
 *
 * Owns: the nodes, their links, and the counts of each node's descendants. Does not own: the decision which nodes are
 * shown, and their order.
 *
 *  T1 A node is in `nodes` and in exactly one list. The list is its parent's `children`, or `roots` when it has no
 *     parent or its parent is not known.
 *  T2 `below` of a node is the number of its known descendants. `busyBelow` is the number of descendants that are not
 *   idle.
 *  T3 An event counts once: if a list already includes an event, the event changes no mailbox number. An event also
 *     overrides a list or an answer that the server made before the event, and that arrives later.
 *  T4 There are at most `SESSIONS_MAX` nodes; `isFull` says that a session was left out.
 *  T5 `version` grows with every change. `shape` grows with every change that adds, removes or moves a node.
 */
import type { Usage } from '../../base/messages.ts';
import type { Phase, SessionStateName, SessionStatus } from '../../events/event.ts';
import type { ViewedEvent } from '../../events/viewed-event.ts';
import { SESSIONS_MAX } from '../bounds.ts';
import type { ListedSession, SessionDetail } from '../wire.ts';

/** One session. Views read it; only this file changes it. */
export interface SessionNode {
  readonly id: string;
  readonly parent: SessionNode | undefined;
  readonly children: readonly SessionNode[];
  readonly agent: string;
  readonly name: string | undefined;
  readonly state: SessionStateName;
  readonly phase: Phase | undefined;
  /** Number of waiting entries in the mailbox. */
  readonly mailbox: number;
  /** Number of entries that could not be promoted and were set aside. */
  readonly deadLetters: number;
  /** Epoch ms of the session's last change. */
  readonly updatedAt: number;
  /** Input and output tokens of all calls; undefined until they were requested. */
  readonly tokens: number | undefined;
  /** The reason of a child's end: `completed`, `failed`, `cancelled`. */
  readonly ended: string | undefined;
  /**
   * The message of the error with which the last turn failed, or of the error that blocks the session until it is
   * resumed.
   */
  readonly trouble: string | undefined;
  /** True for a child that waits until another child of its parent has ended. */
  readonly isQueued: boolean;
  readonly below: number;
  readonly busyBelow: number;
}

/** Number of sessions in each state. */
export interface StateCounts {
  readonly all: number;
  readonly idle: number;
  readonly awaiting: number;
  readonly executing: number;
}

interface Node extends SessionNode {
  parent: Node | undefined;
  readonly children: Node[];
  agent: string;
  name: string | undefined;
  state: SessionStateName;
  phase: Phase | undefined;
  mailbox: number;
  deadLetters: number;
  updatedAt: number;
  tokens: number | undefined;
  ended: string | undefined;
  trouble: string | undefined;
  isQueued: boolean;
  below: number;
  busyBelow: number;
  /**
   * Epoch ms of the newest change that a list or an answer has shown. The list or answer includes all events up to this
   * time.
   */
  shownUntil: number;
  /** Epoch ms of the newest durable event. */
  eventsUntil: number;
  /** The number of the last listing that named the session. */
  listing: number;
}

/** See the head of the file. */
export class SessionTree {
  readonly #nodes: Map<string, Node> = new Map();
  readonly #roots: Node[] = [];
  /**
   * Roots that arrived before their parent, by the parent's id. A page of the list may end between a child and its
   * parent.
   */
  readonly #orphans: Map<string, Node[]> = new Map();
  readonly #counts: Record<SessionStateName, number> = { idle: 0, awaiting: 0, executing: 0 };
  readonly #sessionsMax: number;
  #listing = 0;
  /** Epoch ms of the newest change that was known when the current listing began. */
  #listingSince = 0;
  #version = 0;
  #shape = 0;
  #isFull = false;

  constructor(sessionsMax: number = SESSIONS_MAX) {
    this.#sessionsMax = sessionsMax;
  }

  /** A number that grows with every change. */
  get version(): number {
    return this.#version;
  }

  /** A number that grows when a node is added, removed or moved. */
  get shape(): number {
    return this.#shape;
  }

  /** True once a session was left out. */
  get isFull(): boolean {
    return this.#isFull;
  }

  get roots(): readonly SessionNode[] {
    return this.#roots;
  }

  get size(): number {
    return this.#nodes.size;
  }

  /** Number of sessions in each state. */
  counts(): StateCounts {
    return { all: this.#nodes.size, ...this.#counts };
  }

  /** All sessions, in order of arrival. */
  nodes(): Iterable<SessionNode> {
    return this.#nodes.values();
  }

  /** The session of an id. */
  get(id: string): SessionNode | undefined {
    return this.#nodes.get(id);
  }

  /** Begins a reading of the whole list: a session that is not listed until `endListing` is removed. */
  beginListing(): void {
    this.#listing += 1;
    for (const { updatedAt } of this.#nodes.values()) this.#listingSince = Math.max(this.#listingSince, updatedAt);
  }

  /** Ends a complete listing: removes the sessions that the listing did not name, except those with newer events. */
  endListing(): void {
    for (const node of [...this.#nodes.values()]) {
      if (node.listing !== this.#listing && node.updatedAt <= this.#listingSince) this.remove(node.id);
    }
  }

  /** Adds or updates a session of the list. */
  put(listed: ListedSession): void {
    const node = this.#nodes.get(listed.id) ?? this.#add(listed.id, listed.parent);
    if (node === undefined) return;
    node.listing = this.#listing;
    node.agent = listed.agent;
    node.name = listed.name ?? node.name;
    this.#version += 1;
    if (isBehind(node, listed)) return;
    node.shownUntil = listed.updatedAt;
    node.mailbox = listed.mailbox;
    node.deadLetters = listed.deadLetters ?? 0;
    node.updatedAt = listed.updatedAt;
    if (listed.status !== undefined) {
      node.trouble = listed.lastError ?? (listed.status === 'blocked' ? 'blocked' : undefined);
      node.phase = phaseOf(listed.status, node.phase);
      node.isQueued = listed.status === 'queued';
    }
    this.#setState(node, listed.state);
  }

  /** Adds or updates a session that was requested by its id. */
  describe(detail: SessionDetail): void {
    const before = this.#nodes.get(detail.id);
    const isOld = before !== undefined && isBehind(before, detail);
    this.put(detail);
    const node = this.#nodes.get(detail.id);
    if (node === undefined) return;
    if (!isOld) {
      node.phase = detail.phase;
      node.trouble = detail.blocked ?? detail.lastError;
    }
    if (detail.usage !== undefined) node.tokens = tokensOf(detail.usage);
    for (const { id, exited } of detail.children) {
      const child = this.#nodes.get(id);
      if (child !== undefined && exited !== undefined) child.ended = exited;
    }
  }

  /** Notes the error of a session's last turn. */
  setTrouble(id: string, trouble: string): void {
    const node = this.#nodes.get(id);
    if (node === undefined || node.trouble === trouble) return;
    node.trouble = trouble;
    this.#version += 1;
  }

  /** Applies an event of any session. */
  apply(event: ViewedEvent): void {
    const node = this.#nodes.get(event.session) ?? this.#add(event.session, parentOf(event.session));
    if (node === undefined) return;
    const isNews = event.at > node.shownUntil;
    if (event.at > node.updatedAt) node.updatedAt = event.at;
    if (event.seq !== undefined && event.at > node.eventsUntil) node.eventsUntil = event.at;
    this.#version += 1;
    switch (event.type) {
      case 'session.state':
        if (event.at < node.shownUntil) return;
        node.phase = event.phase;
        if (event.phase === undefined && event.state !== 'idle') node.trouble = undefined;
        if (event.state !== 'idle') node.isQueued = false;
        this.#setState(node, event.state);
        return;
      case 'pending.created':
        if (isNews) node.mailbox += 1;
        return;
      case 'pending.removed':
        if (isNews) node.mailbox = Math.max(0, node.mailbox - 1);
        return;
      case 'dead_letter.created':
        if (isNews) node.deadLetters += 1;
        return;
      case 'dead_letter.removed':
        if (isNews) node.deadLetters = Math.max(0, node.deadLetters - 1);
        return;
      case 'turn.finished':
        if (isNews && node.tokens !== undefined) node.tokens += tokensOf(event.usage);
        node.trouble = undefined;
        return;
      case 'turn.failed':
        node.trouble = event.error.message;
        return;
      case 'approval.required':
        node.phase = 'approval';
        return;
      case 'question.asked':
        // A session that waits for an approval and an answer shows the approval, as the server's state does.
        if (node.phase !== 'approval') node.phase = 'question';
        return;
      case 'session.name':
        node.name = event.name;
        return;
      case 'child.spawned': {
        const child = this.#nodes.get(event.child) ?? this.#add(event.child, event.session);
        if (child === undefined) return;
        child.name ??= event.name;
        if (child.agent === '') child.agent = node.agent;
        child.updatedAt = Math.max(child.updatedAt, event.at);
        // The page will receive all events of a new child, so each of these events counts.
        if (child.shownUntil === 0) child.shownUntil = event.at - 1;
        return;
      }
      case 'child.exited': {
        const child = this.#nodes.get(event.child);
        if (child !== undefined) child.ended = event.reason;
        return;
      }
      default:
        return;
    }
  }

  /** Removes a session and its descendants. */
  remove(id: string): void {
    const node = this.#nodes.get(id);
    if (node === undefined) return;
    for (const child of [...node.children]) this.remove(child.id);
    this.#nodes.delete(id);
    this.#counts[node.state] -= 1;
    const siblings = node.parent?.children ?? this.#roots;
    const place = siblings.indexOf(node);
    if (place !== -1) siblings.splice(place, 1);
    const busy = node.state === 'idle' ? 0 : 1;
    for (let above = node.parent; above !== undefined; above = above.parent) {
      above.below -= 1;
      above.busyBelow -= busy;
    }
    this.#changed();
  }

  /** Adds a node under its parent. A node is a root until its parent arrives. Undefined when the tree is full (T4). */
  #add(id: string, parentId: string | undefined): Node | undefined {
    if (this.#nodes.size >= this.#sessionsMax) {
      this.#isFull = true;
      return undefined;
    }
    const parent = parentId === undefined ? undefined : this.#nodes.get(parentId);
    const node: Node = {
      id,
      parent,
      children: [],
      agent: '',
      name: undefined,
      state: 'idle',
      phase: undefined,
      mailbox: 0,
      deadLetters: 0,
      updatedAt: 0,
      tokens: undefined,
      ended: undefined,
      trouble: undefined,
      isQueued: false,
      below: 0,
      busyBelow: 0,
      shownUntil: 0,
      eventsUntil: 0,
      listing: this.#listing,
    };
    this.#nodes.set(id, node);
    this.#counts.idle += 1;
    (parent?.children ?? this.#roots).push(node);
    for (let above = parent; above !== undefined; above = above.parent) above.below += 1;
    if (parent === undefined && parentId !== undefined) listIn(this.#orphans, parentId).push(node);
    this.#adopt(node);
    this.#changed();
    return node;
  }

  /** Moves children that arrived before their parent under it. */
  #adopt(parent: Node): void {
    const orphans = this.#orphans.get(parent.id);
    if (orphans === undefined) return;
    this.#orphans.delete(parent.id);
    for (const orphan of orphans) {
      const place = this.#roots.indexOf(orphan);
      if (place === -1) continue;
      this.#roots.splice(place, 1);
      orphan.parent = parent;
      parent.children.push(orphan);
      const busy = orphan.busyBelow + (orphan.state === 'idle' ? 0 : 1);
      for (let above: Node | undefined = parent; above !== undefined; above = above.parent) {
        above.below += 1 + orphan.below;
        above.busyBelow += busy;
      }
    }
  }

  #setState(node: Node, state: SessionStateName): void {
    const change = Number(state !== 'idle') - Number(node.state !== 'idle');
    this.#counts[node.state] -= 1;
    this.#counts[state] += 1;
    node.state = state;
    if (change === 0) return;
    for (let above = node.parent; above !== undefined; above = above.parent) above.busyBelow += change;
  }

  #changed(): void {
    this.#version += 1;
    this.#shape += 1;
  }
}

function listIn(lists: Map<string, Node[]>, key: string): Node[] {
  const list = lists.get(key) ?? [];
  lists.set(key, list);
  return list;
}

/** The parent in a child's id, `<parent>:<n>`; undefined for the id of a root. */
export function parentOf(id: string): string | undefined {
  const colon = id.lastIndexOf(':');
  return colon === -1 ? undefined : id.slice(0, colon);
}

/** The sum of all tokens of a usage. */
export function tokensOf(usage: Usage): number {
  return (
    usage.input_tokens +
    usage.output_tokens +
    (usage.cache_creation_input_tokens ?? 0) +
    (usage.cache_read_input_tokens ?? 0)
  );
}

/** True when the events of the session are newer than this list or answer. */
function isBehind({ shownUntil, eventsUntil }: Node, { updatedAt }: ListedSession): boolean {
  return shownUntil > 0 && updatedAt < eventsUntil;
}

/** Phases that follow from a listed status. A list says nothing about the other phases; only events report them. */
const LISTED_PHASES: ReadonlySet<Phase | undefined> = new Set(['paused', 'approval', 'question', 'suspended']);

/** The phase that a listed session has. `known`: its phase so far. */
function phaseOf(status: SessionStatus, known: Phase | undefined): Phase | undefined {
  if (status === 'paused' || status === 'suspended') return status;
  // The list does not say whether a call waits for an approval or for an answer.
  if (status === 'waiting') return known === 'question' ? known : 'approval';
  return LISTED_PHASES.has(known) ? undefined : known;
}
