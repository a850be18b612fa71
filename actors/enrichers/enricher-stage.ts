/** The surroundings of one enricher run. */
import type { Settings } from '../../src/base/settings.ts';
import type { Input } from '../../src/session/state/inputs.ts';
import type { ReadContent } from '../../src/session/state/messages.ts';
import type { SessionAgent } from '../agent-catalog.ts';
import type { SessionActor } from '../session-actor.ts';
import type { LookUp } from './enricher-sources.ts';

/** The objects that a run may use: its session in its current state, and services of the shard. */
export interface EnricherStage {
  readonly actor: SessionActor;
  readonly agent: SessionAgent;
  readonly settings: Settings;
  readonly lookUp: LookUp;
  /** The host's `readContentOf` for this session. */
  readonly readContent: ReadContent;
  act(input: Input): Promise<unknown>;
}
