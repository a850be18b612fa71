/** The chosen session: what it is, what can be done with it, and its three views. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { VIEW_MODES } from '../model/message-view.ts';
import type { SessionNode } from '../model/session-tree.ts';
import { countOf, countText, markOf } from '../model/wording.ts';
import type { ChosenSession } from '../state/chosen-session.ts';
import type { Observer } from '../state/observer.ts';
import type { Preferences } from '../state/preferences.ts';
import { type Route, SESSION_VIEWS, type SessionView } from '../state/route.ts';
import { Approvals } from './approvals.tsx';
import { Composer } from './composer.tsx';
import { ConversationView } from './conversation-view.tsx';
import { Modal } from './modal.tsx';
import { RequestView } from './request-view.tsx';
import { StateMark } from './state-mark.tsx';
import { TimeLineView } from './time-line-view.tsx';

const VIEW_WORDS: Readonly<Record<SessionView, string>> = {
  conversation: 'Conversation',
  time: 'Time line',
  request: 'Request',
};

interface PaneProps {
  readonly observer: Observer;
  readonly chosen: ChosenSession;
  readonly route: Route;
  readonly preferences: Preferences;
}

/** See the head of the file. */
export function SessionPane({ observer, chosen, route, preferences }: PaneProps): JSX.Element {
  const { view } = route.place.value;
  // Read so that the head is drawn anew with each change of the tree.
  const version = observer.version.value;
  const node = observer.tree.get(chosen.id);
  const status = chosen.status.value;
  const toTree = (): void => route.go({ session: undefined, view });
  return (
    <>
      <SessionHead observer={observer} chosen={chosen} node={node} onBack={toTree} version={version} />
      <div class="tabs">
        <div
          role="tablist"
          aria-label="Views of the session"
          class="tab-list"
          onKeyDown={(event) => turnTab(event, route)}
        >
          {SESSION_VIEWS.map((each) => (
            <button
              key={each}
              type="button"
              role="tab"
              id={`tab-${each}`}
              aria-selected={each === view}
              aria-controls="session-view"
              tabIndex={each === view ? 0 : -1}
              onClick={() => route.go({ session: chosen.id, view: each })}
            >
              {VIEW_WORDS[each]}
            </button>
          ))}
        </div>
        {view === 'conversation' ? <ModeChoice preferences={preferences} /> : null}
      </div>
      <div class="session-view" id="session-view" role="tabpanel" aria-labelledby={`tab-${view}`}>
        {status.kind === 'ready' ? (
          <View view={view} observer={observer} chosen={chosen} route={route} preferences={preferences} />
        ) : (
          <NotReady chosen={chosen} onBack={toTree} />
        )}
      </div>
      {status.kind === 'ready' && view === 'conversation' ? (
        <div class="session-foot">
          <Approvals observer={observer} chosen={chosen} />
          <Composer observer={observer} chosen={chosen} isBusy={node !== undefined && node.state !== 'idle'} />
        </div>
      ) : null}
    </>
  );
}

function View({ view, observer, chosen, route, preferences }: PaneProps & { readonly view: SessionView }): JSX.Element {
  if (view === 'time') {
    return <TimeLineView chosen={chosen} onSession={(id) => route.go({ session: id, view })} />;
  }
  if (view === 'request') return <RequestView chosen={chosen} />;
  return <ConversationView observer={observer} chosen={chosen} preferences={preferences} />;
}

function SessionHead(props: {
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
  const isHeld = node?.phase === 'paused' || explanation?.reason === 'paused' || explanation?.reason === 'blocked';
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
            title="No half-step starts until it is resumed; what runs goes on"
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
              {/* biome-ignore lint/a11y/noAutofocus: the harmless way out of a question is the one at hand */}
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
  if (below === 0) return 'Its log and its mailbox are gone for good.';
  return `Its log, its mailbox and its ${countOf(below, 'child', 'children')} are gone for good.`;
}

const REASON_WORDS: Readonly<Record<string, string>> = {
  nothing_waits: 'Nothing waits',
  paused: 'Paused',
  blocked: 'Stopped',
  agent_missing: 'Cannot run',
  queued: 'Waits for its turn',
  waiting_for_model: 'Waits for the model',
  waiting_for_retry: 'Tries again',
  waiting_for_tools: 'Waits for tools',
  waiting_for_approval: 'Waits for a person',
  starting: 'Starts',
};

function whyText(explanation: { readonly reason: string; readonly detail: string } | undefined): string {
  if (explanation === undefined) return ' ';
  const { reason, detail } = explanation;
  return `${REASON_WORDS[reason] ?? reason.replaceAll('_', ' ')}${detail === '' ? '' : `: ${detail}`}`;
}

function ModeChoice({ preferences }: { readonly preferences: Preferences }): JSX.Element {
  const mode = preferences.mode.value;
  return (
    <fieldset class="choice">
      <legend class="unseen">How much of the conversation</legend>
      {VIEW_MODES.map((each) => (
        <button key={each} type="button" aria-pressed={each === mode} onClick={() => preferences.setMode(each)}>
          {each}
        </button>
      ))}
    </fieldset>
  );
}

/** Reading, gone, or failed. */
function NotReady({ chosen, onBack }: { readonly chosen: ChosenSession; readonly onBack: () => void }): JSX.Element {
  const status = chosen.status.value;
  if (status.kind === 'gone') {
    return (
      <div class="empty empty-pane">
        <p class="empty-title">There is no such session</p>
        <p>
          <code>{chosen.id}</code> was deleted, or never was.
        </p>
        <button type="button" onClick={onBack}>
          Back to the sessions
        </button>
      </div>
    );
  }
  if (status.kind === 'failed') {
    return (
      <div class="empty empty-pane" role="alert">
        <p class="empty-title">The session could not be read</p>
        <p>{status.message}</p>
        <button
          type="button"
          onClick={() => {
            chosen.retryOpen();
          }}
        >
          Try again
        </button>
      </div>
    );
  }
  return (
    <div class="ghost-rows" aria-busy="true">
      <p class="unseen" role="status">
        Reading the session
      </p>
      <div class="ghost ghost-short" />
      <div class="ghost" />
      <div class="ghost" />
      <div class="ghost ghost-short" />
      <div class="ghost" />
    </div>
  );
}

/** Arrow keys among the tabs. */
function turnTab(event: KeyboardEvent, route: Route): void {
  const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
  if (step === 0) return;
  event.preventDefault();
  const { session, view } = route.place.value;
  const next =
    SESSION_VIEWS[(SESSION_VIEWS.indexOf(view) + step + SESSION_VIEWS.length) % SESSION_VIEWS.length] ?? view;
  route.go({ session, view: next });
  document.getElementById(`tab-${next}`)?.focus();
}
