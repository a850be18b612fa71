/** The calls that wait for a person's decision, each with its effect. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { previewOf } from '../model/message-view.ts';
import type { ChosenSession } from '../state/chosen-session.ts';
import type { Observer } from '../state/observer.ts';

interface WaitingCall {
  readonly callId: string;
  readonly tool: string;
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
        <Approval key={call.callId} observer={observer} chosen={chosen} call={call} />
      ))}
    </section>
  );
}

function Approval(props: {
  readonly observer: Observer;
  readonly chosen: ChosenSession;
  readonly call: WaitingCall;
}): JSX.Element {
  const { observer, chosen, call } = props;
  const [isDeciding, setDeciding] = useState(false);
  const decide = (allow: boolean): void => {
    setDeciding(true);
    const reason = allow ? undefined : 'denied by a person';
    observer
      .act(allow ? `Allowed ${call.tool}` : `Denied ${call.tool}`, async () => {
        if (await observer.api.approve(chosen.id, call.callId, allow, reason)) return;
        throw new Error(`${call.tool} was decided elsewhere, or no longer waits`);
      })
      .finally(() => setDeciding(false))
      .catch((error: unknown) => observer.say(String(error), true));
  };
  return (
    <div class="approval">
      <p>
        <b>{call.tool}</b> waits for you
        <code>{previewOf(call.tool, call.input)}</code>
      </p>
      <div class="approval-end">
        <button type="button" class="primary" disabled={isDeciding} onClick={() => decide(true)}>
          Allow
        </button>
        <button type="button" disabled={isDeciding} onClick={() => decide(false)}>
          Deny
        </button>
      </div>
    </div>
  );
}

/** The calls announced by events. If the session waits and no call was announced, its open calls. */
function waitingCalls(observer: Observer, chosen: ChosenSession): readonly WaitingCall[] {
  const announced = chosen.conversation.approvals();
  if (announced.length > 0) {
    return announced.map(({ toolUseId, toolName, input }) => ({ callId: toolUseId, tool: toolName, input }));
  }
  if (observer.tree.get(chosen.id)?.phase !== 'approval') return [];
  return chosen.conversation
    .openCalls()
    .map(({ toolUseId = '', toolName = '', input }) => ({ callId: toolUseId, tool: toolName, input }));
}
