/** The head of a session in memory, and of a fork whose beginning is stored apart. */
import { isRunnable, type SessionActor } from '../../../actors/session-actor.ts';
import { defined } from '../../base/defined.ts';
import type { Head } from '../../journal/position.ts';
import { neededVersion } from '../../session/rules/epoch.ts';
import { firstDeparture } from '../../session/rules/eviction.ts';
import { decodeHead, encodeHead, summaryOf } from './head.ts';

/** The head with the address of the session's beginning. */
export function withBase(head: Head, base: string): Head {
  return { ...head, data: encodeHead({ ...decodeHead(head.data), base }) };
}

/** The head of a session as it is now. */
export function headOf(actor: SessionActor): Head {
  return {
    key: actor.key,
    position: actor.position,
    runnable: isRunnable(actor.state),
    data: encodeHead({
      summary: summaryOf(actor.state),
      ...(actor.snapshot === undefined ? {} : { snapshot: actor.snapshot }),
      ...(actor.base === undefined ? {} : { base: actor.base }),
      ...defined({ needs: neededVersion(actor.state), departed: firstDeparture(actor.state) }),
      ...(actor.state.blocked === undefined ? {} : { blocked: true as const }),
    }),
  };
}
