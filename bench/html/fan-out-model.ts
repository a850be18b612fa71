/** The model of the drawn fan-out: the model of the benchmarks, with a latency. */
import { setTimeout as delay } from 'node:timers/promises';
import type { ModelProvider } from '../../src/models/provider.ts';
import { answerTo } from '../systems/model.ts';
import { latencyOf, MODEL_MS } from './fan-out-latency.ts';

let calls = 0;

const provider: ModelProvider = {
  name: 'bench-with-latency',
  async generate(request) {
    calls += 1;
    await delay(latencyOf(calls, MODEL_MS));
    return answerTo(request);
  },
};

// biome-ignore lint/style/noDefaultExport: the provider port asks a module for its default export
export default provider;
