/**
 * A node of the cluster, in its own process: `node.js PLAN`. Waits in `open` until it owns the sessions, then does what
 * it is ordered. Ends when its runtime has ended.
 */
import { agent, open, type Runtime } from '../../../src/index.ts';
import { postgres } from '../../../src/postgres/index.ts';
import provider from './fixtures/model.ts';
import * as tools from './fixtures/tools.ts';
import { EFFECTS_VARIABLE, type MessageFact, NODE_VARIABLE, type NodePlan, type Note, type Order } from './protocol.ts';

const plan = JSON.parse(process.argv[2] ?? '') as NodePlan;
// The threads of tools and models have the variables too.
process.env[EFFECTS_VARIABLE] = plan.effects;
process.env[NODE_VARIABLE] = plan.name;
/** The extension of this file as it runs; the fixtures beside it have the same extension. */
const ENDING = import.meta.url.slice(-3);
const PAGE = 1_000;
const inPlace = plan.threads === 0;

const runtime = await open(plan.directory, {
  threads: { sessions: plan.threads, models: inPlace ? 0 : 1, tools: 1 },
  provider: inPlace ? provider : new URL(`./fixtures/model${ENDING}`, import.meta.url),
  agents: [
    agent({
      name: 'worker',
      system: 'Answer.',
      tools: inPlace ? Object.values(tools) : [new URL(`./fixtures/tools${ENDING}`, import.meta.url)],
      subagents: { spawn: true, maxActive: 4 },
    }),
  ],
  cluster: postgres({
    url: plan.url,
    schema: plan.schema,
    node: plan.name,
    leaseMs: plan.leaseMs,
    holdMs: plan.holdMs,
    waitMs: 'forever',
  }),
});

const say = (note: Note): void => {
  process.send?.(note);
};

// Before the first order: a node that loses its place at once says so.
void runtime.closed.then((end) => {
  process.send?.({ type: 'ended', reason: end.reason } satisfies Note, () => process.exit(0));
});
process.on('message', (order: Order) => void obey(runtime, order));
process.on('disconnect', () => process.exit(1));
say({ type: 'opened', epochs: runtime.cluster?.status().shards.map(({ epoch }) => epoch) ?? [] });

async function obey(owner: Runtime, order: Order): Promise<void> {
  switch (order.type) {
    case 'send':
      await send(owner, order);
      return;
    case 'drain':
      await owner.drain();
      say({ type: 'drained' });
      return;
    case 'read':
      await read(owner);
      return;
    case 'explain':
      await explain(owner);
      return;
    case 'close':
      await owner.close();
  }
}

async function send(owner: Runtime, order: Extract<Order, { readonly type: 'send' }>): Promise<void> {
  const { id, session, key, text } = order;
  try {
    const receipt = await owner.session(session).send(text, { key });
    say({ type: 'acknowledged', id });
    say({ type: 'answered', id, text: await receipt.answer() });
  } catch (error) {
    say({ type: 'refused', id, code: error instanceof Error && 'code' in error ? String(error.code) : String(error) });
  }
}

async function explain(owner: Runtime): Promise<void> {
  const lines: string[] = [];
  for (const { id, state } of await owner.sessions.list({ limit: PAGE })) {
    if (state === 'idle') continue;
    const session = owner.session(id);
    const last = (await session.messages()).slice(-3);
    lines.push(JSON.stringify({ id, state, explanation: await session.explain(), last }));
  }
  say({ type: 'explained', text: lines.join('\n') });
}

async function read(owner: Runtime): Promise<void> {
  for (let after: string | undefined; ; ) {
    const page = await owner.sessions.list({ order: 'id', limit: PAGE, ...(after === undefined ? {} : { after }) });
    for (const { id, parent, state } of page) {
      const messages = (await owner.session(id).messages()).map(
        ({ type, content, key, toolName, success }): MessageFact => ({
          type,
          text: typeof content === 'string' ? content : JSON.stringify(content),
          ...(key === undefined ? {} : { key }),
          ...(toolName === undefined ? {} : { tool: toolName }),
          ...(success === false ? { failed: true as const } : {}),
        }),
      );
      say({ type: 'session', session: { id, state, messages, ...(parent === undefined ? {} : { parent }) } });
    }
    after = page.at(-1)?.id;
    if (page.length < PAGE) break;
  }
  say({ type: 'read' });
}
