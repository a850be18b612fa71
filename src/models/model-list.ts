/** The list of models that a vendor offers: an optional capability of a provider. */
import { z } from 'zod';
import { MODEL_LIST_ENTRIES_MAX, MODEL_NAME_CHARACTERS_MAX } from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';
import { EFFORTS, type ListedModel, THINKING_TYPES } from '../context/model-traits.ts';

/** The contents of a vendor's list. */
export interface ModelListing {
  readonly models: readonly ListedModel[];
  /** Ids of rows that could not be read, at most 10; missing: there are none. */
  readonly unread?: readonly string[];
}

/** Asks a vendor which models it offers. Called on the host thread. */
export interface ModelList {
  /**
   * The address of the list. A stored list from another address is not used. Undefined without credentials; the list is
   * not requested then.
   */
  source(): string | undefined;
  /** Rejects with `ModelError`, or with `CancelledError` after the signal. `read` must not retry. */
  read(options: { readonly signal: AbortSignal; readonly clock: Clock }): Promise<ModelListing>;
}

const name = z.string().min(1).max(MODEL_NAME_CHARACTERS_MAX);
const tokens = z.number().int().positive().exactOptional();

/** The rows of a list, as they are stored. */
export const listedModelsSchema: z.ZodType<readonly ListedModel[]> = z
  .array(
    z.object({
      id: name,
      thinkingTypes: z.array(z.enum(THINKING_TYPES)).max(THINKING_TYPES.length).exactOptional(),
      efforts: z.array(z.enum(EFFORTS)).max(EFFORTS.length).exactOptional(),
      structuredOutputs: z.boolean().exactOptional(),
      webSearch: z.boolean().exactOptional(),
      codeExecution: z.boolean().exactOptional(),
      contextTokensMax: tokens,
      outputTokensMax: tokens,
      lifecycle: z.enum(['active', 'deprecated', 'retired']).exactOptional(),
      retiresAfter: z.iso.date().exactOptional(),
    }),
  )
  .max(MODEL_LIST_ENTRIES_MAX);
