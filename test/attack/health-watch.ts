/**
 * Requests health checks from a separate thread, so that the measured wait is caused by the server and not by the
 * attacker.
 */
import { Agent, request } from 'node:http';
import { parentPort, workerData } from 'node:worker_threads';

const EVERY_MS = 50;
const { url } = workerData as { readonly url: string };
let healthAsked = 0;
let healthFailed = 0;
let healthWorstMs = 0;
let isOver = false;

function probe(): Promise<number> {
  return new Promise((resolve) => {
    const asked = request(`${url}/healthz`, { localAddress: '127.0.1.1', agent: new Agent() }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode ?? 0));
    });
    asked.on('error', () => resolve(0));
    asked.end();
  });
}

parentPort?.once('message', () => {
  isOver = true;
});
while (!isOver) {
  const startedAt = performance.now();
  const status = await probe();
  healthAsked += 1;
  if (status !== 200) healthFailed += 1;
  healthWorstMs = Math.max(healthWorstMs, performance.now() - startedAt);
  await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
}
parentPort?.postMessage({ healthAsked, healthFailed, healthWorstMs });
