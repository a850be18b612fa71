/** The form for writing a message. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Delivery } from '../client/api.ts';
import type { ChosenSession } from '../state/chosen-session.ts';
import type { Observer } from '../state/observer.ts';

const DELIVERIES: readonly { readonly deliver: Delivery; readonly word: string }[] = [
  { deliver: 'ride', word: 'ride: joins the next half-step' },
  { deliver: 'steer', word: 'steer: joins before all riders' },
  { deliver: 'turn', word: 'turn: waits for a separate turn' },
  { deliver: 'interrupt', word: 'interrupt: cancels running work' },
  { deliver: 'merge', word: 'merge: joined with waiting messages' },
  { deliver: 'latest', word: 'latest: replaces waiting messages' },
  { deliver: 'reject', word: 'reject: refused unless idle' },
];

/** See the head of the file. */
export function Composer(props: {
  readonly observer: Observer;
  readonly chosen: ChosenSession;
  readonly isBusy: boolean;
}): JSX.Element {
  const { observer, chosen, isBusy } = props;
  const [text, setText] = useState('');
  const [deliver, setDeliver] = useState<Delivery>('ride');
  const [isSending, setSending] = useState(false);
  const canSend = text.trim() !== '' && !isSending;
  const send = (): void => {
    if (!canSend) return;
    setSending(true);
    observer
      .act('Accepted', () => observer.api.send(chosen.id, text, deliver))
      .then((isDone) => {
        setSending(false);
        if (isDone) setText('');
      })
      .catch((error: unknown) => observer.say(String(error), true));
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label class="unseen" for="composer-text">
        Message
      </label>
      <textarea
        id="composer-text"
        rows={2}
        placeholder={isBusy ? 'Steer the running turn…' : 'Write a message…'}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            send();
          }
          if (event.key === 'Escape') event.currentTarget.blur();
        }}
      />
      <div class="composer-end">
        <label class="unseen" for="composer-deliver">
          How it meets a busy session
        </label>
        <select
          id="composer-deliver"
          value={deliver}
          onChange={(event) => {
            const chosenDelivery = DELIVERIES.find((each) => each.deliver === event.currentTarget.value);
            if (chosenDelivery !== undefined) setDeliver(chosenDelivery.deliver);
          }}
        >
          {DELIVERIES.map((each) => (
            <option key={each.deliver} value={each.deliver}>
              {each.word}
            </option>
          ))}
        </select>
        <button type="submit" class="primary" disabled={!canSend} title="Ctrl+Enter">
          Send
        </button>
      </div>
    </form>
  );
}
