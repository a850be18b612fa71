/** The rows of the tree that are in view, their navigation keys, and the text shown when there are no rows. */
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { TreeRow } from '../model/tree-rows.ts';
import { scrollTo, virtualWindow } from '../model/virtual-window.ts';
import type { Observer } from '../state/observer.ts';
import { SessionRow } from './session-row.tsx';
import { NARROW, useFrame, useMedia, useNow } from './virtual-frame.ts';

/** See the head of the file. */
export function TreeRows({
  observer,
  onChoose,
}: {
  readonly observer: Observer;
  readonly onChoose: (id: string) => void;
}): JSX.Element {
  const rows = observer.rows.value;
  const chosen = observer.chosen.value?.id;
  const rowPx = useMedia(NARROW) ? 48 : 30;
  const { frame, position } = useFrame<HTMLDivElement>();
  const [active, setActive] = useState<string | undefined>(undefined);
  const mustFocus = useRef(false);
  const now = useNow(1_000, true);
  const drawn = virtualWindow({ count: rows.length, rowPx, ...position });
  const found = active === undefined ? -1 : rows.findIndex((row) => row.node.id === active);
  const activeIndex =
    found === -1
      ? Math.max(
          0,
          rows.findIndex((row) => row.node.id === chosen),
        )
      : found;

  useLayoutEffect(() => {
    if (!mustFocus.current) return;
    mustFocus.current = false;
    const row = frame.current?.querySelector<HTMLElement>('[role=treeitem][tabindex="0"]');
    row?.focus({ preventScroll: true });
  });
  const inView = rows.slice(drawn.first, drawn.end);
  const lacking = inView.filter((row) => row.node.tokens === undefined).map((row) => row.node.id);
  const lackingKey = lacking.join(' ');
  useEffect(() => {
    observer.details.want('tree', lackingKey === '' ? [] : lackingKey.split(' '));
  }, [observer, lackingKey]);

  // A session chosen elsewhere, by an address or in the time line, is scrolled into view once.
  const chosenIndex = chosen === undefined ? -1 : rows.findIndex((row) => row.node.id === chosen);
  const revealed = useRef<string | undefined>(undefined);
  const isKnown = chosen !== undefined && observer.tree.get(chosen) !== undefined;
  useEffect(() => {
    if (chosen === undefined || revealed.current === chosen || !isKnown) return;
    observer.reveal(chosen);
    if (chosenIndex === -1) return;
    revealed.current = chosen;
    setActive(chosen);
    const element = frame.current;
    if (element === null) return;
    const { scrollTop, clientHeight } = element;
    const top = scrollTo(chosenIndex, { rowPx, topPx: scrollTop, framePx: clientHeight });
    if (top !== undefined) element.scrollTo({ top: chosenIndex * rowPx - clientHeight / 3 });
  }, [observer, chosen, chosenIndex, isKnown, rowPx, frame]);

  const goTo = (index: number): void => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
    if (row === undefined) return;
    const top = scrollTo(rows.indexOf(row), { rowPx, ...position });
    if (top !== undefined) frame.current?.scrollTo({ top });
    mustFocus.current = true;
    setActive(row.node.id);
  };
  const choose = (row: TreeRow): void => {
    setActive(row.node.id);
    if (row.isOpen === false) observer.setOpen(row.node.id, true);
    onChoose(row.node.id);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const row = rows[activeIndex];
    if (row === undefined) return;
    const page = Math.max(1, Math.floor(position.framePx / rowPx) - 1);
    const moves: Readonly<Record<string, () => void>> = {
      ArrowDown: () => goTo(activeIndex + 1),
      ArrowUp: () => goTo(activeIndex - 1),
      PageDown: () => goTo(activeIndex + page),
      PageUp: () => goTo(activeIndex - page),
      Home: () => goTo(0),
      End: () => goTo(rows.length - 1),
      Enter: () => choose(row),
      ' ': () => choose(row),
      ArrowRight: () => {
        if (row.isOpen === false) {
          mustFocus.current = true;
          observer.setOpen(row.node.id, true);
        } else if (row.isOpen === true) goTo(activeIndex + 1);
      },
      ArrowLeft: () => {
        if (row.isOpen === true) {
          mustFocus.current = true;
          observer.setOpen(row.node.id, false);
        } else if (row.node.parent !== undefined) {
          const { parent } = row.node;
          goTo(rows.findIndex((each) => each.node === parent));
        }
      },
    };
    const move = moves[event.key];
    if (move === undefined) return;
    event.preventDefault();
    move();
  };
  // The focused row is always drawn, in one list with the other rows, so that its element is not created again when it
  // comes into view.
  const toDraw = inView.map((row, index) => ({ row, index: drawn.first + index }));
  const activeRow = rows[activeIndex];
  if (activeRow !== undefined && activeIndex < drawn.first) toDraw.unshift({ row: activeRow, index: activeIndex });
  if (activeRow !== undefined && activeIndex >= drawn.end) toDraw.push({ row: activeRow, index: activeIndex });
  const draw = (row: TreeRow, index: number): JSX.Element => (
    <SessionRow
      key={row.node.id}
      row={row}
      topPx={index * rowPx}
      now={now}
      isActive={index === activeIndex}
      isChosen={row.node.id === chosen}
      onChoose={() => choose(row)}
      onToggle={() => observer.setOpen(row.node.id, row.isOpen !== true)}
    />
  );
  return (
    <div class="tree-frame" ref={frame}>
      {rows.length === 0 ? <NoRows observer={observer} /> : null}
      <div
        class="tree"
        role="tree"
        aria-label="Sessions"
        data-row-px={rowPx}
        style={{ height: `${drawn.heightPx}px` }}
        onKeyDown={onKeyDown}
      >
        {toDraw.map(({ row, index }) => draw(row, index))}
      </div>
    </div>
  );
}

/** The text shown when there are no rows; each reason has its own text. */
function NoRows({ observer }: { readonly observer: Observer }): JSX.Element {
  const list = observer.list.value;
  const { filter, subset } = observer.view.value;
  if (list.kind === 'loading') {
    return (
      <div class="ghost-rows" aria-hidden="true">
        {GHOSTS.map((width, index) => (
          <div key={index} class="ghost" style={{ width }} />
        ))}
      </div>
    );
  }
  if (list.kind === 'failed') {
    return (
      <div class="empty" role="alert">
        <p class="empty-title">The sessions could not be read</p>
        <p>{list.message}</p>
        <button type="button" onClick={() => observer.retry()}>
          Try again
        </button>
      </div>
    );
  }
  if (filter !== '' || subset !== 'all') {
    return (
      <div class="empty">
        <p class="empty-title">No session matches</p>
        <button type="button" onClick={() => observer.show({ filter: '', subset: 'all' })}>
          Show all
        </button>
      </div>
    );
  }
  return (
    <div class="empty">
      <p class="empty-title">No sessions yet</p>
      <p>The first message creates one; it appears here at once.</p>
      <pre>
        <code>{"runtime.session('hello').send('Hi')"}</code>
      </pre>
    </div>
  );
}

const GHOSTS: readonly string[] = ['62%', '48%', '70%', '55%', '40%', '66%', '52%', '60%'];
