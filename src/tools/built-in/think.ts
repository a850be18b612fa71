/** `think`: lets a model reason in the log, without an effect (contract §11.2). */
import { z } from 'zod';
import { THOUGHT_CHARACTERS_MAX } from '../../base/bounds.ts';
import { parseOption } from '../../base/parse-option.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import { type Tool, tool } from '../tool.ts';
import { withOrigin } from '../tool-origin.ts';

/** Options of `thinking`. */
export interface ThinkingOptions {
  /** Characters of one thought; default 10,000. */
  readonly thinkingBudget?: number;
}

/** The model's input. */
export interface ThinkInput {
  readonly thoughts: string;
  readonly visibility?: 'inner' | 'aloud' | undefined;
}

const optionsSchema = z.strictObject({ thinkingBudget: z.number().int().positive().optional() });

/** A `think` tool with its own budget. Throws `ConfigError` for bad options. */
export function thinking(options: ThinkingOptions = {}): Tool<ThinkInput> {
  const { thinkingBudget } = parseOption(optionsSchema, 'thinking', options);
  const charactersMax = thinkingBudget ?? THOUGHT_CHARACTERS_MAX;
  const made = tool({
    name: 'think',
    description:
      'Think before acting. Changes nothing and tells you nothing new; the thought stays in the conversation.',
    input: z.object({
      thoughts: z.string().max(charactersMax).describe('What you think'),
      visibility: z.enum(['inner', 'aloud']).optional().describe('aloud: the user may read it; inner by default'),
    }),
    effect: 'pure',
    run: ({ thoughts }) => (thoughts.trim() === '' ? { error: 'thoughts cannot be blank' } : 'OK'),
  });
  return withOrigin(made, workerUrl('./think', import.meta.url).href, 'thinking', options);
}

/** The `think` tool with the default budget. */
export const think: Tool<ThinkInput> = thinking();
