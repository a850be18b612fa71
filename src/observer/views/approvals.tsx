/** The calls that wait for a person. A person allows, denies or answers each call where it is shown. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { previewOf } from '../model/message-view.ts';
import type { ChosenSession } from '../state/chosen-session.ts';
import type { Observer } from '../state/observer.ts';
import { QuestionForm, type WaitingCallProps } from './question-form.tsx';

/** The waiting calls of the chosen session. Draws nothing when no call waits. */
export function Approvals({
  observer,
  chosen,
}: {
  readonly observer: Observer;
  readonly chosen: ChosenSession;
}): JSX.Element | null {
  const version = chosen.version.value;
  const calls = chosen.conversation.waiting();
  if (calls.length === 0) return null;
  return (
    <section class="approvals" aria-label="Calls that wait for you" data-version={version}>
      {calls.map((call) => (
        <WaitingCallForm key={call.callId} observer={observer} call={call} />
      ))}
    </section>
  );
}

/** One call, with the buttons for its decision or the form for its answer. */
export function WaitingCallForm(props: WaitingCallProps): JSX.Element {
  return props.call.kind === 'approval' ? <ApprovalCall {...props} /> : <QuestionForm {...props} />;
}

function ApprovalCall({ observer, call, place }: WaitingCallProps): JSX.Element {
  const [isDeciding, setDeciding] = useState(false);
  const { session, callId, toolName } = call;
  const decide = (allow: boolean): void => {
    setDeciding(true);
    const reason = allow ? undefined : 'denied by a person';
    observer
      .act(allow ? `Allowed ${toolName}` : `Denied ${toolName}`, async () => {
        const isDecided = await observer.api.approve(session, callId, allow, reason);
        observer.waiting.changed();
        if (!isDecided) throw new Error(`${toolName} was decided elsewhere, or no longer waits`);
      })
      .finally(() => setDeciding(false))
      .catch((error: unknown) => observer.say(String(error), true));
  };
  return (
    <div class="approval">
      <div class="approval-call">
        <p>
          <b>{toolName}</b> {place ?? 'waits for you'}
        </p>
        <code>{previewOf(toolName, call.input)}</code>
      </div>
      <div class="approval-end">
        <button
          type="button"
          class="primary"
          disabled={isDeciding}
          aria-label={`Allow ${toolName} of ${session}`}
          onClick={() => decide(true)}
        >
          Allow
        </button>
        <button
          type="button"
          disabled={isDeciding}
          aria-label={`Deny ${toolName} of ${session}`}
          onClick={() => decide(false)}
        >
          Deny
        </button>
      </div>
    </div>
  );
}
