/** The head of the chosen session: its identity, the reason why it waits, and its actions. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { SessionNode } from '../model/session-tree.ts';
import { countOf, countText, markOf } from '../model/wording.ts';
import type { ChosenSession } from '../state/chosen-session.ts';
import type { Observer } from '../state/observer.ts';
import { Modal } from './modal.tsx';
import { StateMark } from './state-mark.tsx';

/**
 * See the head of the file. `version`: the version of the tree. The tree changes in place, so only its version shows a
 * change.
 */
export function SessionHead(props: {
  readonly observer: Observer;
  readonly chosen: ChosenSession;
  readonly node: SessionNode | undefined;
  readonly onBack: () => void;
  readonly version: number;
}): JSX.Element {
  const { observer, chosen, node, onBack } = props;
  const [isAsking, setAsking] = useState(false);
  const [isActing, setActing] = useState(false);
  const explanation = chosen.explanation.value;
  const isGone = chosen.status.value.kind === 'gone';
  const act = (done: string, action: () => Promise<void>): void => {
    setActing(true);
    observer
      .act(done, action)
      .finally(() => setActing(false))
      .catch((error: unknown) => observer.say(String(error), true));
    chosen.explain();
  };
  const isHeld = node?.phase === 'paused' || RESUMED_BY_HAND.has(explanation?.reason);
  return (
    <header class="session-head" data-version={props.version}>
      <button type="button" class="quiet back" onClick={onBack} aria-label="Back to the sessions">
        ←
      </button>
      <div class="session-title">
        <h2>
          {node === undefined ? null : <StateMark mark={markOf(node)} withWord />}
          <span class="session-name">{node?.name ?? chosen.id}</span>
        </h2>
        <p class="session-facts">
          {node?.name === undefined ? null : <span>{chosen.id}</span>}
          {node?.agent ? <span>{node.agent}</span> : null}
          {node !== undefined && node.mailbox > 0 ? <span>{countText(node.mailbox)} in the mailbox</span> : null}
          {node !== undefined && node.deadLetters > 0 ? (
            <span title="Entries that could not be promoted: troupe dead-letters">
              {countOf(node.deadLetters, 'dead letter', 'dead letters')}
            </span>
          ) : null}
          {node?.tokens === undefined ? null : <span>{countText(node.tokens)} tokens</span>}
          {node !== undefined && node.below > 0 ? <span>{countOf(node.below, 'child', 'children')}</span> : null}
        </p>
        <p class={node?.trouble === undefined ? 'session-why' : 'session-why is-failed'} role="status">
          {node?.trouble === undefined ? whyText(explanation) : `Stopped: ${node.trouble}`}
        </p>
      </div>
      <div class="session-actions">
        <button
          type="button"
          disabled={isGone || isActing || node === undefined || node.state === 'idle'}
          onClick={() => act('Interrupted', () => observer.api.command(chosen.id, 'interrupt'))}
          title="Cancels the model call, the running tools and the working children"
        >
          Interrupt
        </button>
        {isHeld ? (
          <button
            type="button"
            disabled={isActing}
            onClick={() => act('Resumed', () => observer.api.command(chosen.id, 'resume'))}
          >
            Resume
          </button>
        ) : (
          <button
            type="button"
            disabled={isGone || isActing}
            onClick={() => act('Paused', () => observer.api.command(chosen.id, 'pause'))}
            title="No half-step starts until it is resumed; running work continues"
          >
            Pause
          </button>
        )}
        <button type="button" class="danger" disabled={isGone || isActing} onClick={() => setAsking(true)}>
          Delete…
        </button>
      </div>
      {isAsking ? (
        <Modal label="Delete the session" onClose={() => setAsking(false)}>
          <div class="form">
            <h2>Delete {node?.name ?? chosen.id}?</h2>
            <p>{lossText(node)}</p>
            <div class="form-end">
              {/* biome-ignore lint/a11y/noAutofocus: the focus is on the harmless answer to a question */}
              <button type="button" autoFocus onClick={() => setAsking(false)}>
                Keep
              </button>
              <button
                type="button"
                class="danger"
                onClick={() => {
                  setAsking(false);
                  observer.remove(chosen.id).then(
                    (isDone) => {
                      if (isDone) onBack();
                    },
                    (error: unknown) => observer.say(String(error), true),
                  );
                }}
              >
                Delete
              </button>
            </div>
          </div>
        </Modal>
      ) : null}
    </header>
  );
}

function lossText(node: SessionNode | undefined): string {
  const below = node?.below ?? 0;
  if (below === 0) return 'Its log and its mailbox are deleted for good.';
  return `Its log, its mailbox and its ${countOf(below, 'child', 'children')} are deleted for good.`;
}

/** Reasons for waiting that `resume` ends. */
const RESUMED_BY_HAND: ReadonlySet<string | undefined> = new Set(['paused', 'blocked', 'suspended']);

const REASON_WORDS: Readonly<Record<string, string>> = {
  nothing_waits: 'Nothing waits',
  paused: 'Paused',
  blocked: 'Stopped',
  agent_missing: 'Cannot run',
  queued: 'Waits for its turn',
  waiting_for_model: 'Waits for the model',
  waiting_for_governor: 'Waits for the governor',
  waiting_for_retry: 'Tries again',
  waiting_for_tools: 'Waits for tools',
  waiting_for_listener: 'Waits for a listener',
  waiting_for_approval: 'Waits for a person',
  waiting_for_answer: 'Waits for an answer',
  suspended: 'Suspended',
  preparing: 'Is being prepared',
  starting: 'Starts',
};

function whyText(explanation: { readonly reason: string; readonly detail: string } | undefined): string {
  if (explanation === undefined) return ' ';
  const { reason, detail } = explanation;
  return `${REASON_WORDS[reason] ?? reason.replaceAll('_', ' ')}${detail === '' ? '' : `: ${detail}`}`;
}
