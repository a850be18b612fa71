/**
 * A runtime with `redact` in a directory, and everything that leaves it: events, HTTP answers and frames, webhooks, log
 * lines, requests to the models. At the end each of them, and each file of the store, is searched for canaries.
 */
import { expect } from 'vitest';
import type { ModelRequest, Runtime, Session, SessionEvent } from '../../../src/index.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import type { ReplyFunction } from '../../../src/models/script/script.ts';
import { serve } from '../../../src/server/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import type { RuntimeKit, TestOptions } from '../../support/runtime-kit.ts';
import { storedTexts } from '../../support/stored-texts.ts';
import { webhookReceiver } from '../../support/webhook-receiver.ts';

/** The text that replaces a canary. */
export const HIDDEN = '[hidden]';
const REDACT = new URL('../fixtures/redact-canary.ts', import.meta.url);
const CANARY = 'canary-';
let canaries = 0;

/** A text that no other value has, and that the function of the option `redact` replaces. */
export function canary(): string {
  canaries += 1;
  return `${CANARY}${canaries}x`;
}

/** The values that left the runtime, by their way. */
export interface Left {
  readonly events: readonly SessionEvent[];
  readonly frames: string;
  readonly answers: readonly unknown[];
  readonly hooks: readonly unknown[];
  readonly lines: readonly unknown[];
  readonly requests: readonly ModelRequest[];
  readonly shown: readonly unknown[];
  readonly stored: readonly string[];
}

/** See the head of the file. */
export interface Scene {
  readonly runtime: Runtime;
  readonly session: Session;
  readonly url: string;
  readonly directory: string;
  /** Waits for the end of all work, closes the runtime, and looks for canaries in everything that left it. */
  end(): Promise<Left>;
}

/** Options of a scene. `model`: a function instead of the option `provider`. */
export interface SceneOptions extends TestOptions {
  readonly model?: ReplyFunction;
}

/** Opens the runtime, reads the events of the session `one` in two ways, and receives its webhooks. */
export async function redactedScene(kit: RuntimeKit, { model, ...options }: SceneOptions): Promise<Scene> {
  const directory = options.directory ?? (await kit.directory());
  const lines: unknown[] = [];
  const requests: ModelRequest[] = [];
  const note = (fields: object, message: string): void => void lines.push([fields, message]);
  const receiver = await webhookReceiver();
  const provider = scripted((request, context) => {
    requests.push(request);
    return model?.(request, context) ?? 'fine';
  }) as ModelProvider;
  const runtime = await kit.open({
    directory,
    redact: REDACT,
    provider,
    webhooks: [{ url: receiver.url, children: true }],
    logger: { debug: note, info: note, warn: note, error: note },
    ...options,
  });
  const server = await serve(runtime, { port: 0 });
  const session = runtime.session('one');
  // The session must be there before its events are read over HTTP.
  await fetch(`${server.url}/sessions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id: 'one' }),
  });
  const events: SessionEvent[] = [];
  const reader = (async () => {
    for await (const event of session.events({ after: 0 })) events.push(event);
  })();
  const stream = await fetch(`${server.url}/sessions/one/events`, { headers: { 'last-event-id': '0' } });
  const frames = stream.text().catch(() => '');
  const get = async (path: string): Promise<unknown> => (await fetch(`${server.url}${path}`)).json();
  const end = async (): Promise<Left> => {
    await runtime.drain();
    const answers = await Promise.all(
      ['/sessions', '/sessions/one', '/sessions/one/messages', '/sessions/one/request', '/waiting', '/audit'].map(get),
    );
    const shown: unknown[] = [
      await session.messages(),
      await session.history.messages(),
      await session.request(),
      await session.viewport(),
      await session.goals.list(),
      await session.explain(),
      await session.state(),
      (await runtime.audit()).items,
      (await runtime.deadLetters()).items,
      (await runtime.search('canary')).found,
    ];
    await server.close({ deadlineMs: 0 });
    await runtime.close();
    await reader;
    const left: Left = {
      events,
      frames: await frames,
      answers,
      hooks: receiver.received.map(({ text }) => text),
      lines,
      requests,
      shown,
      stored: (await storedTexts(directory)).map(({ at, text }) => `${at}: ${text}`),
    };
    for (const [way, value] of Object.entries(left)) {
      const text = JSON.stringify(value, showErrors);
      const at = text.indexOf(CANARY);
      expect(at === -1 ? undefined : text.slice(Math.max(0, at - 200), at + 40), `a canary in ${way}`).toBeUndefined();
    }
    return left;
  };
  return { runtime, session, url: server.url, directory, end };
}

/** Errors in a logged line have their message and stack outside of their own members. */
function showErrors(_name: string, value: unknown): unknown {
  return value instanceof Error ? { message: value.message, stack: value.stack, cause: value.cause } : value;
}
