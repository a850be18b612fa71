/**
 * `Observer`: the state of the page. It has all sessions, the counters, the chosen session and the notices.
 *
 * Owns: the stream of all sessions, the list, the readings of the counters, the chosen session. Does not own: the
 * drawing.
 *  O1 Events are applied once per frame, however many there are.
 *  O2 The rows are ordered when a person changes the view, and otherwise at most once per `ORDER_INTERVAL_MS`.
 *  O3 Changes for which no event arrives (gaps, lost connections, deletions by other clients) are found by reading the
 *   list.
 *  O4 A refusal because of a missing token stops everything until a token is entered.
 */
import { type Signal, signal } from '@preact/signals';
import type { ViewedEvent } from '../../events/viewed-event.ts';
import {
  BATCH_EVENTS_MAX,
  METRICS_INTERVAL_MS,
  NOTICE_MS,
  ORDER_INTERVAL_MS,
  RELIST_AFTER_GAP_MS,
  RELIST_INTERVAL_MS,
} from '../bounds.ts';
import { type Api, ApiError } from '../client/api.ts';
import { type EventStream, openStream, type StreamState } from '../client/event-stream.ts';
import { nextFrame } from '../client/next-frame.ts';
import { type FrameBatch, frameBatch } from '../model/frame-batch.ts';
import { type HeadFigures, MetricsHistory } from '../model/metrics-history.ts';
import { SessionTree } from '../model/session-tree.ts';
import { arrange, type TreeRow, type TreeView } from '../model/tree-rows.ts';
import { readViewedEvent, type WireRecord } from '../wire.ts';
import { ChosenSession, messageOf } from './chosen-session.ts';
import { RowDetails } from './row-details.ts';
import { WaitingQueue } from './waiting-queue.ts';

/** The status of the list of sessions. */
export type ListStatus =
  | { readonly kind: 'loading'; readonly count: number }
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed'; readonly message: string };

/** A notice of an action that succeeded or failed. */
export interface Notice {
  readonly number: number;
  readonly text: string;
  readonly isFailure: boolean;
}

/** The types of events that change the tree. Other events are not parsed. */
const TREE_EVENTS: ReadonlySet<string> = new Set<ViewedEvent['type']>([
  'session.state',
  'session.name',
  'pending.created',
  'pending.removed',
  'turn.finished',
  'turn.failed',
  'child.spawned',
  'child.exited',
  'approval.required',
  'question.asked',
  'gap',
]);

/** See the head of the file. */
export class Observer {
  readonly api: Api;
  readonly tree: SessionTree = new SessionTree();
  readonly rows: Signal<readonly TreeRow[]> = signal<readonly TreeRow[]>([]);
  readonly view: Signal<TreeView> = signal<TreeView>({
    order: 'id',
    isReversed: false,
    filter: '',
    subset: 'all',
    open: new Set(),
  });
  /** A number that grows when the tree has changed, at most once per frame. */
  readonly version: Signal<number> = signal(0);
  readonly list: Signal<ListStatus> = signal<ListStatus>({ kind: 'loading', count: 0 });
  readonly stream: Signal<StreamState> = signal<StreamState>({ kind: 'connecting' });
  readonly needsToken: Signal<boolean> = signal(false);
  readonly figures: Signal<HeadFigures | undefined> = signal(undefined);
  /** The store's failure, while the store refuses writes. */
  readonly degraded: Signal<string | undefined> = signal(undefined);
  readonly info: Signal<WireRecord | undefined> = signal(undefined);
  readonly chosen: Signal<ChosenSession | undefined> = signal(undefined);
  readonly notice: Signal<Notice | undefined> = signal(undefined);
  readonly details: RowDetails;
  readonly waiting: WaitingQueue;
  readonly #metrics = new MetricsHistory();
  readonly #batch: FrameBatch<ViewedEvent>;
  #connection: EventStream | undefined;
  #isListing = false;
  #notices = 0;
  #orderedAt = 0;
  #orderTimer: ReturnType<typeof setTimeout> | undefined;
  #relistTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #timers: ReturnType<typeof setInterval>[] = [];

  constructor(api: Api) {
    this.api = api;
    this.waiting = new WaitingQueue(api);
    this.details = new RowDetails(api, (detail) => {
      this.tree.describe(detail);
      this.#changed();
    });
    this.#batch = frameBatch<ViewedEvent>({
      itemsMax: BATCH_EVENTS_MAX,
      schedule: nextFrame,
      take: (events, lost) => this.#take(events, lost),
    });
  }

  /** Starts, or restarts with a new token. */
  start(): void {
    this.stop();
    this.needsToken.value = false;
    this.#connection = openStream({
      // The tree needs only ids, states and counts, so this stream has no content. Content is read only for the chosen
      // session.
      address: () => this.api.stream('events?mode=basic&deltas=false'),
      onEvent: ({ type, data }) => {
        if (!TREE_EVENTS.has(type)) return;
        const event = readViewedEvent(data);
        if (event !== undefined) this.#batch.add(event);
      },
      onState: (state, isBack) => {
        this.stream.value = state;
        if (state.kind === 'refused') this.#refused(state.error);
        // The stream has only live events, so events are missing from the time without a connection. The list has their
        // effect.
        if (isBack) this.#list();
      },
    });
    this.#list();
    this.#lookAtCounters();
    this.#readInfo();
    this.#timers.push(setInterval(() => this.#lookAtCounters(), METRICS_INTERVAL_MS));
    this.#timers.push(setInterval(() => this.#list(), RELIST_INTERVAL_MS));
    const chosen = this.chosen.value;
    if (chosen !== undefined) this.choose(chosen.id, true);
  }

  /** Ends the streams and the timers. The chosen session stays chosen, and is read again by `start`. */
  stop(): void {
    this.#connection?.close();
    this.chosen.value?.close();
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
    clearTimeout(this.#relistTimer);
    this.#relistTimer = undefined;
    clearTimeout(this.#orderTimer);
    this.#orderTimer = undefined;
  }

  /** Retries lost connections now. */
  retry(): void {
    this.#connection?.retry();
    this.chosen.value?.retry();
    if (this.list.value.kind === 'failed') this.#list();
  }

  /** Chooses a session, or no session. */
  choose(id: string | undefined, again = false): void {
    const before = this.chosen.value;
    if (before?.id === id && !again) return;
    before?.close();
    if (id === undefined) {
      this.chosen.value = undefined;
      return;
    }
    const chosen = new ChosenSession({
      id,
      api: this.api,
      onDetail: (detail) => {
        this.tree.describe(detail);
        this.#changed();
      },
      onTrouble: (trouble) => {
        this.tree.setTrouble(id, trouble);
        this.#changed();
      },
      onUnauthorised: () => this.#stopForToken(),
    });
    this.chosen.value = chosen;
    chosen.open().catch((error: unknown) => this.say(messageOf(error), true));
  }

  /** Changes the view of the tree at once, because a person asked for it. */
  show(change: Partial<TreeView>): void {
    this.view.value = { ...this.view.value, ...change };
    this.#order();
  }

  /** Opens the ancestors of a session, so that it has a row. */
  reveal(id: string): void {
    const open = new Set(this.view.value.open);
    const before = open.size;
    for (let above = this.tree.get(id)?.parent; above !== undefined; above = above.parent) open.add(above.id);
    if (open.size > before) this.show({ open });
  }

  /** Opens or closes a row. */
  setOpen(id: string, isOpen: boolean): void {
    const open = new Set(this.view.value.open);
    if (isOpen) open.add(id);
    else open.delete(id);
    this.show({ open });
  }

  /** Runs an action and shows a notice of its result; true when it succeeded. */
  async act(done: string, action: () => Promise<void>): Promise<boolean> {
    try {
      await action();
      this.say(done, false);
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) this.#stopForToken();
      this.say(messageOf(error), true);
      return false;
    }
  }

  /** Deletes a session and its descendants. */
  async remove(id: string): Promise<boolean> {
    const isDone = await this.act(`Deleted ${id}`, () => this.api.remove(id));
    if (isDone) {
      this.tree.remove(id);
      this.#changed();
    }
    return isDone;
  }

  /** Shows a notice for a while. */
  say(text: string, isFailure: boolean): void {
    this.#notices += 1;
    const notice = { number: this.#notices, text, isFailure };
    this.notice.value = notice;
    setTimeout(() => {
      if (this.notice.value === notice) this.notice.value = undefined;
    }, NOTICE_MS);
  }

  /** Reads the whole list again. */
  reload(): void {
    this.#list();
  }

  #take(events: readonly ViewedEvent[], lost: number): void {
    let hasGap = lost > 0;
    const chosen = this.chosen.value;
    for (const event of events) {
      if (event.type === 'gap') {
        hasGap = true;
        continue;
      }
      this.tree.apply(event);
      if (isAsking(event) || this.waiting.has(event.session)) this.waiting.changed();
      if (event.type === 'session.state' && chosen !== undefined && event.session.startsWith(`${chosen.id}:`)) {
        chosen.childEntered(event.session, event.state, event.at);
      }
    }
    this.#changed();
    if (hasGap && this.#relistTimer === undefined) {
      this.#relistTimer = setTimeout(() => {
        this.#relistTimer = undefined;
        this.#list();
      }, RELIST_AFTER_GAP_MS);
    }
  }

  #list(): void {
    if (this.#isListing || this.needsToken.value) return;
    this.#isListing = true;
    if (this.list.value.kind === 'failed') this.list.value = { kind: 'loading', count: 0 };
    this.#readList()
      .catch((error: unknown) => this.#refused(error))
      .finally(() => {
        this.#isListing = false;
      });
  }

  async #readList(): Promise<void> {
    this.tree.beginListing();
    let after: string | undefined;
    do {
      const page = await this.api.sessions(after);
      for (const session of page.sessions) this.tree.put(session);
      after = page.next;
      if (this.list.value.kind === 'loading') this.list.value = { kind: 'loading', count: this.tree.size };
      this.#changed();
    } while (after !== undefined && !this.tree.isFull);
    if (after === undefined) this.tree.endListing();
    this.list.value = { kind: 'ready' };
    this.#changed();
  }

  #refused(error: unknown): void {
    if (error instanceof ApiError && error.status === 401) {
      this.#stopForToken();
      return;
    }
    if (this.list.value.kind !== 'ready') this.list.value = { kind: 'failed', message: messageOf(error) };
  }

  #stopForToken(): void {
    this.stop();
    this.needsToken.value = true;
  }

  #readInfo(): void {
    this.api.info().then(
      (info) => {
        this.info.value = info;
      },
      // The page works without these facts, so a failure is not shown here.
      () => undefined,
    );
  }

  #lookAtCounters(): void {
    if (document.hidden) return;
    this.api.metrics().then(
      ({ counters, providers, degraded }) => {
        this.#metrics.add({ at: Date.now(), counters, providers });
        this.figures.value = this.#metrics.figures();
        this.degraded.value = degraded;
        this.waiting.counted(counters['callsWaitingForPerson']);
      },
      () => {
        // Outdated figures are not shown.
        this.#metrics.clear();
        this.figures.value = undefined;
        // A token of one tenant may not read the counters. Then no count of waiting calls arrives, so the first reading
        // of the waiting calls begins here.
        if (this.waiting.page.value === undefined) this.waiting.changed();
      },
    );
  }

  #changed(): void {
    this.version.value = this.tree.version;
    const waitMs = this.#orderedAt + ORDER_INTERVAL_MS - performance.now();
    if (this.#orderTimer !== undefined) return;
    if (waitMs <= 0) this.#order();
    else this.#orderTimer = setTimeout(() => this.#order(), waitMs);
  }

  #order(): void {
    clearTimeout(this.#orderTimer);
    this.#orderTimer = undefined;
    this.rows.value = arrange(this.tree.roots, this.view.value);
    this.#orderedAt = performance.now();
  }
}

/** True for an event that adds a call to the queue of waiting calls. */
function isAsking({ type }: ViewedEvent): boolean {
  return type === 'approval.required' || type === 'question.asked';
}
