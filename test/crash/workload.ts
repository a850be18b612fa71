/**
 * The victim's process. It reads its plan as one line, so that it can start and load its modules before it is needed.
 * SIGTERM closes the runtime and exits with 0; a second SIGTERM exits at once, as in a service.
 */
import { createInterface } from 'node:readline';
import { say } from './actions.ts';
import { CUT_SHORT_CODE, type Plan } from './protocol.ts';
import { Victim } from './victim.ts';

say({ type: 'ready' });
for await (const line of createInterface({ input: process.stdin })) {
  const victim = new Victim(JSON.parse(line) as Plan);
  let isTold = false;
  process.on('SIGTERM', () => {
    if (isTold) process.exit(CUT_SHORT_CODE);
    isTold = true;
    void victim.close().then(() => process.exit(0));
  });
  await victim.run();
  process.exit(0);
}
