/** The pane shown when no session is chosen: counts of each kind, and the sessions to look at first. */
import type { JSX } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { type OverviewList, overviewOf } from '../model/overview.ts';
import { ageText, countText, markOf } from '../model/wording.ts';
import type { Observer } from '../state/observer.ts';
import { StateMark } from './state-mark.tsx';
import { useNow } from './virtual-frame.ts';
import { WaitingList } from './waiting-list.tsx';

interface OverviewProps {
  readonly observer: Observer;
  readonly onChoose: (id: string) => void;
}

/** See the head of the file. */
export function OverviewPane({ observer, onChoose }: OverviewProps): JSX.Element {
  // Redrawn with the rows, a few times per second, and not with each frame.
  const rows = observer.rows.value;
  const now = useNow(1_000, true);
  // The tree object changes in place, so only new rows show that it has changed.
  const { troubled, waiting } = useMemo(() => overviewOf(observer.tree.nodes()), [observer, rows]);
  // The list of sessions has no token counts, so the details of these sessions are requested.
  const lackingKey = waiting.first
    .filter((node) => node.tokens === undefined)
    .map((node) => node.id)
    .join(' ');
  useEffect(() => {
    observer.details.want('overview', lackingKey === '' ? [] : lackingKey.split(' '));
  }, [observer, lackingKey]);
  const counts = observer.tree.counts();
  return (
    <div class="overview">
      <h2>All sessions</h2>
      <dl class="overview-counts">
        <Count word="idle" count={counts.idle} />
        <Count word="at the model" count={counts.awaiting} />
        <Count word="at tools" count={counts.executing} />
        <Count word="with mail" count={waiting.count} />
      </dl>
      <WaitingList observer={observer} onChoose={onChoose} />
      <List
        title="Stopped or paused"
        list={troubled}
        onMore={() => observer.show({ subset: 'trouble' })}
        onChoose={onChoose}
        value={(node) => ageText(now - node.updatedAt)}
        text={(node) => node.trouble ?? ''}
      />
      <List
        title="Deepest mailboxes"
        list={waiting}
        onMore={() => observer.show({ subset: 'waiting' })}
        onChoose={onChoose}
        value={(node) => countText(node.mailbox)}
        text={(node) => node.agent}
      />
      <p class="small">
        <kbd>↑</kbd> <kbd>↓</kbd> <kbd>Enter</kbd> in the tree · <kbd>/</kbd> filters · <kbd>?</kbd> lists all keys
      </p>
    </div>
  );
}

function Count({ word, count }: { readonly word: string; readonly count: number }): JSX.Element {
  return (
    <div>
      <dt>{word}</dt>
      <dd>{count.toLocaleString('en')}</dd>
    </div>
  );
}

type Node = OverviewList['first'][number];

function List(props: {
  readonly title: string;
  readonly list: OverviewList;
  readonly onChoose: (id: string) => void;
  /** Shows all sessions of the list in the tree. */
  readonly onMore: () => void;
  readonly value: (node: Node) => string;
  readonly text: (node: Node) => string;
}): JSX.Element | null {
  const { title, list, onChoose, onMore, value, text } = props;
  const more = list.count - list.first.length;
  if (list.count === 0) return null;
  return (
    <section aria-label={title}>
      <h3>
        {title} <span class="small">{list.count.toLocaleString('en')}</span>
      </h3>
      <ul>
        {list.first.map((node) => (
          <li key={node.id}>
            <StateMark mark={markOf(node)} withWord />
            <button type="button" class="link" onClick={() => onChoose(node.id)}>
              {node.name ?? node.id}
            </button>
            <span class="overview-text">{text(node)}</span>
            <span class="overview-value">{value(node)}</span>
          </li>
        ))}
      </ul>
      {more > 0 ? (
        <button type="button" class="link overview-more" onClick={onMore}>
          {more.toLocaleString('en')} more, in the tree
        </button>
      ) : null}
    </section>
  );
}
