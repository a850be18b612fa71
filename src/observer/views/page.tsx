/** The whole page: head line, tree, the chosen session, and the global keys. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { VIEW_MODES } from '../model/message-view.ts';
import type { Observer } from '../state/observer.ts';
import type { Preferences } from '../state/preferences.ts';
import { type Route, SESSION_VIEWS } from '../state/route.ts';
import { HeadLine, ProviderTroubles } from './head-line.tsx';
import { HelpDialog } from './help-dialog.tsx';
import { OverviewPane } from './overview-pane.tsx';
import { SessionPane } from './session-pane.tsx';
import { TokenDialog } from './token-dialog.tsx';
import { TreePane } from './tree-pane.tsx';
import { WaitingList } from './waiting-list.tsx';

/** See the head of the file. */
export function Page(props: {
  readonly observer: Observer;
  readonly route: Route;
  readonly preferences: Preferences;
  readonly onToken: (token: string) => void;
}): JSX.Element {
  const { observer, route, preferences, onToken } = props;
  const [isHelpOpen, setHelpOpen] = useState(false);
  const chosen = observer.chosen.value;
  const degraded = observer.degraded.value;
  const notice = observer.notice.value;

  const choose = (id: string): void => route.go({ session: id, view: route.place.value.view });

  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || isWriting(event.target)) return;
      const run = globalKeys({ route, preferences, help: () => setHelpOpen(true) })[event.key];
      if (run === undefined) return;
      event.preventDefault();
      run();
    };
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  }, [route, preferences]);

  return (
    <div class={chosen === undefined ? 'page page-tree' : 'page page-session'}>
      <HeadLine observer={observer} preferences={preferences} onHelp={() => setHelpOpen(true)} />
      {degraded === undefined ? null : (
        <p class="banner banner-fail" role="alert">
          <b>The store refuses writes.</b> {degraded}. Acknowledged messages are safe; it continues by itself once there
          is room.
        </p>
      )}
      <ProviderTroubles observer={observer} />
      {chosen === undefined ? (
        <div class="narrow-only">
          <WaitingList observer={observer} onChoose={choose} />
        </div>
      ) : null}
      <div class="panes">
        <TreePane observer={observer} onChoose={choose} />
        <main class="session-pane" aria-label="Session">
          {chosen === undefined ? (
            <NothingChosen observer={observer} onChoose={choose} />
          ) : (
            <SessionPane key={chosen.id} observer={observer} chosen={chosen} route={route} preferences={preferences} />
          )}
        </main>
      </div>
      <div class="notices" role="status" aria-live="polite">
        {notice === undefined ? null : (
          <p key={notice.number} class={notice.isFailure ? 'notice notice-fail' : 'notice'}>
            {notice.isFailure ? <b>Not done: </b> : null}
            {notice.text}
          </p>
        )}
      </div>
      {isHelpOpen ? <HelpDialog info={observer.info.value} onClose={() => setHelpOpen(false)} /> : null}
      {observer.needsToken.value ? <TokenDialog onToken={onToken} /> : null}
    </div>
  );
}

function NothingChosen(props: { readonly observer: Observer; readonly onChoose: (id: string) => void }): JSX.Element {
  // Read so that this component is redrawn with each change.
  const version = props.observer.version.value;
  if (version > 0 && props.observer.tree.size > 0) return <OverviewPane {...props} />;
  return (
    <div class="empty empty-pane">
      <p class="empty-title">No session is selected</p>
      <p>A session's conversation, its time line and the request it sends appear here.</p>
    </div>
  );
}

/** The actions of the global keys. They apply to keys without Ctrl, Alt or Meta, outside of input fields. */
function globalKeys(page: {
  readonly route: Route;
  readonly preferences: Preferences;
  readonly help: () => void;
}): Readonly<Record<string, () => void>> {
  const { route, preferences } = page;
  const { session } = route.place.value;
  const focus = (selector: string): void => document.querySelector<HTMLElement>(selector)?.focus();
  const keys: Record<string, () => void> = {
    '?': page.help,
    '/': () => focus('#tree-filter'),
    g: () => focus('[role=treeitem][tabindex="0"]'),
    t: () => preferences.turnTheme(),
    m: () =>
      preferences.setMode(VIEW_MODES[(VIEW_MODES.indexOf(preferences.mode.value) + 1) % VIEW_MODES.length] ?? 'basic'),
  };
  if (session === undefined) return keys;
  keys['c'] = () => focus('#composer-text');
  keys['Escape'] = () => route.go({ session: undefined, view: route.place.value.view });
  for (const [index, view] of SESSION_VIEWS.entries()) keys[String(index + 1)] = () => route.go({ session, view });
  return keys;
}

function isWriting(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.closest('input, textarea, select, dialog') !== null;
}
