/** The container in which the provider runs a session's code. Pure. */
import { CONTAINER_ID_CHARACTERS_MAX } from '../../base/bounds.ts';
import { isRecord } from '../../base/json.ts';

/** A container as the log keeps it. */
export interface Container {
  readonly id: string;
  /** Epoch ms at which the provider deletes the container; missing if the provider did not say. */
  readonly expiresAt?: number;
}

/** The container that an answer names; undefined if it names none. */
export function readContainer(value: unknown): Container | undefined {
  if (!isRecord(value)) return undefined;
  const { id, expires_at: expires } = value;
  if (typeof id !== 'string' || id === '' || id.length > CONTAINER_ID_CHARACTERS_MAX) return undefined;
  const expiresAt = typeof expires === 'string' ? Date.parse(expires) : Number.NaN;
  return Number.isFinite(expiresAt) ? { id, expiresAt } : { id };
}

/** The container, unless it has expired at this time (epoch ms). */
export function livingContainer(container: Container | undefined, now: number): Container | undefined {
  return container?.expiresAt !== undefined && container.expiresAt <= now ? undefined : container;
}
