/**
 * Goal: with many sessions on one MCP server that is killed again and again, every call is answered, no `once` call
 * takes effect twice, and no process is left. Method: a small flood of `mcp.ts`; started by hand, the flood is larger.
 */
import { expect, test } from 'vitest';
import { floodMcp } from './mcp.ts';

test.each(['stdio', 'http'] as const)('calls over %s while the server is killed', async (transport) => {
  const report = await floodMcp({ transport, sessions: 20, calls: 12, kills: 3 });
  expect(report).toMatchObject({ kills: 3, processes: 4, left: 0, failed: [], unanswered: 0, repeated: 0, lost: 0 });
  expect(report.done + report.unknown).toBe(20 * 12);
});
