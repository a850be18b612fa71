/**
 * Subpath `troupe/react`: a hook that shows a session of `troupe/client` in a component.
 *
 * ```tsx
 * const client = createClient<Agents>({ url: '/agents' });
 * const { messages, text, status, send } = useSession(client.session('user-42', 'writer'));
 * ```
 */
import { useEffect, useMemo, useSyncExternalStore } from 'react';
import type { RemoteSession } from '../client/index.ts';
import { SessionStore, type SessionView } from './session-store.ts';

export type { PersonWait, SessionStatus, SessionView } from './session-store.ts';

/** The state of a session, and the functions with which a person acts on it. */
export interface UsedSession<Answer> extends SessionView {
  /** These functions keep their identity while the session's id is the same. Each rejects with `ClientError`. */
  readonly send: RemoteSession<Answer>['send'];
  readonly interrupt: RemoteSession<Answer>['interrupt'];
  readonly approve: RemoteSession<Answer>['approve'];
  readonly answer: RemoteSession<Answer>['answer'];
  readonly decline: RemoteSession<Answer>['decline'];
}

/**
 * Follows a session while the component is mounted. The hook reads the session's messages and then its events, and
 * connects again after a lost connection. A new handle with the same id means the same session. While a server renders
 * the page, the state is empty.
 */
export function useSession<Answer>(session: RemoteSession<Answer>): UsedSession<Answer> {
  // A handle is only an address, so a new handle with the same id must not start another store.
  const store = useMemo(() => new SessionStore<Answer>(session), [session.id]);
  const view = useSyncExternalStore(store.subscribe, store.view, store.view);
  useEffect(() => store.open(), [store]);
  return useMemo(() => ({ ...view, ...store.actions }), [view, store]);
}
