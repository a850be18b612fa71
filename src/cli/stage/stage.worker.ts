/**
 * The process that works on a staged review: it has the runtime, and reports over its IPC channel to the command that
 * started it. It kills itself in the middle if the order says so. See `review-process.ts`.
 *  W1 the process ends when the channel closes, so it never outlives its command;
 *  W2 the message `killing` has left the process before the process kills itself. So the command can recognise a
 *     planned kill;
 *  W3 the store is closed before the process sends `done`, `stopped` or `failed`.
 */
import { STAGE_STOP_MS, STOP_DEADLINE_MS } from '../../base/bounds.ts';
import { open } from '../../index.ts';
import { encodeError } from '../../threads/error-codec.ts';
import { UsageError } from '../command.ts';
import { commandLogger } from '../command-logger.ts';
import { reviewOptions } from '../review/agents.ts';
import { RunMeter } from '../run/figures.ts';
import type { ReviewNews } from '../run/news.ts';
import { work } from '../run/work.ts';
import { processSurroundings } from '../surroundings.ts';
import { Director } from './director.ts';
import { type Begin, orderSchema, type StageMessage } from './protocol.ts';

/** Sends a message. Resolves when the message has left the process, or when the channel is closed. */
function send(message: StageMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined || !process.connected) resolve();
    else process.send(message, undefined, undefined, () => resolve());
  });
}

function kill(): void {
  void send({ type: 'killing' }).then(() => process.kill(process.pid, 'SIGKILL'));
}

async function review(begin: Begin, stopped: Promise<'stopped'>): Promise<StageMessage> {
  const { directory, limit, id, data, startsOver, pace, kills } = begin;
  const order = { directory, model: 'scripted', limit, isStaged: true } as const;
  const meter = new RunMeter();
  const logger = commandLogger(processSurroundings());
  const runtime = await open(data, { ...reviewOptions(id, directory, 'scripted', pace), logger });
  meter.opened();
  const publish = (news: ReviewNews): void => void send({ type: 'news', news });
  let refuse: (error: unknown) => void = () => undefined;
  const refused = new Promise<never>((_, reject) => {
    refuse = reject;
  });
  const director = new Director({ runtime, id, publish, kill: kills ? kill : undefined, onFailure: refuse });
  try {
    const working = work({ order, id, startsOver }, runtime, meter, (news) => {
      publish(news);
      director.take(news);
    });
    const done = await Promise.race([stopped, working, refused]);
    return done === 'stopped' ? { type: 'stopped' } : { type: 'done', ...done };
  } finally {
    meter.stop();
    await runtime.close({ deadlineMs: STOP_DEADLINE_MS });
  }
}

async function run(begin: Begin): Promise<void> {
  let last: StageMessage;
  try {
    last = await review(begin, stopped);
  } catch (error) {
    last = { type: 'failed', error: encodeError(error), isUsage: error instanceof UsageError };
  }
  await send(last);
  if (process.connected) process.disconnect();
}

let stop = (): void => undefined;
const stopped = new Promise<'stopped'>((resolve) => {
  stop = () => resolve('stopped');
});
// A terminal sends SIGINT to this process and to the command. The command then orders this process to stop.
process.on('SIGINT', () => undefined);
process.once('disconnect', () => {
  stop();
  setTimeout(() => process.exit(1), STAGE_STOP_MS).unref();
});
process.on('message', (value: unknown) => {
  const order = orderSchema.parse(value);
  if (order.type === 'stop') stop();
  else void run(order);
});
