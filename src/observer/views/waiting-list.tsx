/** The queue of calls that wait for a person, over all sessions. Each call has the form for its decision or answer. */
import type { JSX } from 'preact';
import { ageText } from '../model/wording.ts';
import type { Observer } from '../state/observer.ts';
import type { WaitingCall } from '../wire.ts';
import { WaitingCallForm } from './approvals.tsx';
import { useNow } from './virtual-frame.ts';

interface QueueProps {
  readonly observer: Observer;
  readonly onChoose: (id: string) => void;
}

/** See the head of the file. Draws nothing when no call waits. */
export function WaitingList({ observer, onChoose }: QueueProps): JSX.Element | null {
  const page = observer.waiting.page.value;
  const now = useNow(1_000, page !== undefined && page.calls.length > 0);
  if (page === undefined || page.calls.length === 0) return null;
  const total = observer.figures.value?.callsWaiting ?? page.calls.length;
  const more = Math.max(total - page.calls.length, page.hasMore ? 1 : 0);
  return (
    <section class="queue" aria-label="Waiting for a person">
      <h3>
        Waiting for a person <span class="small">{Math.max(total, page.calls.length).toLocaleString('en')}</span>
      </h3>
      <ul>
        {page.calls.map((call) => (
          <li key={`${call.session} ${call.callId}`}>
            <QueuedCall observer={observer} call={call} now={now} onChoose={onChoose} />
          </li>
        ))}
      </ul>
      {more > 0 ? (
        <p class="small queue-more">
          {more.toLocaleString('en')} more {more === 1 ? 'call waits' : 'calls wait'}; the oldest are shown.
        </p>
      ) : null}
    </section>
  );
}

function QueuedCall({
  observer,
  call,
  now,
  onChoose,
}: QueueProps & { readonly call: WaitingCall; readonly now: number }): JSX.Element {
  const name = observer.tree.get(call.session)?.name;
  const place = (
    <span class="queue-place">
      <button type="button" class="link" onClick={() => onChoose(call.session)}>
        {name ?? call.session}
      </button>
      <span class="queue-age" title={new Date(call.at).toLocaleString()}>
        {ageText(now - call.at)}
        {call.expiresAt === undefined
          ? null
          : `, ${call.kind === 'approval' ? 'denied' : 'ends'} in ${ageText(call.expiresAt - now)}`}
      </span>
    </span>
  );
  return <WaitingCallForm observer={observer} call={call} place={place} />;
}
