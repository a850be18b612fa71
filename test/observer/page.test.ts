/**
 * Goal: the page as a person uses it: a run watched from its start to its end, each state, the keys, both widths, and
 * the actions on a session.
 * Method: the page is built into a separate directory and opened in a headless Chromium. `troupe/server` serves it over
 * a real runtime with a scripted model; faults are injected in front of that server. The tests wait for visible
 * changes, never for a time. Without a Chromium they are skipped.
 */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, type Runtime, tool } from '../../src/index.ts';
import { serve as listen, type RunningServer } from '../../src/server/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { askHuman } from '../../src/tools/built-in/index.ts';
import { deferred, eventually, gatedModel, log, runtimeKit } from '../support/runtime-kit.ts';
import { buildPage, findChromium, launch } from './support/browser.ts';
import { type FaultyServer, faultyServer } from './support/faulty-server.ts';

const WIDE = { width: 1280, height: 800 };
const NARROW = { width: 390, height: 844 };
const CHILDREN = 1_000;
/** The time to wait for a visible change, and the time for a whole test: far more than they take on a busy machine. */
const SEEN_MS = 60_000;
const TEST_MS = 120_000;

const kit = runtimeKit();
const chromium = findChromium();

describe.skipIf(chromium === undefined)('the observer page in a browser', { timeout: TEST_MS }, () => {
  let browser: Browser;
  let pages: Awaited<ReturnType<typeof buildPage>>;
  const closing: (() => Promise<void>)[] = [];
  const troubles: string[] = [];

  beforeAll(async () => {
    pages = await buildPage();
    browser = await launch(chromium ?? '');
  }, TEST_MS);
  afterAll(async () => {
    await browser.close();
    await pages.remove();
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
    // Every error that the page throws, and every request that its content policy refuses.
    expect(troubles.splice(0)).toEqual([]);
  });

  /** The address of the page, served over `runtime`. */
  async function serve(runtime: Runtime, options: { readonly token?: string } = {}): Promise<{ readonly url: string }> {
    const server: RunningServer = await listen(runtime, { port: 0, observerDirectory: pages.directory, ...options });
    closing.push(() => server.close({ deadlineMs: 0 }));
    return { url: `${server.url}/observer/` };
  }

  async function serveWithFaults(runtime: Runtime, override?: (path: string) => unknown): Promise<FaultyServer> {
    const options = override === undefined ? {} : { override };
    const server = await faultyServer(runtime, { pages: pages.directory, ...options });
    closing.push(() => server.close());
    return server;
  }

  async function visit(url: string, viewport = WIDE): Promise<Page> {
    const context: BrowserContext = await browser.newContext({ viewport });
    closing.push(() => context.close());
    // Shorter than the test's time limit, so that the report names the change it waited for.
    context.setDefaultTimeout(SEEN_MS);
    const page = await context.newPage();
    page.on('pageerror', (error) => troubles.push(String(error)));
    page.on('console', (message) => {
      // The console also logs refused requests, which some tests cause.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
        troubles.push(message.text());
    });
    await page.goto(url);
    return page;
  }

  const foot = (page: Page) => page.locator('.tree-foot');
  const row = (page: Page, name: string) => page.getByRole('treeitem', { name: new RegExp(`^${name}, `) });
  const isWide = (page: Page): Promise<boolean> =>
    page.evaluate('document.documentElement.scrollWidth <= innerWidth') as Promise<boolean>;

  test('a run of 1,000 sub-agents is shown from its start to its end', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'Read it.'), agents: [agent({ name: 'reviewer' })] });
    const page = await visit((await serve(runtime)).url);
    await page.getByText('No sessions yet').waitFor();
    const session = runtime.session('review');
    const family = await session.spawnAll(
      Array.from({ length: CHILDREN }, (_, index) => ({
        task: `Read file ${index}`,
        name: `reader-${index}`,
        replies: 'handle' as const,
      })),
    );
    await family.settled();
    await session.ask('How many?');
    await foot(page)
      .getByText(`${(CHILDREN + 1).toLocaleString('en')} sessions · 0 at the model · 0 at tools`)
      .waitFor();
    await row(page, 'review').getByText('1.0k').waitFor();
    await row(page, 'review').click();
    await row(page, 'reader-0').getByText('ended').waitFor();
    // The rows that fit, and a few more.
    expect(await page.getByRole('treeitem').count()).toBeLessThan(60);
    await page.getByRole('log').getByText('Read it.').waitFor();
    await page.getByRole('tab', { name: 'Time line' }).click();
    await page.getByRole('button', { name: 'All', exact: true }).last().click();
    await page.getByRole('button', { name: `reader-${CHILDREN - 1}` }).waitFor();
    expect(await page.locator('.time-row').count()).toBeLessThan(80);
    await page.getByRole('button', { name: `reader-${CHILDREN - 1}` }).click();
    await page.getByRole('heading', { name: `reader-${CHILDREN - 1}` }).waitFor();
  });

  test('an edit of the history is shown as it happens: removed messages disappear, messages hidden by another branch are marked', async () => {
    const runtime = await kit.open({ provider: scripted(['eins', 'zwei', 'drei']), agents: [agent({ name: 'a' })] });
    const session = runtime.session('s');
    for (const said of ['one', 'two', 'three']) await session.ask(said);
    const page = await visit((await serve(runtime)).url);
    await row(page, 's').click();
    const talk = page.getByRole('log');
    await talk.getByText('drei').waitFor();
    await session.history.undo();
    await talk.locator('.said.is-evicted', { hasText: 'drei' }).waitFor();
    expect(await talk.locator('.said.is-evicted').count()).toBe(2);
    await session.history.truncateFrom(1);
    await talk.getByText('zwei').waitFor({ state: 'detached' });
    expect(await talk.getByText('one').count()).toBe(1);
  });

  test('a running turn is shown: it waits for the model, its tool runs, it is steered, and it ends', async () => {
    const model = gatedModel();
    let finish: (() => void) | undefined;
    const look = tool({
      name: 'look',
      description: 'Looks.',
      input: z.object({}),
      run: () =>
        new Promise<string>((resolve) => {
          finish = () => resolve('seen');
        }),
    });
    const runtime = await kit.open({ provider: model.provider, agents: [agent({ name: 'a', tools: [look] })] });
    await runtime.session('s').send('Look.');
    const page = await visit((await serve(runtime)).url);
    const first = await model.next();
    await row(page, 's').click();
    await page.getByText('Waits for the model').waitFor();
    first.answer({ text: 'Let me see.', toolUse: { name: 'look', input: {} } });
    await page.getByText('Waits for tools').waitFor();
    await page.getByLabel('Message', { exact: true }).fill('Be quick');
    await page.getByLabel('How it meets a busy session').selectOption('steer');
    await page.keyboard.press('Control+Enter');
    await page.locator('.said.is-pending', { hasText: 'Be quick' }).waitFor();
    await page.getByRole('tab', { name: 'Time line' }).click();
    await page.locator('.time-row', { hasText: 'look' }).locator('.bar-work.is-open').waitFor();
    await page.locator('.time-row', { hasText: 'mail' }).waitFor();
    finish?.();
    (await model.next()).answer('Done.');
    await page.locator('.time-turn-text', { hasText: 'end turn' }).waitFor();
    expect(await page.locator('.bar.is-open').count()).toBe(0);
    await page.getByRole('tab', { name: 'Conversation' }).click();
    await page.getByRole('log').getByText('Done.').waitFor();
  });

  test('ten thousand sessions are listed, searched and ordered, and only the visible ones are drawn', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'Yes.') });
    const ids = Array.from({ length: 10_000 }, (_, index) => `s-${index}`);
    // These sessions are created and idle, since they received no message.
    await Promise.all(ids.map((id) => runtime.session(id).resume()));
    const full = runtime.session('s-7000');
    await full.pause();
    for (let count = 0; count < 9; count += 1) await full.send('Later');
    const page = await visit((await serve(runtime)).url);
    await foot(page).getByText('10,000 sessions').waitFor();
    expect(await page.getByRole('treeitem').count()).toBeLessThan(60);
    await page.getByRole('button', { name: 'Mail' }).click();
    await page.getByRole('treeitem').first().getByText('s-7000').waitFor();
    await page.getByRole('searchbox').fill('s-1234');
    await row(page, 's-1234').waitFor();
    expect(await page.getByRole('treeitem').count()).toBe(1);
    await page.getByRole('searchbox').fill('');
    await page.getByRole('button', { name: 'Session', exact: true }).click();
    await page.getByRole('treeitem').first().focus();
    await page.keyboard.press('End');
    await page.locator('[role=treeitem]:focus', { hasText: 's-9999' }).waitFor();
    await page.keyboard.press('Home');
    await page.locator('[role=treeitem]:focus', { hasText: 's-0' }).waitFor();
  });

  test('every control can be reached with the keyboard, and the focus is visible', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'Yes.') });
    await runtime.session('one').ask('Hello');
    await runtime.session('two').spawn({ task: 'Help', name: 'scout', replies: 'handle' });
    await runtime.drain();
    const page = await visit((await serve(runtime)).url);
    await row(page, 'two').waitFor();
    await page.keyboard.press('g');
    await page.locator('[role=treeitem]:focus').waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    const scout = page.locator('[role=treeitem]:focus', { hasText: 'scout' });
    await scout.waitFor();
    const roles = ['aria-level', 'aria-posinset', 'aria-setsize', 'aria-expanded'];
    expect(await Promise.all(roles.map((name) => scout.getAttribute(name)))).toEqual(['2', '1', '1', null]);
    expect(await row(page, 'two').getAttribute('aria-expanded')).toBe('true');
    expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid');
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'one' }).waitFor();
    await page.keyboard.press('2');
    await page.getByRole('tab', { name: 'Time line', selected: true }).waitFor();
    await page.keyboard.press('3');
    await page.getByText('Legal').waitFor();
    await page.keyboard.press('1');
    await page.keyboard.press('m');
    await page.getByRole('button', { name: 'debug', pressed: true }).waitFor();
    await page.keyboard.press('c');
    await page.keyboard.type('More, please?');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('log').getByText('More, please?').waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys and signs' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');
    await page.getByRole('heading', { name: 'All sessions' }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('two');
    await row(page, 'one').waitFor({ state: 'detached' });
    await page.keyboard.press('Tab');
    await page.keyboard.press('Shift+Tab');
    await page.locator('#tree-filter:focus').waitFor();
  });

  test('a narrow page shows one pane at a time, and nothing exceeds its width', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'A fairly long answer, '.repeat(20)) });
    await runtime.session('one').ask('Hello');
    const page = await visit((await serve(runtime)).url, NARROW);
    await row(page, 'one').click();
    await page.getByRole('heading', { name: 'one' }).waitFor();
    await page.getByRole('tree').waitFor({ state: 'hidden' });
    for (const view of ['Time line', 'Request', 'Conversation']) {
      await page.getByRole('tab', { name: view }).click();
      await page.getByRole('tab', { name: view, selected: true }).waitFor();
      expect(await isWide(page)).toBe(true);
    }
    await page.getByRole('button', { name: 'Back to the sessions' }).click();
    await page.getByRole('tree').waitFor();
    await page.getByRole('heading', { name: 'one' }).waitFor({ state: 'detached' });
    await row(page, 'one').click();
    await page.goBack();
    await row(page, 'one').waitFor();
    expect(await isWide(page)).toBe(true);
  });

  test('the page says that sessions are loading, and nothing moves if reduced motion is preferred', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'Yes.') });
    await runtime.session('one').ask('Hello');
    const { url } = await serve(runtime);
    const page = await visit('about:blank');
    await page.emulateMedia({ reducedMotion: 'reduce' });
    const isToGoOn = deferred();
    await page.route(/\/sessions\?/u, async (route) => {
      await isToGoOn.promise;
      await route.continue();
    });
    await page.goto(url);
    await foot(page).getByText('Reading sessions…').waitFor();
    const animation = "getComputedStyle(document.querySelector('.ghost')).animationName";
    expect(await page.evaluate(animation)).toBe('none');
    await page.emulateMedia({ reducedMotion: 'no-preference' });
    expect(await page.evaluate(animation)).toBe('breathe');
    isToGoOn.resolve();
    await row(page, 'one').waitFor();
  });

  test('without the token the page asks for one, refuses a wrong one, and continues with the right one', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'Yes.') });
    await runtime.session('one').ask('Hello');
    const server = await serve(runtime, { token: 'open+sesame' });
    const page = await visit(server.url);
    const dialog = page.getByRole('dialog', { name: 'The server asks for a token' });
    await dialog.getByLabel('Token').fill('wrong');
    await dialog.getByRole('button', { name: 'Connect' }).click();
    await dialog.getByLabel('Token').fill('open+sesame');
    await dialog.getByRole('button', { name: 'Connect' }).click();
    await row(page, 'one').waitFor();
    await dialog.waitFor({ state: 'detached' });
    await page.reload();
    await row(page, 'one').waitFor();
    const given = await visit(`${server.url}#token=open%2Bsesame`);
    await row(given, 'one').waitFor();
    expect(given.url()).not.toContain('sesame');
  });

  test('a lost connection is shown, and the events missed meanwhile are there after it returns', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'Yes.') });
    const session = runtime.session('one');
    await session.ask('Hello');
    const server = await serveWithFaults(runtime);
    const page = await visit(server.url);
    await row(page, 'one').click();
    await page.getByRole('log').getByText('Hello').waitFor();
    await page.getByText('live').waitFor();
    server.isDown = true;
    server.breakStreams();
    await page.getByText('disconnected').waitFor();
    await session.ask('Are you there?');
    await runtime.session('two').ask('Me too');
    server.isDown = false;
    await page.getByText('live').waitFor();
    await page.getByRole('log').getByText('Are you there?').waitFor();
    expect(await page.getByRole('log').getByText('Hello').count()).toBe(1);
    expect(server.requests.some((each) => /^GET \/sessions\/one\/events after \d+$/u.test(each))).toBe(true);
    await row(page, 'two').waitFor();
  });

  test('a hidden page closes its streams, and opens them again when it is visible', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'Yes.') });
    await runtime.session('one').ask('Hello');
    const server = await serve(runtime);
    const page = await visit('about:blank');
    await page.clock.install();
    await page.goto(server.url);
    await page.getByText('live').waitFor();
    await row(page, 'one').click();
    await page.getByRole('log').getByText('Hello').waitFor();
    const setHidden = (isHidden: boolean): Promise<unknown> =>
      page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${isHidden} });
        document.dispatchEvent(new Event('visibilitychange'));`);
    await setHidden(true);
    await page.clock.fastForward(30_000);
    await eventually(async () => {
      const response = await fetch(new URL('../metrics.json', server.url));
      const { eventStreams } = (await response.json()) as { readonly eventStreams: number };
      return eventStreams === 0;
    });
    await runtime.session('one').ask('Still there?');
    await setHidden(false);
    await page.getByText('live').waitFor();
    await page.getByRole('log').getByText('Still there?').waitFor();
  });

  test('a failing server shows an error with a retry; a deleted session is shown as gone', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'Yes.') });
    await runtime.session('one').ask('Hello');
    const server = await serveWithFaults(runtime);
    server.isDown = true;
    const page = await visit(`${server.url}#/nobody/conversation`);
    await page.getByText('The sessions could not be read').waitFor();
    await page.getByText('The session could not be read').waitFor();
    server.isDown = false;
    await page.getByRole('button', { name: 'Try again' }).last().click();
    await page.getByText('There is no such session').waitFor();
    await page.getByRole('button', { name: 'Try again' }).first().click();
    await row(page, 'one').waitFor();
  });

  test('a session can be paused, resumed and interrupted, and a waiting message recalled; deleting asks first', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ provider: model.provider });
    const session = runtime.session('one');
    await session.send('Hello');
    const page = await visit((await serve(runtime)).url);
    await model.next();
    await row(page, 'one').click();
    await page.getByRole('button', { name: 'Interrupt' }).click();
    await page.getByText('Nothing waits').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    await session.send('Later');
    const waiting = page.locator('.said.is-pending', { hasText: 'Later' });
    await waiting.getByRole('button', { name: 'Recall' }).click();
    await waiting.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('button', { name: 'Pause' }).waitFor();
    await page.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('button', { name: 'Keep' }).click();
    expect(await runtime.sessions.get('one')).toBeDefined();
    await page.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('No sessions yet').waitFor();
    expect(await runtime.sessions.get('one')).toBeUndefined();
  });

  test('a refusal is shown with the text of the server', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'Yes.') });
    await runtime.session('one').ask('Hello');
    await runtime.session('one').pause();
    await runtime.session('one').send('waits');
    const page = await visit((await serve(runtime)).url);
    await row(page, 'one').click();
    await page.getByLabel('Message', { exact: true }).fill('Now or never');
    await page.getByLabel('How it meets a busy session').selectOption('reject');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.notice-fail').waitFor();
    // The draft is not lost with the refusal.
    expect(await page.getByLabel('Message', { exact: true }).inputValue()).toBe('Now or never');
  });

  test('a call that waits for a person is allowed or denied, and the result is shown', async () => {
    const shell = tool({
      name: 'bash',
      description: 'Runs a command.',
      input: z.object({ command: z.string() }),
      run: ({ command }) => `did ${command}`,
    });
    const runtime = await kit.open({
      provider: scripted([
        { toolUse: { name: 'bash', input: { command: 'ls build' } } },
        { toolUse: { name: 'bash', input: { command: 'rm -r build' } } },
        'It stays.',
      ]),
      agents: [agent({ name: 'a', tools: [shell], approve: ['bash'] })],
    });
    await runtime.session('one').send('Clean up.');
    const page = await visit((await serve(runtime)).url);
    await row(page, 'one').getByText('asks').waitFor();
    await row(page, 'one').click();
    await page.getByText('Waits for a person').waitFor();
    const calls = page.getByRole('region', { name: 'Calls that wait for you' });
    await calls.getByText('$ ls build').waitFor();
    await calls.getByRole('button', { name: 'Allow' }).click();
    await page.getByText('Allowed bash').waitFor();
    await calls.getByText('$ rm -r build').waitFor();
    expect(await calls.getByRole('button', { name: 'Allow' }).count()).toBe(1);
    await calls.getByRole('button', { name: 'Deny' }).click();
    await page.getByText('Denied bash').waitFor();
    await calls.waitFor({ state: 'detached' });
    await page.getByRole('log').getByText('It stays.').waitFor();
    await row(page, 'one').getByText('idle').waitFor();
    const said = await log(runtime.session('one'));
    expect(said).toContain('tool_response:did ls build');
    expect(said.filter((line) => line.includes('did rm'))).toEqual([]);
    expect(said.filter((line) => line.includes('denied by a person'))).toHaveLength(1);
  });

  test('questions are answered from the page: a misfit is refused in place, a choice is one press, another is declined', async () => {
    const seat = z.object({ row: z.number().int().min(1), window: z.boolean() });
    const runtime = await kit.open({
      provider: scripted([
        { toolUse: { name: 'ask_seat', input: { question: 'Which seat?' } } },
        { toolUse: { name: 'ask_human', input: { question: 'Which meal?', choices: ['Soup', 'Fish'] } } },
        { toolUse: { name: 'ask_human', input: { question: 'Any wish?' } } },
        'Booked.',
      ]),
      agents: [agent({ name: 'a', tools: [askHuman(), askHuman({ name: 'ask_seat', answer: seat })] })],
    });
    await runtime.session('one').send('Book the flight.');
    const page = await visit((await serve(runtime)).url, NARROW);
    const queue = page.getByRole('region', { name: 'Waiting for a person' });
    await queue.getByText('Which seat?').waitFor();
    const seatField = queue.getByRole('textbox', { name: 'Answer to ask_seat of one', exact: true });
    expect(JSON.parse(await seatField.inputValue())).toEqual({ row: 1, window: false });
    expect(await queue.getByLabel('Schema of the answer to ask_seat of one').inputValue()).toContain('"minimum": 1');
    await seatField.fill('row 7');
    await queue.getByRole('button', { name: 'Answer ask_seat of one' }).click();
    await queue.getByRole('alert').getByText('This is not JSON').waitFor();
    await seatField.fill('{ "row": 0, "window": true }');
    await page.keyboard.press('Control+Enter');
    await queue.getByRole('alert').getByText('$.row').waitFor();
    expect(await seatField.inputValue()).toBe('{ "row": 0, "window": true }');
    expect(await isWide(page)).toBe(true);
    await seatField.fill('{ "row": 7, "window": true }');
    await page.keyboard.press('Control+Enter');
    await page.getByText('Answered ask_seat').waitFor();

    await page.setViewportSize(WIDE);
    await row(page, 'one').getByText('question').waitFor();
    await row(page, 'one').click();
    await page.getByText('Waits for an answer').waitFor();
    const calls = page.getByRole('region', { name: 'Calls that wait for you' });
    await calls.getByText('Which meal?').waitFor();
    await calls.getByRole('button', { name: 'Fish', exact: true }).focus();
    await page.keyboard.press('Enter');
    await calls.getByText('Any wish?').waitFor();
    await calls.getByRole('button', { name: 'Decline ask_human of one' }).click();
    await calls.waitFor({ state: 'detached' });
    await page.getByRole('log').getByText('Booked.').waitFor();
    const said = await log(runtime.session('one'));
    expect(said.filter((line) => line.startsWith('tool_response:')).slice(0, 2)).toEqual([
      'tool_response:{"row":7,"window":true}',
      'tool_response:Fish',
    ]);
    await page.getByRole('tab', { name: 'Time line' }).click();
    await page.getByText('ask_seat').first().waitFor();
  });

  test('a run that reached its step limit is shown as such, and can be resumed by hand', async () => {
    const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' });
    const runtime = await kit.open({
      provider: scripted([{ toolUse: { name: 'look', input: {} } }, 'All is well.']),
      agents: [agent({ name: 'a', tools: [look], maxSteps: 1 })],
    });
    await expect(runtime.session('one').ask('Look.')).rejects.toThrow('step limit');
    const page = await visit((await serve(runtime)).url);
    await row(page, 'one').click();
    await page.getByText('Suspended: max_steps').waitFor();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('log').getByText('All is well.').waitFor();
    await page.getByRole('button', { name: 'Pause' }).waitFor();
  });

  test('a call that was decided elsewhere is not shown as decided here', async () => {
    const shell = tool({
      name: 'bash',
      description: 'Runs a command.',
      input: z.object({ command: z.string() }),
      run: () => 'done',
    });
    const model = gatedModel();
    const runtime = await kit.open({
      provider: model.provider,
      agents: [agent({ name: 'a', tools: [shell], approve: ['bash'] })],
    });
    const session = runtime.session('one');
    await session.send('Clean up.');
    (await model.next()).answer({ toolUse: { name: 'bash', input: { command: 'rm -r build' } } });
    const page = await visit((await serve(runtime)).url);
    await row(page, 'one').click();
    const deny = page.getByRole('button', { name: 'Deny' });
    await deny.waitFor();
    const isToGoOn = deferred();
    const isAsked = deferred();
    await page.route(/\/approve$/u, async (route) => {
      isAsked.resolve();
      await isToGoOn.promise;
      await route.continue();
    });
    await deny.click();
    await isAsked.promise;
    const [call] = (await session.messages()).filter(({ type }) => type === 'tool_call');
    expect(await session.approve(call?.toolUseId ?? '', { allow: true })).toBe(true);
    isToGoOn.resolve();
    await page.locator('.notice-fail', { hasText: 'bash was decided elsewhere' }).waitFor();
    (await model.next()).answer('Done.');
  });

  test('rules that a request breaks are listed, and a store that refuses writes is announced', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'Yes.') });
    await runtime.session('one').ask('Hello');
    const violations = [{ rule: 'R01', path: 'messages.3', message: 'a call without its result', fatal: true }];
    const server = await serveWithFaults(runtime, (path) => {
      if (path === '/metrics.json') return { ...runtime.metrics(), degraded: 'no space left' };
      return path === '/sessions/one/request' ? { model: 'm', messages: [], violations } : undefined;
    });
    const page = await visit(`${server.url}#/one/request`);
    await page.getByText('Would be refused').waitFor();
    await page.getByText('a call without its result').waitFor();
    await page.getByRole('alert').getByText('no space left').waitFor();
  });

  test('a provider that refuses the credentials is named below the head line', async () => {
    const one = scripted(() => 'Yes.');
    const runtime = await kit.open({ providers: { one, two: one } });
    const stopped = { ...runtime.metrics().providers['two'], credentialsRefused: 1 };
    const server = await serveWithFaults(runtime, (path) => {
      if (path !== '/metrics.json') return undefined;
      const metrics = runtime.metrics();
      return { ...metrics, providers: { ...metrics.providers, two: stopped } };
    });
    const page = await visit(server.url);
    await page.getByRole('alert').getByText('two refused the credentials').waitFor();
  });

  test('the theme follows the system until it is chosen, and the choice is kept', async () => {
    const runtime = await kit.open({ provider: scripted(() => 'Yes.') });
    const page = await visit((await serve(runtime)).url);
    const paper = (): Promise<unknown> => page.evaluate('getComputedStyle(document.body).backgroundColor');
    await page.emulateMedia({ colorScheme: 'light' });
    const light = await paper();
    await page.emulateMedia({ colorScheme: 'dark' });
    const dark = await paper();
    expect(dark).not.toBe(light);
    await page.keyboard.press('t');
    await page.getByRole('button', { name: 'Light' }).waitFor();
    expect(await paper()).toBe(light);
    await page.reload();
    await page.getByRole('button', { name: 'Light' }).waitFor();
    expect(await paper()).toBe(light);
    await page.emulateMedia({ colorScheme: 'light' });
    await page.keyboard.press('t');
    await page.getByRole('button', { name: 'Dark' }).waitFor();
    expect(await paper()).toBe(dark);
  });
});
