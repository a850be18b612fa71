/** Draws a session's state. Each state has its own shape, so that no state is recognised by colour alone. */
import type { JSX } from 'preact';
import { MARK_WORDS, type Mark } from '../model/wording.ts';

/** The drawing, with the name of the state beside it if `withWord` is set. */
export function StateMark({
  mark,
  withWord = false,
}: {
  readonly mark: Mark;
  readonly withWord?: boolean;
}): JSX.Element {
  const { word, meaning } = MARK_WORDS[mark];
  return (
    <span class={`mark mark-${mark}`} title={meaning}>
      <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" focusable="false">
        {SHAPES[mark]}
      </svg>
      {withWord ? <span class="mark-word">{word}</span> : <span class="unseen">{word}</span>}
    </span>
  );
}

const SHAPES: Readonly<Record<Mark, JSX.Element>> = {
  idle: <circle cx="6" cy="6" r="3.6" class="stroke" />,
  model: (
    <>
      <circle cx="6" cy="6" r="4.2" class="stroke" />
      <path d="M6 1.8a4.2 4.2 0 0 1 0 8.4z" class="fill" />
    </>
  ),
  tools: <path d="M6 1l5 5-5 5-5-5z" class="fill" />,
  retrying: (
    <>
      <path d="M9.9 4.4A4.2 4.2 0 1 0 10.2 6.6" class="stroke" />
      <path d="M10.9 1.6v3.4H7.5z" class="fill" />
    </>
  ),
  paused: <path d="M3 2h2v8H3zM7 2h2v8H7z" class="fill" />,
  approval: (
    <>
      <path d="M1.2 1.6h9.6v6.6H6.6L4 10.8V8.2H1.2z" class="stroke" />
      <path d="M5.4 3h1.2v2.6H5.4zM5.4 6.2h1.2v1H5.4z" class="fill" />
    </>
  ),
  question: (
    <>
      <circle cx="6" cy="6" r="5" class="stroke" />
      <path d="M4.4 4.9a1.6 1.6 0 1 1 2.3 1.4c-.5.3-.7.5-.7 1" class="stroke" />
      <path d="M5.4 8.2h1.2v1.1H5.4z" class="fill" />
    </>
  ),
  preparing: <circle cx="6" cy="6" r="4.2" class="stroke dotted" />,
  queued: <path d="M1.4 4.6h2.2v2.8H1.4zM4.9 4.6h2.2v2.8H4.9zM8.4 4.6h2.2v2.8H8.4z" class="stroke" />,
  stopped: (
    <>
      <path d="M6 1.2l5.2 9.4H.8z" class="stroke" />
      <path d="M5.4 4.6h1.2v3H5.4zM5.4 8.3h1.2v1.1H5.4z" class="fill" />
    </>
  ),
  ended: <path d="M2 6.4l2.8 2.8L10 3.2" class="stroke" />,
  failed: <path d="M2.6 2.6l6.8 6.8M9.4 2.6L2.6 9.4" class="stroke" />,
};
