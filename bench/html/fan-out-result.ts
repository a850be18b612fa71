/** The data of a fan-out for its drawing: when each child was queued, waited for the model, and ran its tool. */
import { z } from 'zod';

/** One state of a child. `queued`: spawned, but beyond the limit of live sessions. Times in ms since the spawn. */
export interface FanOutSpan {
  /** From 1, in spawn order. */
  readonly child: number;
  readonly state: 'queued' | 'model' | 'tool';
  readonly fromMs: number;
  readonly toMs: number;
}

/** One fan-out and its parameters. */
export interface FanOutResult {
  readonly children: number;
  readonly liveSessions: number;
  /** Shortest and longest latency of the model and of the tool, ms. */
  readonly modelMs: readonly [number, number];
  readonly toolMs: readonly [number, number];
  readonly spans: readonly FanOutSpan[];
}

const range: z.ZodType<readonly [number, number]> = z.tuple([z.number(), z.number()]);

/** Checks a fan-out that was read from a file. */
export const fanOutSchema: z.ZodType<FanOutResult> = z.object({
  children: z.number().int().positive(),
  liveSessions: z.number().int().positive(),
  modelMs: range,
  toolMs: range,
  spans: z.array(
    z.object({
      child: z.number().int().positive(),
      state: z.enum(['queued', 'model', 'tool']),
      fromMs: z.number(),
      toMs: z.number(),
    }),
  ),
});
