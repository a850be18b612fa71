/** Samples that the tests of `troupe/ai-model` share. */

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ImageBlock } from '../../../src/base/messages.ts';
import type { LanguageModel } from '../../../src/models/ai-model/index.ts';
import type { WireFake } from '../../../src/testing/index.ts';

type Fetch = WireFake['fetch'];

/** Makes the language model of a name. */
type MakeModel = (fetch: Fetch, name: string) => LanguageModel;

/** The vendors' packages. */
export interface Vendors {
  readonly openAi: MakeModel;
  readonly gemini: MakeModel;
  readonly compatible: MakeModel;
}

/**
 * The packages of the AI SDK in this project, which have models of V3. With `TROUPE_AI_SDK=<folder>` those that are
 * installed in that folder: packages with models of V4 need Node 22.
 */
export async function vendors(): Promise<Vendors> {
  const [openai, google, local] = await Promise.all([
    load<typeof import('@ai-sdk/openai')>('@ai-sdk/openai'),
    load<typeof import('@ai-sdk/google')>('@ai-sdk/google'),
    load<typeof import('@ai-sdk/openai-compatible')>('@ai-sdk/openai-compatible'),
  ]);
  return {
    openAi: (fetch, name) => openai.createOpenAI({ apiKey: 'k', fetch })(name),
    gemini: (fetch, name) => google.createGoogleGenerativeAI({ apiKey: 'k', fetch })(name),
    compatible: (fetch, name) =>
      local.createOpenAICompatible({
        name: 'local',
        baseURL: 'http://local/v1',
        apiKey: 'k',
        includeUsage: true,
        fetch,
      })(name),
  };
}

async function load<Package>(name: string): Promise<Package> {
  const folder = process.env['TROUPE_AI_SDK'] ?? process.cwd();
  const path = createRequire(join(folder, 'package.json')).resolve(name);
  return (await import(pathToFileURL(path).href)) as Package;
}

/** A PNG of one pixel, in base64. */
export const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
export const PICTURE: ImageBlock = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } };
