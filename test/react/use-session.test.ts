/**
 * Goal: the hook shows a session as it is, in a real browser, and does what a person asks. Method: a page with the hook,
 * bundled, served beside the runtime; the model answers when the test says so.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { build } from 'vite';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, type ModelProvider, type OpenOptions, type Runtime, tool } from '../../src/index.ts';
import { handler, nodeListener } from '../../src/server/index.ts';
import { askHuman } from '../../src/tools/built-in/index.ts';
import { findChromium, launch } from '../observer/support/browser.ts';
import { gatedModel, queue, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const chromium = findChromium();

describe.skipIf(chromium === undefined)('useSession in a browser', () => {
  let browser: Browser;
  let script: string;
  const closing: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    browser = await launch(chromium ?? '');
    const result = await build({
      configFile: false,
      logLevel: 'silent',
      define: { 'process.env.NODE_ENV': '"development"' },
      build: {
        write: false,
        lib: { entry: fileURLToPath(new URL('./fixtures/page.ts', import.meta.url)), formats: ['es'] },
      },
    });
    const outputs = Array.isArray(result) ? result : [result];
    script =
      outputs
        .flatMap((each) => ('output' in each ? each.output : []))
        .map((each) => ('code' in each ? each.code : ''))[0] ?? '';
  });
  afterAll(() => browser.close());
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  async function visit(
    options: OpenOptions,
  ): Promise<{ readonly page: Page; readonly runtime: Runtime; readonly errors: string[] }> {
    const runtime = await kit.open(options);
    const api = nodeListener(handler(runtime));
    const server = createServer((request, response) => {
      if (request.url?.startsWith('/agents/') === true) {
        request.url = request.url.slice('/agents'.length);
        void api(request, response);
        return;
      }
      const isScript = request.url === '/page.js';
      response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html; charset=utf-8');
      response.end(
        isScript ? script : '<!doctype html><div id="root"></div><script type="module" src="page.js"></script>',
      );
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const page = await browser.newPage();
    closing.push(async () => {
      await page.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    page.on(
      'console',
      (message) => message.type() === 'error' && !message.text().includes('404') && errors.push(message.text()),
    );
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    return { page, runtime, errors };
  }

  const shows = (page: Page, id: string, text: string): Promise<void> =>
    page.locator(`#${id}`).getByText(text, { exact: true }).waitFor();

  test('a message, its answer while it is written, and its end; another session; a failed turn', async () => {
    const model = gatedModel();
    const writing = queue<(text: string) => void>();
    const provider: ModelProvider = {
      ...model.provider,
      generate: (request, context) => {
        writing.put((text) => context.onDelta({ type: 'text', text }));
        return model.provider.generate(request, context);
      },
    };
    const { page, runtime, errors } = await visit({ provider });
    await shows(page, 'status', 'idle');
    await page.getByText('send', { exact: true }).click();
    const call = await model.next();
    await shows(page, 'status', 'working');
    (await writing.take())('You said');
    await shows(page, 'text', 'You said');
    call.answer('You said hello.');
    await page.locator('li').getByText('You said hello.').waitFor();
    await shows(page, 'status', 'idle');
    expect(await page.locator('li').allTextContents()).toEqual(['hello', 'You said hello.']);
    expect(await page.locator('#text').textContent()).toBe('');
    const asked = runtime.session('other').ask('elsewhere');
    (await model.next()).answer('There.');
    await asked;
    await page.getByText('other', { exact: true }).click();
    await page.locator('li').getByText('There.').waitFor();
    expect(await page.locator('li').allTextContents()).toEqual(['elsewhere', 'There.']);
    await runtime.session('other').history.popLast();
    await page.locator('li').getByText('There.').waitFor({ state: 'detached' });
    await page.getByText('send', { exact: true }).click();
    await model.next();
    await page.getByText('interrupt', { exact: true }).click();
    await shows(page, 'status', 'idle');
    expect(errors).toEqual([]);
  });

  test('an approval and a question, one that waits already and one that comes later', async () => {
    const model = gatedModel();
    const mail = tool({ name: 'mail', description: 'Sends.', input: z.object({}), run: () => 'sent' });
    const agents = [agent({ name: 'a', tools: [mail, askHuman()], approve: ['mail'] })];
    const { page, runtime, errors } = await visit({ provider: model.provider, agents });
    await runtime.session('s').send('mail it');
    (await model.next()).answer({ toolUse: { name: 'mail', id: 'c1', input: {} } });
    for await (const { type } of runtime.session('s').events()) if (type === 'approval.required') break;
    await page.reload();
    await shows(page, 'status', 'waiting');
    await shows(page, 'waits', 'approval mail');
    await page.getByText('allow', { exact: true }).click();
    (await model.next()).answer({ toolUse: { name: 'ask_human', id: 'c2', input: { question: 'Which colour?' } } });
    await shows(page, 'waits', 'question Which colour?');
    await page.getByText('answer', { exact: true }).click();
    (await model.next()).answer('Blue it is.');
    await page.locator('li').getByText('Blue it is.').waitFor();
    await shows(page, 'status', 'idle');
    expect(await page.locator('#waits').textContent()).toBe('');
    expect(errors).toEqual([]);
  });
});
