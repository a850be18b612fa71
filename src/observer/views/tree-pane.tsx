/** The tree of sessions: filter, order, and as many rows as fit. */
import type { JSX } from 'preact';
import { FILTER_CHARACTERS_MAX } from '../bounds.ts';
import type { TreeOrder, TreeSubset } from '../model/tree-rows.ts';
import { countOf } from '../model/wording.ts';
import type { Observer } from '../state/observer.ts';
import { TreeRows } from './tree-rows-view.tsx';

const SUBSETS: readonly { readonly subset: TreeSubset; readonly word: string }[] = [
  { subset: 'all', word: 'All' },
  { subset: 'busy', word: 'Working' },
  { subset: 'waiting', word: 'Waiting' },
  { subset: 'trouble', word: 'Trouble' },
];
const ORDERS: readonly { readonly order: TreeOrder; readonly word: string; readonly title: string }[] = [
  { order: 'id', word: 'Session', title: 'Order by name' },
  { order: 'mailbox', word: 'Mail', title: 'Order by the entries that wait in the mailbox' },
  { order: 'tokens', word: 'Tokens', title: 'Order by tokens' },
  { order: 'age', word: 'Age', title: 'Order by the last change' },
];

/** See the head of the file. */
export function TreePane(props: { readonly observer: Observer; readonly onChoose: (id: string) => void }): JSX.Element {
  const { observer } = props;
  const view = observer.view.value;
  // Read so that the counts are redrawn with each change.
  const version = observer.version.value;
  const counts = observer.tree.counts();
  const list = observer.list.value;
  return (
    <nav class="tree-pane" aria-label="Sessions" data-version={version}>
      <div class="tree-tools">
        <label class="unseen" for="tree-filter">
          Filter sessions by id, name or agent
        </label>
        <input
          id="tree-filter"
          type="search"
          placeholder="Filter by id, name, agent  ( / )"
          maxLength={FILTER_CHARACTERS_MAX}
          value={view.filter}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => observer.show({ filter: event.currentTarget.value })}
        />
        <fieldset class="choice">
          <legend class="unseen">Which sessions</legend>
          {SUBSETS.map(({ subset, word }) => (
            <button
              key={subset}
              type="button"
              aria-pressed={view.subset === subset}
              onClick={() => observer.show({ subset })}
            >
              {word}
            </button>
          ))}
        </fieldset>
      </div>
      <div class="tree-head">
        {ORDERS.map(({ order, word, title }) => {
          const isOrder = view.order === order;
          return (
            <button
              key={order}
              type="button"
              class={`column column-${order}`}
              title={title}
              aria-pressed={isOrder}
              onClick={() => observer.show({ order, isReversed: isOrder && !view.isReversed })}
            >
              {word}
              <span class="arrow" aria-hidden="true">
                {isOrder ? (view.isReversed ? '↑' : '↓') : ''}
              </span>
            </button>
          );
        })}
      </div>
      <TreeRows observer={observer} onChoose={props.onChoose} />
      <p class="tree-foot" role="status">
        {list.kind === 'loading' ? 'Reading sessions…' : ''}
        {list.kind === 'loading' && list.count > 0 ? ` ${list.count.toLocaleString('en')}` : ''}
        {list.kind === 'ready' ? countOf(counts.all, 'session') : ''}
        {list.kind === 'ready' && counts.all > 0
          ? ` · ${counts.awaiting.toLocaleString('en')} at the model · ${counts.executing.toLocaleString('en')} at tools`
          : ''}
        {observer.tree.isFull ? ' · more sessions are not shown' : ''}
      </p>
    </nav>
  );
}
