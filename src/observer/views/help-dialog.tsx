/** The help dialog: keys, signs, and facts about the server. */
import type { JSX } from 'preact';
import { MARK_WORDS, type Mark } from '../model/wording.ts';
import { isRecord, type WireRecord } from '../wire.ts';
import { Modal } from './modal.tsx';
import { StateMark } from './state-mark.tsx';

const KEYS: readonly (readonly [readonly string[], string])[] = [
  [['↑', '↓', 'Home', 'End'], 'move in the tree'],
  [['→', '←'], 'open, close; to the child, to the parent'],
  [['Enter'], 'choose the session'],
  [['/'], 'filter'],
  [['g'], 'to the tree'],
  [['1', '2', '3'], 'conversation, time line, request'],
  [['m'], 'basic, verbose, debug'],
  [['c'], 'write a message'],
  [['Ctrl', 'Enter'], 'send it'],
  [['t'], 'theme'],
  [['Esc'], 'back to the tree'],
];

/** See the head of the file. */
export function HelpDialog(props: {
  readonly info: WireRecord | undefined;
  readonly onClose: () => void;
}): JSX.Element {
  const { info, onClose } = props;
  return (
    <Modal label="Keys and signs" onClose={onClose}>
      <div class="dialog-head">
        <h2>Keys and signs</h2>
        <button type="button" class="quiet" onClick={onClose} aria-label="Close">
          ✕
        </button>
      </div>
      <div class="help">
        <dl class="keys">
          {KEYS.map(([keys, meaning]) => (
            <div key={meaning}>
              <dt>
                {keys.map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
        <dl class="keys">
          {(Object.keys(MARK_WORDS) as Mark[]).map((mark) => (
            <div key={mark}>
              <dt>
                <StateMark mark={mark} withWord />
              </dt>
              <dd>{MARK_WORDS[mark].meaning}</dd>
            </div>
          ))}
        </dl>
      </div>
      <p class="small">{info === undefined ? 'The server gives no information about itself.' : aboutText(info)}</p>
    </Modal>
  );
}

function aboutText(info: WireRecord): string {
  const { version, node, durability, threads } = info;
  const parts = [
    `troupe ${String(version ?? '')}`,
    `Node ${String(node ?? '')}`,
    `durability ${String(durability ?? '')}`,
  ];
  if (isRecord(threads)) {
    parts.push(
      Object.entries(threads)
        .map(([kind, count]) => `${String(count)} ${kind}`)
        .join(', ')
        .concat(' threads'),
    );
  }
  return parts.join(' · ');
}
