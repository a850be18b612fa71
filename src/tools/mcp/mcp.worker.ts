/** Entry of the MCP thread: serves the connections to MCP servers behind an endpoint. See `thread-connections.ts`. */
import { CancelledError } from '../../base/errors.ts';
import { serveThread } from '../../threads/thread.ts';
import { loadService } from './load-service.ts';
import type { McpConnections, McpServerMap } from './protocol.ts';
import type { McpThreadCall, McpThreadData, McpThreadNotes } from './thread-protocol.ts';

const { endpoint, data } = serveThread({});
const notify = <N extends keyof McpThreadNotes>(note: N, payload: McpThreadNotes[N]): void =>
  endpoint.notify(note, payload);
const calls = new Map<number, AbortController>();
let loading: Promise<McpConnections> | undefined;
const service = (): Promise<McpConnections> => {
  loading ??= loadService(
    {
      tools: (list) => notify('mcp.tools', list),
      lost: (server, why) => notify('mcp.lost', { server, why }),
      warn: (message) => notify('mcp.warn', { message }),
    },
    (data as McpThreadData).version,
  );
  return loading;
};

endpoint.handle('configure', async (servers) => (await service()).configure(servers as McpServerMap));
endpoint.handle('call', async (payload) => {
  const { id, ...call } = payload as McpThreadCall;
  const controller = new AbortController();
  calls.set(id, controller);
  try {
    const progress = (progressed: unknown): void => notify('mcp.progress', { id, data: progressed });
    return await (await service()).call(call, { signal: controller.signal, progress });
  } finally {
    calls.delete(id);
  }
});
endpoint.handle('cancel', (payload) => {
  const { id, reason } = payload as { readonly id: number; readonly reason: string };
  calls.get(id)?.abort(new CancelledError(reason));
});
endpoint.handle('close', async () => (await service()).close());
