/** The conversation in the chosen mode, with the waiting entries of the mailbox and the answer in flight. */
import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Message } from '../../base/messages.ts';
import { TEXT_CHARACTERS_MAX } from '../bounds.ts';
import type { Conversation, StreamedAnswer } from '../model/conversation.ts';
import { type MessageView, type ViewMode, viewMessage, viewPending } from '../model/message-view.ts';
import { clockText, countOf, LOST_WORDS } from '../model/wording.ts';
import type { ChosenSession } from '../state/chosen-session.ts';
import type { Observer } from '../state/observer.ts';
import type { Preferences } from '../state/preferences.ts';

/** Distance from the end, in pixels, within which the view follows new text. */
const FOLLOW_PX = 60;

/** See the head of the file. */
export function ConversationView(props: {
  readonly observer: Observer;
  readonly chosen: ChosenSession;
  readonly preferences: Preferences;
}): JSX.Element {
  const { observer, chosen, preferences } = props;
  const version = chosen.version.value;
  const mode = preferences.mode.value;
  const { conversation } = chosen;
  const { streamed } = conversation;
  const frame = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(true);
  const [isBehind, setBehind] = useState(false);

  useLayoutEffect(() => {
    const element = frame.current;
    if (element !== null && isFollowing.current) element.scrollTop = element.scrollHeight;
  });
  const onScroll = (): void => {
    const element = frame.current;
    if (element === null) return;
    isFollowing.current = element.scrollHeight - element.scrollTop - element.clientHeight < FOLLOW_PX;
    setBehind(!isFollowing.current);
  };
  const toEnd = (): void => {
    isFollowing.current = true;
    frame.current?.scrollTo({ top: frame.current.scrollHeight });
  };
  const drawn = useRef<DrawnMessages>(new WeakMap());
  const rows = rowsOf(conversation, mode, drawn.current);
  const waiting = conversation.pending().flatMap((entry) => {
    const view = viewPending(entry, mode, clockText);
    return view === undefined ? [] : [{ entry, view }];
  });
  const isEmpty = rows.length === 0 && waiting.length === 0 && streamed.text === '' && streamed.thinking === '';
  return (
    <div class="talk-frame">
      <div
        class="talk-scroll"
        ref={frame}
        onScroll={onScroll}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard
        tabIndex={0}
        role="log"
        aria-label="Conversation"
        aria-live="off"
      >
        {conversation.hasEarlier ? <Earlier observer={observer} chosen={chosen} /> : null}
        {isEmpty ? <NothingSaid mode={mode} count={conversation.messages.length} /> : null}
        <ol class={`talk talk-${mode}`} data-version={version}>
          {rows}
          {streamed.thinking !== '' && mode !== 'basic' ? (
            <TalkItem
              key="thinking"
              view={{ ...STREAMED, speaker: 'thought', title: 'thinking', body: streamed.thinking }}
              flag={flagOf(streamed)}
            />
          ) : null}
          {streamed.text !== '' ? (
            <TalkItem key="text" view={{ ...STREAMED, body: streamed.text }} flag={flagOf(streamed)} />
          ) : null}
          {waiting.map(({ entry, view }) => (
            <TalkItem
              key={`entry ${entry.id}`}
              view={view}
              onRecall={
                entry.type === 'user_message'
                  ? () => {
                      observer
                        .act('Recalled', () => observer.api.recall(chosen.id, entry.id))
                        .catch((error: unknown) => observer.say(String(error), true));
                    }
                  : undefined
              }
            />
          ))}
        </ol>
      </div>
      {isBehind ? (
        <button type="button" class="to-end" onClick={toEnd}>
          To the newest ↓
        </button>
      ) : null}
    </div>
  );
}

const STREAMED: MessageView = {
  speaker: 'assistant',
  title: '',
  body: '',
  isCode: false,
  facts: [],
  isFailed: false,
  isPending: false,
};

/** The remark about streamed text, which is not a message. */
function flagOf({ lost }: StreamedAnswer): string {
  return lost === undefined ? 'being written' : LOST_WORDS[lost];
}

/** The drawn items by message, so that unchanged messages are not drawn again while an answer streams. */
type DrawnMessages = WeakMap<
  Message,
  { readonly mode: ViewMode; readonly isEvicted: boolean; readonly item: JSX.Element | undefined }
>;

function rowsOf(conversation: Conversation, mode: ViewMode, drawn: DrawnMessages): readonly JSX.Element[] {
  const { messages, evictedBelow } = conversation;
  const rows: JSX.Element[] = [];
  let isBordered = evictedBelow === 0 || mode === 'basic';
  for (const message of messages) {
    const isEvicted = conversation.isHidden(message.seq);
    const before = drawn.get(message);
    const isSame = before?.mode === mode && before.isEvicted === isEvicted;
    const item = isSame ? before.item : itemOf(message, mode, isEvicted);
    if (!isSame) drawn.set(message, { mode, isEvicted, item });
    if (item === undefined) continue;
    if (!isBordered && message.seq >= evictedBelow) {
      isBordered = true;
      if (rows.length > 0) rows.push(BORDER);
    }
    rows.push(item);
  }
  return rows;
}

const BORDER: JSX.Element = (
  <li key="border" class="talk-border">
    above: no more shown to the model
  </li>
);

function itemOf(message: Message, mode: ViewMode, isEvicted: boolean): JSX.Element | undefined {
  const view = viewMessage(message, mode, clockText);
  return view === undefined ? undefined : <TalkItem key={message.seq} view={view} isEvicted={isEvicted} />;
}

function TalkItem(props: {
  readonly view: MessageView;
  readonly isEvicted?: boolean;
  /** A remark about text that is not a message of the log. */
  readonly flag?: string;
  readonly onRecall?: (() => void) | undefined;
}): JSX.Element {
  const { view, isEvicted = false, flag, onRecall } = props;
  const [isWhole, setWhole] = useState(false);
  const isCut = !isWhole && view.body.length > TEXT_CHARACTERS_MAX;
  const body = isCut ? view.body.slice(0, TEXT_CHARACTERS_MAX) : view.body;
  const names = ['said', `said-${view.speaker.replace(' ', '-')}`];
  if (view.isPending) names.push('is-pending');
  if (view.isFailed) names.push('is-failed');
  if (isEvicted) names.push('is-evicted');
  return (
    <li class={names.join(' ')}>
      <div class="said-head">
        <span class="speaker">{view.speaker}</span>
        {view.title === '' ? null : <span class="said-title">{view.title}</span>}
        {view.isFailed ? <span class="said-flag">failed</span> : null}
        {view.isPending ? (
          <span class="said-flag" title="In the mailbox">
            waits
          </span>
        ) : null}
        {flag === undefined ? null : <span class="said-flag is-written">{flag}</span>}
      </div>
      <div class="said-body">
        <div class={view.isCode ? 'said-text is-code' : 'said-text'}>{body}</div>
        {isCut ? (
          <button type="button" class="link" onClick={() => setWhole(true)}>
            Show all {view.body.length.toLocaleString('en')} characters
          </button>
        ) : null}
      </div>
      {view.facts.length > 0 || onRecall !== undefined ? (
        <p class="said-facts">
          {view.facts.map((fact) => (
            <span key={fact}>{fact}</span>
          ))}
          {onRecall === undefined ? null : (
            <button type="button" class="link" onClick={onRecall}>
              Recall
            </button>
          )}
        </p>
      ) : null}
    </li>
  );
}

function Earlier({ observer, chosen }: { readonly observer: Observer; readonly chosen: ChosenSession }): JSX.Element {
  if (!chosen.conversation.hasRoom) {
    return <p class="talk-note">Earlier messages are in the log; the page keeps no more of them.</p>;
  }
  return (
    <p class="talk-note">
      <button
        type="button"
        class="link"
        disabled={chosen.isLoadingEarlier.value}
        onClick={() => {
          chosen.readEarlier().catch((error: unknown) => observer.say(String(error), true));
        }}
      >
        {chosen.isLoadingEarlier.value ? 'Reading…' : 'Earlier messages'}
      </button>
    </p>
  );
}

function NothingSaid({ mode, count }: { readonly mode: ViewMode; readonly count: number }): JSX.Element {
  if (count === 0) {
    return (
      <div class="empty">
        <p class="empty-title">No messages yet</p>
      </div>
    );
  }
  return (
    <div class="empty">
      <p class="empty-title">Nothing to show in {mode}</p>
      <p>{countOf(count, 'message')} in verbose and debug.</p>
    </div>
  );
}
