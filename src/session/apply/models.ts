/** Moves a session to another model of its agent. Changes the given state in place, as `apply` does; otherwise pure. */
import type { EpochModel } from '../state/records.ts';
import type { Fold } from './fold.ts';

/** An epoch opens with this model; undefined: with the agent's first model. */
export function applyModel(fold: Fold, model: EpochModel | undefined): void {
  const { state } = fold;
  const place = model?.place ?? 0;
  if (place === (state.fallback?.place ?? 0)) return;
  state.fallback = place === 0 ? undefined : { place, since: fold.at };
  state.isReturning = place === 0;
  // A container belongs to the account of the model that made it.
  state.container = undefined;
  if (model !== undefined && fold.counts()) {
    fold.publish({ type: 'model.changed', model: model.name, reason: model.because ?? 'agent' });
  }
}
