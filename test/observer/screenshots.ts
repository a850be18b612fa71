/**
 * Draws the page in each view and state, at both widths, light and dark, into the given directory. This program makes
 * the pictures in `docs/observer`. Use it also to review a change of the page. Run with `node --import
 * ./test/loader/register.mjs test/observer/screenshots.ts <directory>`.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { z } from 'zod';
import { agent, open, type Runtime, tool } from '../../src/index.ts';
import type { Reply } from '../../src/models/script/script.ts';
import { serve } from '../../src/server/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { askHuman } from '../../src/tools/built-in/index.ts';
import { buildPage, findChromium, launch } from './support/browser.ts';
import { faultyServer } from './support/faulty-server.ts';

const directory = process.argv[2] ?? 'observer-screenshots';
const only = process.argv[3]?.split(',');
const SIZES = { wide: { width: 1280, height: 720 }, narrow: { width: 390, height: 844 } };
const FILES = ['apply', 'decide', 'mailbox', 'promotion', 'eviction', 'records', 'turn', 'healing', 'answer', 'state'];

const after = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });

const readSource = tool({
  name: 'read_file',
  description: 'Reads a file of the repository.',
  input: z.object({ path: z.string() }),
  run: async ({ path }) => {
    await after(120 + path.length * 9);
    if (path.endsWith('gone.ts')) return { error: `no such file: ${path}` };
    return `export function ${path.replaceAll(/\W/gu, '_')}(state, record) {\n  // 214 lines\n  switch (record.type) {\n    case 'created': …\n  }\n}`;
  },
});
const shell = tool({
  name: 'bash',
  description: 'Runs a command.',
  input: z.object({ command: z.string() }),
  run: async ({ command }) => {
    await after(command.includes('test') ? 900 : 250);
    return 'ok 412 tests\n0 failed';
  },
});

const refund = tool({
  name: 'refund',
  description: 'Refunds an order.',
  input: z.object({ order: z.string(), euros: z.number(), reason: z.string() }),
  run: ({ euros }) => `refunded ${euros} euros`,
});

const seat = z.object({
  row: z.number().int().min(1).max(40).describe('Row of the seat'),
  window: z.boolean(),
  meal: z.enum(['none', 'vegetarian', 'fish']).optional(),
});

/** The answer of each session's model, by the number of the call. */
async function reply(session: string, call: number): Promise<Reply> {
  const child = /^review-session-core:(\d+)$/u.exec(session)?.[1];
  if (child !== undefined) {
    const number = Number(child);
    const name = FILES[number % FILES.length] ?? 'state';
    if (call === 0) {
      return {
        text: `I read src/session/${name}.ts first.`,
        toolUse: { name: 'read_file', input: { path: `src/session/${name}.ts` } },
        delayMs: 150 + number * 35,
      };
    }
    return number % 5 === 4
      ? { text: 'Never finished in this run.', delayMs: 600_000 }
      : { text: `src/session/${name}.ts: two findings, one of them serious.`, delayMs: 300 + number * 60 };
  }
  if (session === 'review-session-core') {
    if (call === 0) {
      return {
        text: 'I split the review by file and look at the tests meanwhile.',
        toolUse: [
          { name: 'bash', input: { command: 'npm test --silent' } },
          { name: 'read_file', input: { path: 'src/session/gone.ts' } },
          { name: 'read_file', input: { path: 'ARCHITECTURE.md' } },
        ],
        delayMs: 700,
      };
    }
    if (call === 1) return { error: { status: 529, message: 'overloaded' }, delayMs: 200 };
    return {
      text: 'The tests pass. One file that the plan names is gone; the readers go on without it.\n\n1. `apply` consumes its state: a caller that keeps it sees it change.\n2. `promotion` joins merged messages in the order they came, as promised.',
      delayMs: 800,
    };
  }
  if (session === 'import-invoices')
    return { error: { status: 400, message: 'messages.12: tool_use without tool_result' } };
  if (session === 'refund-118') {
    const reason = 'The parcel arrived broken, and the customer sent two photos of it.';
    return { toolUse: { name: 'refund', input: { order: 'A-118', euros: 49.9, reason } } };
  }
  if (session === 'release-train-2026-11') {
    return {
      toolUse: {
        name: 'bash',
        input: { command: 'git push --force origin release/2026-11 && gh release create v3.4.0' },
      },
    };
  }
  if (session === 'flight-to-oslo') {
    return { toolUse: { name: 'ask_seat', input: { question: 'Which seat do you want on the way to Oslo?' } } };
  }
  if (session === 'invoice-7021') {
    const question =
      'The invoice names two delivery addresses, Lindenstr. 4 and Hafenweg 11. Which of them should the correction be sent to?';
    const choices = ['Lindenstr. 4', 'Hafenweg 11', 'Both'];
    return { toolUse: { name: 'ask_human', input: { question, choices } } };
  }
  if (session === 'newsletter-may')
    return { toolUse: { name: 'ask_human', input: { question: 'Who signs the letter?' } } };
  if (session === 'clean-build') {
    return {
      text: 'I would delete the build directory and build again.',
      toolUse: { name: 'bash', input: { command: 'rm -rf dist && npm run build' } },
    };
  }
  if (session === 'support-42' && call > 0) return { text: 'Still writing.', delayMs: 600_000 };
  return {
    text: 'Both keep what they acknowledge; LMDB reads without copying, SQLite asks for less care.',
    delayMs: 60,
  };
}

async function stage(): Promise<Runtime> {
  const runtime = await open(':memory:', {
    provider: scripted((_request, { session, call }) => reply(session, call)),
    threads: { sessions: 0, models: 0, tools: 1 },
    agents: [
      agent({
        name: 'reviewer',
        system: 'You review changes. Name the file and the line of each finding.',
        tools: [readSource, shell],
      }),
      agent({ name: 'writer', system: 'Answer with sources.' }),
      agent({ name: 'cashier', system: 'You answer for orders.', tools: [refund], approve: ['refund'] }),
      agent({ name: 'clerk', tools: [askHuman(), askHuman({ name: 'ask_seat', answer: seat })] }),
      agent({ name: 'builder', system: 'You keep the build green.', tools: [shell], approve: ['bash'] }),
    ],
  });
  for (let index = 1; index <= 40; index += 1) {
    await runtime.session(`chat-${index}`, 'writer').ask(`Compare LMDB and SQLite for logs, part ${index}`);
  }
  const review = runtime.session('review-session-core', 'reviewer');
  await review.send('Review src/session: one reader a file, then sum up what they found.');
  const support = runtime.session('support-42', 'writer');
  await support.ask('My import stops at row 900.');
  await support.send('And now it stops at row 12.');
  await support.send('Please hurry.', { deliver: 'steer' });
  await runtime
    .session('import-invoices', 'writer')
    .ask('Go on')
    .catch(() => undefined);
  await runtime.session('clean-build', 'builder').send('Clean up the build, please.');
  await runtime.session('release-train-2026-11', 'builder').send('Clean up the build, please.');
  await runtime.session('refund-118', 'cashier').send('Refund the order.');
  for (const id of ['invoice-7021', 'flight-to-oslo', 'newsletter-may']) {
    await runtime.session(id, 'clerk').send('Settle it.');
  }
  const nightly = runtime.session('nightly-report', 'writer');
  await nightly.ask('First page');
  await nightly.pause();
  for (const page of ['Second page', 'Third page', 'Fourth page']) await nightly.send(page);
  await after(900);
  await review.spawnAll(
    FILES.concat(FILES.map((name) => `${name}-tests`)).map((name) => ({
      task: `Review src/session/${name}.ts`,
      name,
      replies: 'handle' as const,
    })),
  );
  return runtime;
}

/** Figures of several providers, of which one refuses its credentials, and of tool calls that wait for a thread. */
const BUSY = {
  modelCallsRunning: 41,
  modelCallsWaiting: 128,
  toolCallsRunning: 96,
  toolCallsWaiting: 80,
  providers: {
    claude: { modelCalls: 9, modelCallsRunning: 40, modelCallsWaiting: 20, circuitsOpen: 0, credentialsRefused: 0 },
    gpt: { modelCalls: 9, modelCallsRunning: 0, modelCallsWaiting: 108, circuitsOpen: 0, credentialsRefused: 1 },
    local: { modelCalls: 9, modelCallsRunning: 1, modelCallsWaiting: 0, circuitsOpen: 1, credentialsRefused: 0 },
  },
};

interface Shot {
  readonly name: string;
  readonly hash?: string;
  readonly prepare?: (page: Page) => Promise<void>;
}

const SHOTS: readonly Shot[] = [
  {
    name: 'tree',
    prepare: async (page) => {
      await page.getByRole('button', { name: 'Age' }).click();
      await page
        .getByRole('treeitem', { name: /^review/u })
        .locator('.twist')
        .click();
    },
  },
  { name: 'conversation', hash: '#/review-session-core/conversation' },
  {
    name: 'debug',
    hash: '#/review-session-core/conversation',
    prepare: async (page) => await page.getByRole('button', { name: 'debug' }).click(),
  },
  { name: 'mailbox', hash: '#/nightly-report/conversation' },
  { name: 'time-line', hash: '#/review-session-core/time' },
  { name: 'request', hash: '#/review-session-core/request' },
  { name: 'stopped', hash: '#/import-invoices/conversation' },
  {
    name: 'questions',
    prepare: async (page) =>
      await page.getByText('Who signs the letter?').filter({ visible: true }).first().scrollIntoViewIfNeeded(),
  },
  { name: 'choices', hash: '#/invoice-7021/conversation' },
  {
    name: 'misfit',
    hash: '#/flight-to-oslo/conversation',
    prepare: async (page) => {
      await page
        .getByLabel('Answer to ask_seat of flight-to-oslo', { exact: true })
        .fill('{\n  "row": 0,\n  "window": true\n}');
      await page.keyboard.press('Control+Enter');
      await page.getByRole('alert').first().waitFor();
    },
  },
  { name: 'gone', hash: '#/nobody/conversation' },
  {
    name: 'help',
    hash: '#/support-42/conversation',
    prepare: async (page) => await page.getByRole('button', { name: 'Keys and signs' }).click(),
  },
  {
    name: 'delete',
    hash: '#/support-42/conversation',
    prepare: async (page) => await page.getByRole('button', { name: 'Delete…' }).click(),
  },
  { name: 'filter', prepare: async (page) => await page.getByRole('searchbox').fill('zebra') },
];

async function shoot(browser: Browser, url: string, shots: readonly Shot[]): Promise<void> {
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ['light', 'dark'] as const) {
      const context = await browser.newContext({ viewport, colorScheme, reducedMotion: 'reduce' });
      for (const { name, hash = '', prepare } of shots) {
        if (only?.includes(name) === false) continue;
        const page = await context.newPage();
        await page.goto(`${url}${hash}`);
        await after(1_300);
        await prepare?.(page);
        await after(300);
        await page.screenshot({ path: join(directory, `${name}-${size}-${colorScheme}.png`) });
        await page.close();
      }
      await context.close();
    }
  }
}

const chromium = findChromium();
if (chromium === undefined) process.exit(1);
await mkdir(directory, { recursive: true });
const pages = await buildPage();
const browser = await launch(chromium);
const runtime = await stage();
const observerDirectory = pages.directory;
const server = await serve(runtime, { port: 0, observerDirectory });
await shoot(browser, `${server.url}/observer/`, SHOTS);
const guarded = await serve(runtime, { port: 0, observerDirectory, token: 'secret' });
await shoot(browser, `${guarded.url}/observer/`, [{ name: 'token' }]);
const waiting = await faultyServer(runtime, {
  pages: observerDirectory,
  override: (path) => {
    if (path === '/metrics.json') {
      return { ...runtime.metrics(), ...BUSY, loopDelayMs: 0.4, degraded: 'no space left on device' };
    }
    if (path !== '/sessions/support-42/request') return undefined;
    return {
      model: 'claude-opus-4-6',
      max_tokens: 4096,
      system: 'Answer with sources.',
      messages: [{ role: 'user', content: 'Hello' }],
      violations: [
        {
          rule: 'R01',
          path: 'messages.3.content.0',
          message: 'tool_use ids were found without tool_result blocks',
          fatal: true,
        },
        { rule: 'R17', path: 'messages.5', message: 'two user messages in a row are joined', fatal: false },
      ],
    };
  },
});
await shoot(browser, waiting.url, [
  { name: 'approval', hash: '#/clean-build/conversation' },
  { name: 'providers' },
  { name: 'violations', hash: '#/support-42/request' },
]);
const broken = await faultyServer(runtime, { pages: observerDirectory });
await shoot(browser, broken.url, [
  {
    name: 'lost',
    hash: '#/support-42/conversation',
    prepare: async (page) => {
      broken.isDown = true;
      broken.breakStreams();
      await after(2_500);
      await page.getByText('disconnected').waitFor();
      broken.isDown = false;
    },
  },
]);
broken.isDown = true;
await shoot(browser, broken.url, [{ name: 'failed', hash: '#/support-42/conversation' }]);
const empty = await open(':memory:', {
  provider: scripted(() => 'Yes.'),
  threads: { sessions: 0, models: 0, tools: 1 },
});
const quiet = await serve(empty, { port: 0, observerDirectory });
await shoot(browser, `${quiet.url}/observer/`, [{ name: 'empty' }]);
await browser.close();
for (const each of [server, guarded, quiet]) await each.close({ deadlineMs: 0 });
for (const each of [waiting, broken]) await each.close();
for (const each of [runtime, empty]) await each.close({ deadlineMs: 0 });
await pages.remove();
