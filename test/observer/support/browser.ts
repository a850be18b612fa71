/**
 * A headless Chromium, if the machine has one, and the page built as it is shipped. Without one the tests that need it
 * are skipped, and a line says so.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser, BrowserType } from 'playwright-core';

const PLACES: readonly string[] = [
  process.env['TROUPE_CHROMIUM'] ?? '',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/** The path of a Chromium on this machine; undefined, with a line on stderr, when there is none. */
export function findChromium(): string | undefined {
  const found = PLACES.find((place) => place !== '' && existsSync(place));
  if (found === undefined) {
    process.stderr.write(
      'observer page: no Chromium found, its tests in a browser are skipped (TROUPE_CHROMIUM names one)\n',
    );
  }
  return found;
}

/** A browser; the caller closes it. */
export async function launch(executablePath: string): Promise<Browser> {
  const { chromium }: { readonly chromium: BrowserType } = await import('playwright-core');
  return await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/** The page, built into a separate directory. Throws with the bundler's message. */
export async function buildPage(): Promise<{ readonly directory: string; remove(): Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-observer-'));
  const script = fileURLToPath(new URL('../../../scripts/build-observer.mjs', import.meta.url));
  const result = spawnSync(process.execPath, [script, directory], { encoding: 'utf8' });
  if (result.status !== 0) throw new Error(`the page was not built: ${result.stdout}${result.stderr}`);
  return { directory, remove: () => rm(directory, { recursive: true, force: true }) };
}
