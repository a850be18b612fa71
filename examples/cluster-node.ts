/**
 * A node of a cluster on PostgreSQL: `node cluster-node.ts NAME DIRECTORY [PORT]`. All nodes have the same DATABASE_URL and
 * CLUSTER_SECRET. Each one answers for every session, over HTTP and on the observer page. The model is scripted, and takes
 * as long as a short call. `npm run cluster` in a clone runs three nodes and kills the one that owns the sessions.
 */
import { agent, open } from 'troupe';
import { postgres } from 'troupe/postgres';
import { serve } from 'troupe/server';
import { scripted } from 'troupe/testing';

const [node = 'a', directory = `./node-${node}`, port = '0'] = process.argv.slice(2);
const { DATABASE_URL: url = 'postgres://localhost/agents', CLUSTER_SECRET: secret = '' } = process.env;
const runtime = await open(directory, {
  provider: scripted({
    rules: [{ when: { text: 'Read chapter' }, reply: { text: 'A summary of it.', delayMs: 150 } }],
    otherwise: { text: 'Noted.', delayMs: 150 },
  }),
  agents: [agent({ name: 'editor', subagents: { maxActive: 16 } })],
  cluster: postgres({ url, node, leaseMs: 2_000, listen: { host: '127.0.0.1', port: 0 }, secret }),
});
// Only this machine reaches the loopback address; any other address needs a token.
const server = await serve(runtime, { port: Number(port) });
console.log(`${node} is ${runtime.cluster?.status().state} at ${server.url}`);

process.once('SIGTERM', () => {
  runtime.close({ deadlineMs: 2_000 }).catch((error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  });
});
// After a fail-over the former owner, if it is still there, ends with the reason `moved`. Start it again then.
const { reason } = await runtime.closed;
await server.close();
if (reason !== 'closed') process.exitCode = 1;
