/** Maps the address to the view on display: `#/<session>/<view>`. */
import { type Signal, signal } from '@preact/signals';

/** The views of a session. */
export type SessionView = 'conversation' | 'time' | 'request';

/** The views in order. */
export const SESSION_VIEWS: readonly SessionView[] = ['conversation', 'time', 'request'];

/** The session and view on display. */
export interface Place {
  readonly session: string | undefined;
  readonly view: SessionView;
}

/** The address as a signal. */
export interface Route {
  readonly place: Signal<Place>;
  /** Navigates to a session and a view. The browser's back button returns to the previous session. */
  go(place: Place): void;
}

/** The route of this page. */
export function createRoute(): Route {
  const place = signal<Place>(readPlace(location.hash));
  addEventListener('hashchange', () => {
    place.value = readPlace(location.hash);
  });
  return {
    place,
    go(next) {
      const hash = hashOf(next);
      if (hash === location.hash || (hash === '#/' && location.hash === '')) return;
      // Another view of the same session adds no entry to the browser's history.
      if (next.session === place.value.session) history.replaceState(null, '', hash);
      else history.pushState(null, '', hash);
      place.value = next;
    },
  };
}

/** The session and the view in an address. An unreadable address means the start view. */
function readPlace(hash: string): Place {
  const [, session = '', view] = /^#\/([^/]*)(?:\/(\w+))?$/u.exec(hash) ?? [];
  const known = SESSION_VIEWS.find((each) => each === view) ?? 'conversation';
  try {
    return { session: session === '' ? undefined : decodeURIComponent(session), view: known };
  } catch {
    return { session: undefined, view: known };
  }
}

/** The address of a session and a view. */
export function hashOf({ session, view }: Place): string {
  return session === undefined ? '#/' : `#/${encodeURIComponent(session)}/${view}`;
}
