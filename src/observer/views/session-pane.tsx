/** The chosen session: its head, its actions, and its three views. */
import type { JSX } from 'preact';
import { VIEW_MODES } from '../model/message-view.ts';
import type { ChosenSession } from '../state/chosen-session.ts';
import type { Observer } from '../state/observer.ts';
import type { Preferences } from '../state/preferences.ts';
import { type Route, SESSION_VIEWS, type SessionView } from '../state/route.ts';
import { Approvals } from './approvals.tsx';
import { Composer } from './composer.tsx';
import { ConversationView } from './conversation-view.tsx';
import { RequestView } from './request-view.tsx';
import { SessionHead } from './session-head.tsx';
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
  // Read so that the head is redrawn with each change of the tree.
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

/** The message shown while the session is being read, is gone, or could not be read. */
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

/** Handles arrow keys among the tabs. */
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
