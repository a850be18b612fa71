/** A tool call that waits for a person, as read from a server or from a directory. */
import { z } from 'zod';

/** See the head of the file. A call may have more members, which `--json` prints. */
export interface WaitingCall {
  readonly session: string;
  readonly callId: string;
  readonly toolName: string;
  readonly kind: string;
  readonly input?: unknown;
  readonly question?: string | undefined;
  readonly choices?: readonly string[] | undefined;
  /** Epoch ms at which the call began to wait. */
  readonly at: number;
}

/** The schema of a call in the answer of a server. */
export const waitingCallSchema: z.ZodType<WaitingCall> = z.looseObject({
  session: z.string(),
  callId: z.string(),
  toolName: z.string(),
  kind: z.string(),
  input: z.unknown(),
  question: z.string().optional(),
  choices: z.array(z.string()).readonly().optional(),
  at: z.number(),
});
