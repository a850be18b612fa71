/** Random histories as requests have them, with blocks of several models. Legal by construction. */
import fc from 'fast-check';
import type { BlockOrigin, ContentBlock, ResultBlock, ToolUseBlock } from '../../../src/base/messages.ts';
import type { RequestMessage } from '../../../src/models/provider.ts';
import { PICTURE } from './samples.ts';

/** The model whose blocks are its own. */
export const OWN: BlockOrigin = { provider: 'vendor.responses', model: 'm-1' };
/** Models whose blocks are not: another provider, another model of the same provider. */
export const OTHERS: readonly BlockOrigin[] = [
  { provider: 'other.chat', model: 'm-1' },
  { provider: 'vendor.responses', model: 'm-2' },
];

const text = fc.string({ minLength: 1, maxLength: 12 }).filter((value) => value.trim() !== '');
const metadata = fc.dictionary(
  fc.constantFrom('vendor', 'openai', 'google'),
  fc.dictionary(fc.constantFrom('itemId', 'thoughtSignature', 'phase'), fc.string({ maxLength: 8 }), { minKeys: 1 }),
  { minKeys: 1, maxKeys: 2 },
);

/** An origin of one of these models, with metadata or without. */
function originOf(models: readonly BlockOrigin[], always: boolean): fc.Arbitrary<BlockOrigin | undefined> {
  const origin = fc
    .tuple(fc.constantFrom(...models), fc.option(metadata, { nil: undefined }))
    .map(([model, given]) => (given === undefined ? model : { ...model, metadata: given }));
  // A text or a call has an origin only for its metadata.
  return always ? origin : origin.map((each) => (each.metadata === undefined ? undefined : each));
}

/** A block of an answer of one of these models. */
function answerBlock(models: readonly BlockOrigin[]): fc.Arbitrary<ContentBlock> {
  const marked = <T extends object>(block: T, origin: BlockOrigin | undefined): ContentBlock =>
    (origin === undefined ? block : { ...block, origin }) as unknown as ContentBlock;
  return fc.oneof(
    {
      weight: 3,
      arbitrary: fc
        .tuple(text, originOf(models, false))
        .map(([value, origin]) => marked({ type: 'text', text: value }, origin)),
    },
    {
      weight: 3,
      arbitrary: fc
        .tuple(fc.string({ minLength: 1, maxLength: 8 }), originOf(models, true))
        .map(([thinking, origin]) => marked({ type: 'thinking', thinking, signature: '' }, origin)),
    },
    {
      weight: 1,
      arbitrary: originOf(models, true).map((origin) =>
        marked({ type: 'provider_part', part: { type: 'file', mediaType: 'image/png', data: 'aGk=' } }, origin),
      ),
    },
  );
}

/** Blocks of Claude that no other model gets. */
const claudeBlock: fc.Arbitrary<ContentBlock> = fc.oneof(
  fc.constant<ContentBlock>({ type: 'thinking', thinking: 'hm', signature: 'signed' }),
  fc.constant<ContentBlock>({ type: 'redacted_thinking', data: 'secret' }),
);

const resultBlock: fc.Arbitrary<ResultBlock> = fc.oneof(
  text.map((value): ResultBlock => ({ type: 'text', text: value })),
  fc.constant<ResultBlock>(PICTURE),
  fc.constant<ResultBlock>({ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }),
  fc.constant<ResultBlock>({ type: 'image', source: { type: 'file', file_id: 'file_1' } }),
  fc.constant<ResultBlock>({
    type: 'document',
    source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0xLjQK' },
    title: 'paper.pdf',
  }),
  fc.constant<ResultBlock>({
    type: 'document',
    source: { type: 'text', media_type: 'text/plain', data: 'Plain.' },
    title: 'T',
  }),
  fc.constant<ResultBlock>({
    type: 'search_result',
    source: 'https://example.com',
    title: 'Found',
    content: [{ type: 'text', text: 'It.' }],
  }),
);

const result = fc.oneof(text, fc.array(resultBlock, { minLength: 1, maxLength: 3 }));

interface Round {
  readonly asks: string | readonly ContentBlock[];
  readonly steps: readonly { readonly blocks: readonly ContentBlock[]; readonly calls: readonly Call[] }[];
  readonly says: readonly ContentBlock[];
}

interface Call {
  readonly input: Record<string, unknown>;
  readonly result: string | readonly ResultBlock[];
  readonly isError: boolean;
  readonly origin: BlockOrigin | undefined;
  readonly isLong: boolean;
}

/** Histories that end with a message of the user. `models`: the models other than Claude that have blocks in it. */
export function histories(models: readonly BlockOrigin[]): fc.Arbitrary<readonly RequestMessage[]> {
  const block = fc.oneof({ weight: 3, arbitrary: answerBlock(models) }, { weight: 1, arbitrary: claudeBlock });
  const call: fc.Arbitrary<Call> = fc.record({
    input: fc
      .dictionary(fc.constantFrom('a', 'b'), fc.oneof(fc.integer(), fc.string({ maxLength: 5 })), { maxKeys: 2 })
      .map((input) => ({ ...input })),
    result,
    isError: fc.boolean(),
    origin: originOf(models, false),
    isLong: fc.boolean(),
  });
  const round: fc.Arbitrary<Round> = fc.record({
    asks: fc.oneof(text, fc.array(resultBlock, { minLength: 1, maxLength: 2 })),
    steps: fc.array(
      fc.record({ blocks: fc.array(block, { maxLength: 3 }), calls: fc.array(call, { minLength: 1, maxLength: 3 }) }),
      { maxLength: 2 },
    ),
    says: fc.array(block, { maxLength: 3 }),
  });
  return fc.tuple(fc.array(round, { maxLength: 3 }), text).map(([rounds, last]) => messagesOf(rounds, last));
}

function messagesOf(rounds: readonly Round[], last: string): readonly RequestMessage[] {
  const messages: RequestMessage[] = [];
  let count = 0;
  for (const { asks, steps, says } of rounds) {
    messages.push({ role: 'user', content: asks });
    for (const { blocks, calls } of steps) {
      const uses = calls.map(({ input, origin, isLong }): ToolUseBlock => {
        count += 1;
        const id = `${isLong ? 'long'.repeat(20) : 'call'}_${count}`;
        const named = origin === undefined ? undefined : { ...origin, id: `own_${count}` };
        return { type: 'tool_use', id, name: 'add', input, ...(named === undefined ? {} : { origin: named }) };
      });
      messages.push({ role: 'assistant', content: [...blocks, ...uses] });
      messages.push({
        role: 'user',
        content: calls.map(
          (call, index): ContentBlock => ({
            type: 'tool_result',
            tool_use_id: uses[index]?.id ?? '',
            content: call.result,
            ...(call.isError ? { is_error: true } : {}),
          }),
        ),
      });
    }
    if (says.length > 0) messages.push({ role: 'assistant', content: says });
  }
  messages.push({ role: 'user', content: last });
  return messages;
}
