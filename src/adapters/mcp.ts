/**
 * Subpath `troupe/mcp`: serves a runtime over MCP, so that other agents can use its sessions with the tools `send`,
 * `spawn` and `read`.
 *
 * Source of the protocol: https://modelcontextprotocol.io, through its official SDK (`@modelcontextprotocol/server`, a
 * peer dependency). Pass a function that returns the server to `serveStdio` or `createMcpHandler` of that SDK. These
 * two serve the older and the newer versions of the protocol. A server that is connected to a transport directly serves
 * only the older versions.
 */
import { type CallToolResult, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { MCP_ANSWER_MS_DEFAULT, MCP_MESSAGES_MAX } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { CancelledError, describeValue, errorShape, InvalidNameError } from '../base/errors.ts';
import { orAborted } from '../base/lazy-abort.ts';
import { DELIVERIES, type Message, textOf } from '../base/messages.ts';
import type { Receipt, Session, SessionsView } from '../index.ts';
import { VERSION } from '../runtime/protocol/version.ts';

/** Limits for other agents: the sessions they may use, and how long they wait. */
export interface McpOptions {
  /** Name of the server; default `troupe`. */
  readonly name?: string;
  /**
   * Returns true if other agents may use the session with this id. A child's id begins with the id of its root.
   * Default: all sessions.
   */
  readonly allows?: (session: string) => boolean;
  /** Milliseconds that `send` and `spawn` wait for an answer before they return without one; default five minutes. */
  readonly answerTimeoutMs?: number;
}

const session = z.string().describe('Id of the session');
const key = z.string().optional().describe('Idempotency key: the same key and content is accepted once');
const wait = z.boolean().optional().describe('False: return once it is durable, without the answer. Default true');

/**
 * Creates an MCP server for `runtime`: a runtime, or the view of one tenant. Closing the server leaves the runtime
 * open. If a client cancels a call, the session still answers, but nothing waits for the answer.
 */
export function mcpServer(runtime: SessionsView, options: McpOptions = {}): McpServer {
  const { name = 'troupe', allows = () => true, answerTimeoutMs = MCP_ANSWER_MS_DEFAULT } = options;
  const server = new McpServer({ name, version: VERSION });
  const open = (id: string, agent?: string): Session => {
    const found = runtime.session(id, agent);
    // In the view of a tenant, a session can be named with or without the tenant. So the check uses the full id.
    if (!allows(found.id)) throw new InvalidNameError(`session ${describeValue(id)} may not be used from here`);
    return found;
  };
  const answerOf = (answer: Promise<string>, signal: AbortSignal): Promise<string | undefined> =>
    withinTime(answer, answerTimeoutMs, signal);

  server.registerTool(
    'send',
    {
      title: 'Send a message to a session',
      description:
        'Sends a message to an agent session, which is created if missing, and returns its answer. A busy session is no error: the message joins its running turn.',
      inputSchema: z.object({
        session,
        content: z.string().describe('Text of the message'),
        agent: z.string().optional().describe('Agent of a new session; not needed where the service has exactly one'),
        deliver: z.enum(DELIVERIES).optional().describe('How the message meets a busy session; default ride'),
        key,
        wait,
      }),
    },
    (given, { mcpReq: { signal } }) =>
      toolResult(async () => {
        const receipt: Receipt = await open(given.session, given.agent).send(given.content, {
          ...defined({ key: given.key, deliver: given.deliver }),
        });
        const answer = given.wait === false ? undefined : await answerOf(receipt.answer(), signal);
        const facts = { session: given.session, receipt: receipt.id, duplicate: receipt.duplicate };
        return result(answer ?? `accepted as ${receipt.id}; read the session for the answer`, {
          ...facts,
          ...defined({ answer }),
        });
      }),
  );

  server.registerTool(
    'spawn',
    {
      title: 'Spawn a sub-agent',
      description: 'Starts a child of a session on a task, and returns its reply.',
      inputSchema: z.object({
        session: session.describe('Id of the parent'),
        task: z.string().describe('Task of the child'),
        agent: z.string().optional().describe('Agent of the child; default: the agent of its parent'),
        name: z.string().optional().describe('Nickname, unique among its siblings'),
        key,
        wait,
      }),
    },
    (given, { mcpReq: { signal } }) =>
      toolResult(async () => {
        const { session: parent, task, agent, name: nickname, key: itemKey } = given;
        const child = await open(parent).spawn(
          { task, ...defined({ agent, name: nickname }) },
          itemKey === undefined ? {} : { key: itemKey },
        );
        const reply = given.wait === false ? undefined : await answerOf(child.reply(), signal);
        return result(reply ?? `spawned ${child.id} (${child.name}); read it for the reply`, {
          session: parent,
          child: child.id,
          name: child.name,
          ...defined({ reply }),
        });
      }),
  );

  server.registerTool(
    'read',
    {
      title: 'Read a session',
      description: 'State and messages of a session, oldest first; `after` continues after the last message seen.',
      inputSchema: z.object({
        session,
        after: z.number().int().min(0).optional().describe('Messages after this number; default: from the first one'),
        limit: z.number().int().min(1).max(MCP_MESSAGES_MAX).optional().describe(`Default ${MCP_MESSAGES_MAX}`),
      }),
      annotations: { readOnlyHint: true },
    },
    (given) =>
      toolResult(async () => {
        const { after = 0, limit = MCP_MESSAGES_MAX } = given;
        const found = open(given.session);
        const { items: messages } = await found.page('messages', { after: String(after), limit });
        const { state, mailbox } = await found.state();
        const lines = messages.map(line);
        return result([`${state}, ${mailbox} waiting`, ...lines].join('\n'), {
          session: given.session,
          state,
          mailbox,
          messages: messages.map(({ seq, type, content }) => ({ seq, type, text: textOf(content) })),
        });
      }),
  );
  return server;
}

/**
 * Resolves to the answer, or to undefined when the answer takes too long. Rejects with `CancelledError` when the client
 * cancels.
 */
async function withinTime(
  answer: Promise<string>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    return await orAborted(answer, AbortSignal.any([timeout, signal]));
  } catch (error) {
    if (error instanceof CancelledError && timeout.aborted && error.cause === timeout.reason) return undefined;
    throw error;
  }
}

/** Turns a failure into the form that the protocol requires: a result that the model can read. */
async function toolResult(run: () => Promise<CallToolResult>): Promise<CallToolResult> {
  try {
    return await run();
  } catch (thrown) {
    const { code, message, retryable } = errorShape(thrown);
    const text = `${code}: ${message}${retryable === true ? ' (may be tried again)' : ''}`;
    return { content: [{ type: 'text', text }], isError: true };
  }
}

function result(text: string, structured: Record<string, unknown>): CallToolResult {
  return { content: [{ type: 'text', text }], structuredContent: structured };
}

function line({ seq, type, content, toolName }: Message): string {
  return `#${seq} ${type}${toolName === undefined ? '' : ` ${toolName}`}: ${textOf(content)}`;
}
