/**
 * Orders the calls that wait.
 * Owns: the waiting calls and their order. Does not own: when the next call may leave, how many may wait.
 *
 * - E1 Session trees alternate, one call each; within a tree, calls leave in the order they came. A session tree is a
 *   session with all its descendants. A tree of five thousand sessions and a tree of one session get equal shares, and
 *   no tree waits forever.
 * - E2 Putting, taking and removing cost the same however many calls wait. So the queue is made of linked lists:
 *   finding the first entry of a `Map` after many removals means skipping all removed entries.
 */
import { rootOf } from '../../base/ids.ts';

/** The fields of an item that the queue needs. */
export interface Queued {
  /** Unique within the queue. */
  readonly id: number;
  readonly session: string;
}

interface Link<T> {
  readonly value: T;
  before: Link<T> | undefined;
  after: Link<T> | undefined;
}

interface Tree<T> {
  readonly root: string;
  readonly items: Chain<T>;
  /** The tree's link in `#turns`, the order in which trees are served; undefined until the tree is in `#turns`. */
  turn: Link<Tree<T>> | undefined;
}

/** See the head of the file. */
export class FairQueue<T extends Queued> {
  readonly #places = new Map<number, { readonly link: Link<T>; readonly tree: Tree<T> }>();
  readonly #trees = new Map<string, Tree<T>>();
  /** Trees in the order in which they are served; none is empty. */
  readonly #turns = new Chain<Tree<T>>();

  /** The number of waiting items. */
  get size(): number {
    return this.#places.size;
  }

  get(id: number): T | undefined {
    return this.#places.get(id)?.link.value;
  }

  /** Adds an item after the others of its tree. A tree that had no items is served after all other trees. */
  put(item: T): void {
    const root = rootOf(item.session);
    const tree = this.#trees.get(root) ?? this.#grow(root);
    this.#places.set(item.id, { link: tree.items.push(item), tree });
  }

  /** The next item; it stays in the queue. */
  first(): T | undefined {
    return this.#turns.first?.value.items.first?.value;
  }

  /** Takes out the next item. Its tree is then served after all other trees. */
  take(): T | undefined {
    const tree = this.#turns.first?.value;
    const item = tree?.items.first?.value;
    if (tree === undefined || item === undefined) return undefined;
    this.remove(item.id);
    if (tree.items.first !== undefined) {
      this.#turns.remove(tree.turn);
      tree.turn = this.#turns.push(tree);
    }
    return item;
  }

  /** Takes out one item from any position; undefined when it is not in the queue. */
  remove(id: number): T | undefined {
    const place = this.#places.get(id);
    if (place === undefined) return undefined;
    const { link, tree } = place;
    this.#places.delete(id);
    tree.items.remove(link);
    if (tree.items.first === undefined) {
      this.#trees.delete(tree.root);
      this.#turns.remove(tree.turn);
    }
    return link.value;
  }

  /** Every item, in order of arrival. The items stay in the queue. */
  items(): readonly T[] {
    return Array.from(this.#places.values(), ({ link }) => link.value);
  }

  #grow(root: string): Tree<T> {
    const tree: Tree<T> = { root, items: new Chain<T>(), turn: undefined };
    tree.turn = this.#turns.push(tree);
    this.#trees.set(root, tree);
    return tree;
  }
}

/** A linked list; a value can be removed at any position. */
class Chain<T> {
  first: Link<T> | undefined;
  #last: Link<T> | undefined;

  push(value: T): Link<T> {
    const link: Link<T> = { value, before: this.#last, after: undefined };
    if (this.#last === undefined) this.first = link;
    else this.#last.after = link;
    this.#last = link;
    return link;
  }

  /** `link` must be in this chain. */
  remove(link: Link<T> | undefined): void {
    if (link === undefined) return;
    if (link.before === undefined) this.first = link.after;
    else link.before.after = link.after;
    if (link.after === undefined) this.#last = link.before;
    else link.after.before = link.before;
  }
}
