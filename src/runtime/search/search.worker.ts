/** Entry of the search thread: serves the index of all messages behind an endpoint. */
import { SealedSegmentStore } from '../../search/sealed-segment-store.ts';
import { DirectorySegmentStore } from '../../search/segment-store.ts';
import { serveThread } from '../../threads/thread.ts';
import type { SearchThreadData } from './client.ts';
import type { AskShard } from './reader.ts';
import { type SearchRequest, SearchService } from './service.ts';

const { endpoint, data } = serveThread({});
const { directory, shards, key } = data as SearchThreadData;
const segments = new DirectorySegmentStore(directory);
const ask: AskShard = (shard, method, request) =>
  // The host forwards the shard's answer; see `search/client.ts`.
  endpoint.call('ask', { shard, method, request }) as ReturnType<AskShard> as never;
const service = new SearchService({
  segments: key === undefined ? segments : new SealedSegmentStore(segments, key),
  shards,
  ask,
  here: () => endpoint.call('here', undefined) as Promise<ReadonlySet<number>>,
  wait: (ms) =>
    new Promise((resolve) => {
      setTimeout(resolve, ms).unref();
    }),
});
endpoint.handle('search', (request) => service.search(request as SearchRequest));
endpoint.handle('forget', (sessions) => service.forget(sessions as readonly string[]));
endpoint.handle('erase', (sessions) => service.erase(sessions as readonly string[]));
endpoint.handle('statistics', () => {
  const { heapUsed, external } = process.memoryUsage();
  return { ...service.statistics(), threadBytes: heapUsed + external };
});
endpoint.handle('close', () => service.close());
