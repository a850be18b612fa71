/** The calls that wait for a person's decision, each with its effect. */
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { previewOf } from '../model/message-view.ts';
import type { ChosenSession } from '../state/chosen-session.ts';
import type { Observer } from '../state/observer.ts';

/** A call, as its decision needs it. */
interface DecidedCall {
  readonly session: string;
  readonly callId: string;
  readonly toolName: string;
  /** The question to the person. Only approvals are decided here. */
  readonly kind: string;
  readonly input: unknown;
}

/** See the head of the file. Draws nothing when no call waits. */
export function Approvals({
  observer,
  chosen,
}: {
  readonly observer: Observer;
  readonly chosen: ChosenSession;
}): JSX.Element | null {
  const version = chosen.version.value;
  const calls = waitingCalls(observer, chosen);
  if (calls.length === 0) return null;
  return (
    <section class="approvals" aria-label="Calls that wait for you" data-version={version}>
      {calls.map((call) => (
        <ApprovalCall key={call.callId} observer={observer} call={call} />
      ))}
    </section>
  );
}

/** One call with the buttons for its decision. `place`: where it waits, in a list over sessions. */
export function ApprovalCall(props: {
  readonly observer: Observer;
  readonly call: DecidedCall;
  readonly place?: ComponentChildren;
  /** Opens the session, for calls that are not decided here. */
  readonly onChoose?: (session: string) => void;
}): JSX.Element {
  const { observer, call, place, onChoose } = props;
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
        {call.kind === 'approval' ? (
          <>
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
          </>
        ) : (
          <button type="button" onClick={() => onChoose?.(session)}>
            Open
          </button>
        )}
      </div>
    </div>
  );
}

/** The calls announced by events. If the session waits and no call was announced, its open calls. */
function waitingCalls(observer: Observer, chosen: ChosenSession): readonly DecidedCall[] {
  const announced = chosen.conversation.approvals();
  if (announced.length > 0) {
    return announced.map(({ toolUseId, toolName, input }) => callOf(chosen.id, toolUseId, toolName, input));
  }
  if (observer.tree.get(chosen.id)?.phase !== 'approval') return [];
  return chosen.conversation
    .openCalls()
    .map(({ toolUseId = '', toolName = '', input }) => callOf(chosen.id, toolUseId, toolName, input));
}

function callOf(session: string, callId: string, toolName: string, input: unknown): DecidedCall {
  return { session, callId, toolName, kind: 'approval', input };
}
