/** A person decides: the calls of one tool wait, over restarts too, until somebody allows or denies them. */
import { agent, anthropic, open, tool } from 'troupe';
import { scripted } from 'troupe/testing';
import { z } from 'zod';

const refund = tool({
  name: 'refund',
  description: 'Pays money back to a customer.',
  input: z.object({ customer: z.string(), euros: z.number().positive() }),
  effect: 'keyed',
  run: ({ customer, euros }, { key }) => `paid ${euros} euros to ${customer} (${key === '' ? 'no key' : 'keyed'})`,
});

const script = {
  rules: [{ when: { result: true }, reply: 'Done: {{result}}' }],
  otherwise: {
    toolUse: [
      { name: 'refund', input: { customer: 'Ada', euros: 20 } },
      { name: 'refund', input: { customer: 'Bob', euros: 2_000 } },
    ],
  },
};
const provider = process.env['ANTHROPIC_API_KEY'] === undefined ? scripted(script) : anthropic();
await using runtime = await open(':memory:', {
  provider,
  agents: [agent({ name: 'clerk', tools: [refund], approve: ['refund'] })],
});

const session = runtime.session('shop');
const receipt = await session.send('Refund Ada 20 euros and Bob 2000 euros.');
for await (const event of session.events({ until: receipt })) {
  if (event.type !== 'approval.required') continue;
  const { customer, euros } = event.input as { readonly customer: string; readonly euros: number };
  // Here a person would be asked; this one allows what is small.
  const allow = euros <= 100;
  console.log(`${customer}, ${euros} euros: ${allow ? 'allowed' : 'denied'}`);
  await session.approve(event.toolUseId, allow ? { allow } : { allow, reason: 'too much for a clerk' });
}
console.log(await receipt.answer());
