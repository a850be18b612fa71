/**
 * Goal: in a browser, the overview has the queue of calls that wait for a person: each is decided in place, by mouse and
 * by keyboard, also on a phone, and the head line counts them. Providers whose calls are stopped are named.
 */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { agent, type Runtime, tool } from '../../src/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { eventually, runtimeKit } from '../support/runtime-kit.ts';
import { buildPage, findChromium, launch } from './support/browser.ts';
import { faultyServer } from './support/faulty-server.ts';

const chromium = findChromium();
const kit = runtimeKit();
const SEEN_MS = 10_000;

describe.skipIf(chromium === undefined)('the queue in a browser', () => {
  let browser: Browser;
  let pages: Awaited<ReturnType<typeof buildPage>>;

  beforeAll(async () => {
    pages = await buildPage();
    browser = await launch(chromium ?? '');
  });
  afterAll(async () => {
    await browser.close();
    await pages.remove();
  });

  const pay = tool({ name: 'pay', description: 'Pays.', input: { type: 'object' }, run: () => 'paid' });

  async function waitingRuntime(ids: readonly string[]): Promise<Runtime> {
    const runtime = await kit.open({
      provider: scripted((_request, { call }) =>
        call === 0 ? { toolUse: { name: 'pay', input: { to: 'ada', euros: 5 } } } : 'Done.',
      ),
      agents: [agent({ name: 'cashier', tools: [pay], approve: ['pay'] })],
    });
    for (const id of ids) {
      await runtime.session(id).send('Pay.');
      await eventually(async () => (await runtime.waiting({ session: id })).items.length === 1);
    }
    return runtime;
  }

  async function visit(runtime: Runtime, override?: (path: string) => unknown, width = 1_280): Promise<Page> {
    const options = override === undefined ? {} : { override };
    const server = await faultyServer(runtime, { pages: pages.directory, ...options });
    const context = await browser.newContext({ viewport: { width, height: 800 } });
    onTestFinished(async () => {
      await context.close();
      await server.close();
    });
    context.setDefaultTimeout(SEEN_MS);
    const page = await context.newPage();
    await page.goto(server.url);
    return page;
  }

  const queue = (page: Page) => page.getByRole('region', { name: 'Waiting for a person' });

  test('calls are listed with their inputs and decided in place; new ones appear', async () => {
    const runtime = await waitingRuntime(['order-1', 'order-2']);
    const page = await visit(runtime);
    await queue(page).getByText('to: "ada", euros: 5').first().waitFor();
    expect(await queue(page).getByRole('listitem').count()).toBe(2);
    await page.locator('.figure-asks').getByText('2').waitFor();
    await queue(page).getByRole('button', { name: 'Allow pay of order-1' }).click();
    await eventually(async () => (await queue(page).getByRole('listitem').count()) === 1);
    await eventually(async () => (await runtime.session('order-1').state()).state === 'idle');
    await queue(page).getByRole('button', { name: 'Deny pay of order-2' }).focus();
    await page.keyboard.press('Enter');
    await eventually(async () => (await queue(page).count()) === 0);
    await eventually(async () => (await runtime.session('order-2').state()).state === 'idle');
    expect(JSON.stringify(await runtime.session('order-2').messages())).toContain('denied by a person');
    await runtime.session('order-3').send('Pay.');
    await queue(page).getByRole('button', { name: 'order-3', exact: true }).click();
    await page.getByRole('heading', { name: 'order-3' }).waitFor();
  });

  test('on a phone the queue is above the tree', async () => {
    const page = await visit(await waitingRuntime(['order-1']), undefined, 390);
    await queue(page).getByRole('button', { name: 'Allow pay of order-1' }).click();
    await eventually(async () => (await queue(page).count()) === 0);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
  });

  test('providers whose calls are stopped are named, and the head line keeps its width', async () => {
    const runtime = await waitingRuntime([]);
    const figures = {
      modelCalls: 9,
      modelCallsRunning: 1,
      modelCallsWaiting: 7,
      circuitsOpen: 0,
      credentialsRefused: 0,
    };
    const providers = {
      claude: figures,
      gpt: { ...figures, credentialsRefused: 1 },
      local: { ...figures, circuitsOpen: 1 },
    };
    const page = await visit(runtime, (path) => {
      return path === '/metrics.json' ? { ...runtime.metrics(), loopDelayMs: 0.1, providers } : undefined;
    });
    await page.getByRole('alert').getByText('gpt refused the credentials.').waitFor();
    expect(await page.getByRole('alert').textContent()).toContain('local does not answer. 7 calls wait.');
    await page.getByText('· 2 providers stopped').waitFor();
    const isWide = (each: unknown): boolean => {
      const { scrollWidth, clientWidth } = each as { readonly scrollWidth: number; readonly clientWidth: number };
      return scrollWidth > clientWidth;
    };
    expect(await page.locator('.figures').evaluate(isWide)).toBe(false);
  });
});
