/** A thousand sub-agents, one for each topic, with a line of progress; what each found is counted as it comes. */
import { agent, anthropic, open } from 'troupe';
import { scripted } from 'troupe/testing';

const count = Number(process.argv[2] ?? 1_000);
const hasKey = process.env['ANTHROPIC_API_KEY'] !== undefined;
const provider = hasKey ? anthropic() : scripted({ rules: [], otherwise: 'Found something.' });
await using runtime = await open(':memory:', {
  provider,
  // The others wait in order.
  agents: [agent({ name: 'researcher', system: 'Answer in one sentence.', subagents: { maxActive: 200 } })],
  limits: { children: count, spawnsWaiting: count },
});

const topics = Array.from({ length: count }, (_, index) => ({
  task: `What is notable about the number ${index + 1}?`,
  key: `number-${index + 1}`, // started again, the program joins the same children
  replies: 'handle' as const,
}));
const started = performance.now();
const family = await runtime.session('research').spawnAll(topics);
let done = 0;
for await (const { reason } of family) {
  if (reason === 'completed') done += 1;
  const { modelCallsRunning } = runtime.metrics();
  if (process.stderr.isTTY) {
    process.stderr.write(`\r${done} of ${count} done, ${modelCallsRunning} calling   `);
  }
}
process.stderr.write(process.stderr.isTTY ? '\n' : '');
console.log(`${done} of ${count} sub-agents answered`);
console.error(`${Math.round(performance.now() - started)} ms`);
