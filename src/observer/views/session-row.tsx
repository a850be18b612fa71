/** One row of the tree. */
import type { JSX } from 'preact';
import type { TreeRow } from '../model/tree-rows.ts';
import { ageText, countOf, countText, MARK_WORDS, markOf } from '../model/wording.ts';
import { StateMark } from './state-mark.tsx';

/** Maximum number of indented levels. Deeper indentation would leave no room for the name. */
const INDENTED_MAX = 6;

/** See the head of the file. `now`: epoch ms, for the age of the session. */
export function SessionRow(props: {
  readonly row: TreeRow;
  readonly topPx: number;
  readonly now: number;
  readonly isActive: boolean;
  readonly isChosen: boolean;
  readonly onChoose: () => void;
  readonly onToggle: () => void;
}): JSX.Element {
  const { row, topPx, now, isActive, isChosen, onChoose, onToggle } = props;
  const { node, level, isOpen } = row;
  const mark = markOf(node);
  const name = node.name ?? node.id;
  // Below its parent a child is identified by its number. Its agent is shown only if it differs from the parent's.
  const isAlike = node.parent !== undefined && node.parent.agent === node.agent;
  const number = node.parent === undefined ? node.id : node.id.slice(node.parent.id.length);
  const more = [node.name === undefined ? '' : number, isAlike ? '' : node.agent]
    .filter((part) => part !== '')
    .join(' · ');
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the surrounding tree handles the keys
    <div
      role="treeitem"
      class={`row row-${mark}`}
      id={`session ${node.id}`}
      tabIndex={isActive ? 0 : -1}
      aria-level={level}
      aria-setsize={row.siblings}
      aria-posinset={row.place}
      aria-expanded={isOpen}
      aria-selected={isChosen}
      aria-label={`${name}, ${MARK_WORDS[mark].word}, ${node.mailbox} in the mailbox${isOpen === undefined ? '' : `, ${countOf(node.below, 'child', 'children')}`}`}
      style={{ transform: `translateY(${topPx}px)` }}
      onClick={onChoose}
    >
      <span class="cell-name" style={{ paddingLeft: `${(Math.min(level, INDENTED_MAX) - 1) * 14}px` }}>
        {isOpen === undefined ? (
          <span class="twist" aria-hidden="true" />
        ) : (
          <span
            class="twist"
            aria-hidden="true"
            onClick={(event) => {
              event.stopPropagation();
              onToggle();
            }}
          >
            <svg viewBox="0 0 10 10" width="10" height="10" focusable="false" aria-hidden="true">
              <path d={isOpen ? 'M1.5 3l3.5 4 3.5-4' : 'M3 1.5l4 3.5-4 3.5'} class="stroke" />
            </svg>
          </span>
        )}
        <StateMark mark={mark} withWord />
        <span class="row-words">
          <span class="row-name">{name}</span>
          <span class="row-more">{more}</span>
        </span>
        {node.below > 0 ? (
          <span class="row-below" title={`${countOf(node.below, 'child', 'children')}, ${node.busyBelow} at work`}>
            {node.busyBelow > 0 ? `${countText(node.busyBelow)}/` : ''}
            {countText(node.below)}
          </span>
        ) : null}
      </span>
      <span class={node.mailbox > 0 ? 'cell-number has-mail' : 'cell-number'}>
        {node.mailbox > 0 ? countText(node.mailbox) : '·'}
      </span>
      <span class="cell-number">{node.tokens === undefined ? '' : countText(node.tokens)}</span>
      <span class="cell-number cell-age">{node.updatedAt === 0 ? '' : ageText(now - node.updatedAt)}</span>
    </div>
  );
}
