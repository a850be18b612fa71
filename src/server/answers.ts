/**
 * Schemas of the answers of the HTTP interface. The document at `/openapi.json` is built from them, and the tests
 * validate against them.
 */

import { z } from 'zod';
import { LOSS_REASONS } from '../base/answer-draft.ts';
import { AUDIT_ACTIONS } from '../base/audit/audit-entry.ts';
import { SESSION_STATES, SESSION_STATUSES, TURN_OUTCOMES } from '../events/event.ts';

const stateName = z.enum(SESSION_STATES);
const content = z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]);
const usage = z.looseObject({ input_tokens: z.number(), output_tokens: z.number() });
const anyObject = z.looseObject({});

const summaryShape = {
  id: z.string(),
  agent: z.string(),
  version: z.string().optional().describe('The version of the agent, if it has one'),
  parent: z.string().optional(),
  name: z.string().optional(),
  state: stateName,
  status: z.enum(SESSION_STATUSES),
  lastOutcome: z.enum(TURN_OUTCOMES).optional().describe('How the last turn ended'),
  lastError: z
    .looseObject({ name: z.string(), code: z.string(), message: z.string() })
    .optional()
    .describe('The error of the last turn, if it failed'),
  mailbox: z.number(),
  deadLetters: z.number().optional().describe('Number of dead letters, if there are any'),
  messageCount: z.number().optional().describe('Messages of users and the agent, without tool calls'),
  createdAt: z.number().optional().describe('Epoch ms'),
  updatedAt: z.number().describe('Epoch ms'),
};
/** A session in a list. */
export const summary: z.ZodType = z.looseObject({
  ...summaryShape,
  children: z.array(z.looseObject(summaryShape)).optional().describe('With children=true: oldest first'),
});

/** A session with its state. */
export const session: z.ZodType = z.looseObject({
  ...summaryShape,
  phase: z.string().optional(),
  blocked: anyObject.optional(),
  seq: z.number().describe('Number of the newest event'),
  draft: z
    .looseObject({ turn: z.string(), text: z.string(), lost: z.enum(LOSS_REASONS).optional() })
    .optional()
    .describe('Text of the running model call, or of one that was lost'),
  children: z.array(z.looseObject({ id: z.string(), name: z.string(), exited: z.string().optional() })),
  usage,
  budget: z
    .strictObject({ tokens: z.number(), used: z.number() })
    .optional()
    .describe('Tokens that it and its descendants may use in total, and have used'),
});

/** The tokens that a session has used. */
export const sessionUsage: z.ZodType = z.strictObject({ usage });
/** The budget of a session; null if it has none. */
export const budget: z.ZodType = z.strictObject({ tokens: z.number().nullable() });

/** A page of sessions; `next` is the `after` of the following page. */
export const sessionList: z.ZodType = z.strictObject({ sessions: z.array(summary), next: z.string().optional() });

/** A message of a log. */
export const message: z.ZodType = z.looseObject({
  seq: z.number(),
  type: z.string(),
  content,
  at: z.number().describe('Epoch ms'),
  tokens: z.number(),
  key: z.string().optional().describe('The key that the message was sent with'),
});

/** A page of messages. */
export const messageList: z.ZodType = z.strictObject({ messages: z.array(message), next: z.number().optional() });
/** A page of the messages that a model is shown now. */
export const viewport: z.ZodType = z.strictObject({ messages: z.array(message), next: z.number().optional() });

/** A page of the history. */
export const historyList: z.ZodType = z.strictObject({
  messages: z.array(z.looseObject({ id: z.string(), role: z.string() })),
  next: z.number().optional(),
});
/** The outcome of an operation on the history; null if the operation has no outcome. */
export const historyOutcome: z.ZodType = z.strictObject({ outcome: z.unknown() });

/** A goal with its parts. */
export const goal: z.ZodType = z.looseObject({ id: z.number(), description: z.string(), status: z.string() });
/** The goals of a session. */
export const goalList: z.ZodType = z.strictObject({ goals: z.array(goal) });
/** The number of requested links between messages and goals. */
export const links: z.ZodType = z.strictObject({ links: z.number() });
/** An active skill or workflow. */
export const definition: z.ZodType = z.strictObject({ name: z.string(), description: z.string() });

/** The messages that a search found. */
export const searchResult: z.ZodType = z.strictObject({
  found: z.array(z.looseObject({ session: z.string(), seq: z.number(), kind: z.string(), snippet: z.string() })),
  isComplete: z.boolean().describe('false: a message that was written before the search is not in the index yet'),
});

/** A page of the mailbox in drain order. */
export const pendingList: z.ZodType = z.strictObject({
  pending: z.array(z.looseObject({ id: z.number(), type: z.string(), kind: z.string(), content, at: z.number() })),
  next: z.string().optional(),
});

const letterShape = {
  session: z.string(),
  id: z.number().describe('The id that the entry had in the mailbox'),
  type: z.string(),
  source: z.looseObject({ type: z.string(), name: z.string().optional() }),
  at: z.number().describe('Epoch ms at which the entry was accepted'),
  setAsideAt: z.number().describe('Epoch ms'),
  bytes: z.number().describe('UTF-8 bytes of the content'),
  error: z.looseObject({ name: z.string(), code: z.string(), message: z.string() }),
};
/** A page of dead letters; `next` is the `after` of the following page. */
export const deadLetterList: z.ZodType = z.strictObject({
  letters: z.array(z.strictObject(letterShape)),
  next: z.string().optional(),
});
/** A dead letter with its content. */
export const deadLetter: z.ZodType = z.strictObject({ ...letterShape, content, toolUseId: z.string().optional() });
/** Whether a dead letter was dropped. */
export const letterDropped: z.ZodType = z.strictObject({ dropped: z.boolean() });

/** A page of the audit log. */
export const auditList: z.ZodType = z.strictObject({
  entries: z.array(
    z.strictObject({
      number: z.number().describe('No other entry of the store has it'),
      at: z.number().describe('Epoch ms'),
      action: z.enum(AUDIT_ACTIONS),
      tenant: z.string().optional(),
      session: z.string().optional().describe('Missing for an act on the whole store'),
      by: z.string().optional().describe('The author; missing: none was named, or the runtime did it'),
      details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
    }),
  ),
  next: z.string().optional(),
});

/** The receipt of an accepted message. */
export const receipt: z.ZodType = z.strictObject({
  id: z.string(),
  session: z.string(),
  seq: z.number(),
  pendingId: z.number(),
  duplicate: z.boolean(),
});

/** The current status of a message. */
export const receiptStatus: z.ZodType = z.strictObject({
  id: z.string(),
  session: z.string(),
  seq: z.number(),
  pendingId: z.number(),
  status: z.enum(['accepted', 'promoted', 'answered', 'failed', 'interrupted', 'suspended', 'dropped']),
  reason: z.string().optional(),
  answer: z.string().optional().describe('With wait=answer: the text of the answer'),
  output: z.unknown().optional().describe('The structured answer, if the turn ended with one'),
});

/** A rule of the Messages API that a request breaks. */
const violation = z.strictObject({
  rule: z.string().describe('R01 to R69'),
  path: z.string().describe('As the API writes it: messages.3.content.0'),
  message: z.string(),
  fatal: z.boolean().describe('The API would refuse the request for it'),
  code: z.string().optional().describe('error.details.error_code of the API, where it has one'),
});

/**
 * A page of the messages of a request. The first page also has the rest of the request, the violations and the context.
 */
export const modelRequest: z.ZodType = z.looseObject({
  messages: z.array(anyObject),
  violations: z.array(violation),
  context: anyObject.optional(),
  next: z.number().optional(),
});
/** A page of the calls that wait for a person; `next` is the `after` of the following page. */
export const waitingList: z.ZodType = z.strictObject({
  waiting: z.array(
    z.looseObject({
      session: z.string(),
      root: z.string().optional().describe('The session at the top of the tree, if the call is of a sub-agent'),
      agent: z.string(),
      callId: z.string(),
      toolName: z.string(),
      kind: z
        .enum(['approval', 'question', 'elicitation'])
        .describe(
          'approval: the person decides whether the call may run; question: the model asks; elicitation: the MCP server of the call asks',
        ),
      input: z.unknown(),
      question: z.string().optional().describe('The text of a question or an elicitation'),
      schema: anyObject
        .optional()
        .describe('JSON Schema that the answer must fit; missing for a question: the answer is a text'),
      choices: z.array(z.string()).optional().describe('Answers that the model proposes; another one may be given'),
      asked: z.enum(['human', 'parent']).optional().describe('Who is asked, if the model asks'),
      server: z.string().optional().describe('For an elicitation: the name of the MCP server'),
      at: z.number().describe('Epoch ms at which the call began to wait'),
      expiresAt: z.number().optional().describe('Epoch ms at which the call ends without a decision'),
    }),
  ),
  next: z.string().optional(),
});

/** Why a session is not running: exactly one reason. */
export const explanation: z.ZodType = z.strictObject({ reason: z.string(), detail: z.string() });
/** Whether the session was running. */
export const interrupted: z.ZodType = z.strictObject({ interrupted: z.boolean() });
/** Whether the session is paused: a paused session starts no half-step. */
export const paused: z.ZodType = z.strictObject({ paused: z.boolean() });
/** Whether the entry was withdrawn. */
export const recalled: z.ZodType = z.strictObject({ recalled: z.boolean() });
/** The decision about a call, and whether it counts. */
export const approved: z.ZodType = z.strictObject({
  callId: z.string(),
  allow: z.boolean(),
  decided: z.boolean().describe('false: the call does not wait, or was decided otherwise'),
});
/** Whether the answer to a question counts. */
export const answered: z.ZodType = z.strictObject({
  callId: z.string(),
  answered: z.boolean().describe('false: the call asks nothing, or was answered otherwise'),
});
/** A child that was spawned. */
export const child: z.ZodType = z.strictObject({ id: z.string(), name: z.string(), parent: z.string() });
/** Whether the store takes writes. */
export const health: z.ZodType = z.strictObject({ status: z.enum(['ok', 'degraded']) });

/** Whether the server accepts messages. */
export const readiness: z.ZodType = z.strictObject({ status: z.enum(['ready', 'not_ready']) });

/** Facts about a runtime. */
export const info: z.ZodType = z.looseObject({
  version: z.string(),
  node: z.string(),
  directory: z.string(),
  durability: z.string(),
  threads: anyObject,
  shards: z.number(),
  defaultViewMode: z.enum(['basic', 'verbose', 'debug']),
});

/** Counters since the runtime was opened, and figures of the host. */
export const metrics: z.ZodType = z.looseObject({
  halfSteps: z.number(),
  turns: z.number(),
  restarts: z.number(),
  providers: z.record(z.string(), z.record(z.string(), z.number())).describe('Figures of each provider by its name'),
  loopDelayMs: z.number().describe('Mean delay of the loop of the host thread'),
  loopDelayP99Ms: z.number(),
  memoryBytes: z.number().describe('Resident memory of the process'),
  eventStreams: z.number(),
});

/** A backup that was made. */
export const backup: z.ZodType = z.strictObject({
  directory: z.string(),
  bytes: z.number().describe('Of the whole backup'),
  copiedBytes: z.number().describe('Copied now; the rest is from the backup before'),
  shards: z.number(),
  copiedShards: z.number(),
  results: z.number(),
  copiedResults: z.number(),
});

/** A failure (RFC 9457). */
export const problem: z.ZodType = z.strictObject({
  type: z.string(),
  title: z.string(),
  status: z.number(),
  detail: z.string(),
  code: z.string(),
  retryable: z.boolean(),
  issues: z
    .array(z.strictObject({ path: z.string(), message: z.string() }))
    .optional()
    .describe('answer_invalid: where the answer does not fit'),
});
