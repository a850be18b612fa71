/** All routes of the HTTP interface. */
import { conversationRoutes } from './conversation-routes.ts';
import { pageRoutes } from './page-routes.ts';
import type { Route } from './route.ts';
import { runtimeRoutes } from './runtime-routes.ts';
import { sessionRoutes } from './session-routes.ts';

/** Routes in matching order; no two match the same request. */
export const ROUTES: readonly Route[] = [...sessionRoutes, ...conversationRoutes, ...runtimeRoutes, ...pageRoutes];
