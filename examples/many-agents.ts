/** A thousand sub-agents, one for each topic, with a line of progress; what each found is counted as it comes. */
import { agent, anthropic, open } from 'troupe';
import { scripted } from 'troupe/testing';

const count = Number(process.argv[2] ?? 1_000);
const hasKey = process.env['ANTHROPIC_API_KEY'] !== undefined;
const provider = hasKey ? anthropic() : scripted({ rules: [], otherwise: 'Found something.' });
await using runtime = await open(':memory:', {
  provider,
  agents: [agent({ name: 'researcher', system: 'Answer in one sentence.' })],
  limits: { children: count, liveSessions: 200 }, // the others wait their turn
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
  const { modelCallsRunning, sessionsQueued } = runtime.metrics();
  if (process.stderr.isTTY) {
    process.stderr.write(`\r${done} of ${count} done, ${modelCallsRunning} calling, ${sessionsQueued} queued   `);
  }
}
process.stderr.write(process.stderr.isTTY ? '\n' : '');
console.log(`${done} of ${count} sub-agents answered`);
console.error(`${Math.round(performance.now() - started)} ms`);
