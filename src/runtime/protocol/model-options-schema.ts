/** The schemas of the agent's options that shape its requests. Errors name the option and what to use instead. */
import { z } from 'zod';
import {
  BETA_CHARACTERS_MAX,
  BETAS_MAX,
  REQUEST_FIELDS_CHARACTERS_MAX,
  STOP_SEQUENCE_CHARACTERS_MAX,
  STOP_SEQUENCES_MAX,
} from '../../base/bounds.ts';
import { ConfigError } from '../../base/errors.ts';
import { isRecord, type Json, NotPlainError, toPlainJson } from '../../base/json.ts';
import { EFFORTS } from '../../context/model-traits.ts';
import { refusedBeta, refusedRequestField } from '../../models/model-option-checks.ts';
import type { ModelOptions } from '../../models/model-options.ts';

const thinking = z.union([
  z.strictObject({ type: z.literal('enabled'), budget_tokens: z.number().int().min(1_024) }),
  z.strictObject({ type: z.literal('adaptive'), display: z.enum(['summarized', 'omitted']).optional() }),
  z.strictObject({ type: z.literal('between_tools') }),
  z.strictObject({ type: z.literal('disabled') }),
]);

const beta = z
  .string()
  .max(BETA_CHARACTERS_MAX)
  .superRefine((name, context) => {
    const reason = refusedBeta(name);
    if (reason !== undefined) context.addIssue({ code: 'custom', message: reason });
  });

const stopSequence = z
  .string()
  .max(STOP_SEQUENCE_CHARACTERS_MAX)
  .refine((text) => text.trim() !== '', 'must contain more than blanks');

/** The schema of `request`. It makes a plain copy, so that a later change of the given value changes no request. */
const request = z.unknown().transform((value, context): Readonly<Record<string, Json>> => {
  const refuse = (message: string, ...path: readonly string[]): never => {
    context.addIssue({ code: 'custom', message, path: [...path] });
    return z.NEVER;
  };
  if (!isRecord(value)) return refuse('must be an object of fields');
  for (const field of Object.keys(value)) {
    const reason = refusedRequestField(field);
    if (reason !== undefined) return refuse(reason, field);
  }
  let plain: Json;
  try {
    plain = toPlainJson(value);
  } catch (error) {
    if (error instanceof NotPlainError) return refuse(error.message);
    throw error;
  }
  if (JSON.stringify(plain).length > REQUEST_FIELDS_CHARACTERS_MAX) {
    return refuse(`must have at most ${REQUEST_FIELDS_CHARACTERS_MAX} characters as JSON`);
  }
  const fields = plain as Readonly<Record<string, Json>>;
  const config = fields['output_config'];
  if (config !== undefined && !isRecord(config)) return refuse('must be an object', 'output_config');
  if (isRecord(config) && config['effort'] !== undefined)
    return refuse('use option "effort"', 'output_config', 'effort');
  return fields;
});

/** The schemas of these options, by option. */
export const modelOptionsShape: Readonly<Record<keyof ModelOptions, z.ZodType>> = {
  thinking: thinking.optional(),
  effort: z.enum(EFFORTS).optional(),
  toolChoice: z.union([z.enum(['auto', 'any', 'none']), z.strictObject({ tool: z.string().min(1) })]).optional(),
  parallelToolCalls: z.boolean().optional(),
  stopSequences: z.array(stopSequence).max(STOP_SEQUENCES_MAX).optional(),
  serviceTier: z.enum(['auto', 'standardOnly']).optional(),
  speed: z.enum(['standard', 'fast']).optional(),
  cacheTtl: z.enum(['5m', '1h']).optional(),
  betas: z.array(beta).max(BETAS_MAX).optional(),
  request: request.optional(),
};

/**
 * Refuses `parallelToolCalls: false` together with `toolChoice: 'none'`, because without tool calls the option has no
 * meaning.
 */
export function checkParallelCalls(agentKey: string, { toolChoice, parallelToolCalls }: ModelOptions): void {
  if (toolChoice !== 'none' || parallelToolCalls !== false) return;
  const key = `${agentKey}.parallelToolCalls`;
  const reason = "false has no meaning with toolChoice 'none': leave one of them out";
  throw new ConfigError(`option ${JSON.stringify(key)}: ${reason}`, { data: { key } });
}
