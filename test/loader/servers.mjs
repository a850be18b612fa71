/**
 * Global set-up of a test run: the directory of its PostgreSQL servers, which tests start when they need one
 * (`test/postgres/support/server.ts`). A test process may be ended without a chance to end its server, so the servers
 * that are left are ended here.
 */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let directory;

export function setup() {
  // Each project of a run calls this function; one directory serves all.
  if (process.env['TROUPE_POSTGRES'] !== undefined) return;
  directory = mkdtempSync(join(tmpdir(), 'troupe-pg-'));
  // The server runs as another user where the tests run as root.
  chmodSync(directory, 0o755);
  process.env['TROUPE_POSTGRES'] = directory;
}

export function teardown() {
  if (directory === undefined) return;
  for (const name of readdirSync(directory)) end(join(directory, name, 'data', 'postmaster.pid'));
  rmSync(directory, { recursive: true, force: true });
  directory = undefined;
}

function end(pidFile) {
  let pid;
  try {
    [pid] = readFileSync(pidFile, 'utf8').split('\n');
    process.kill(-Number(pid), 'SIGKILL');
  } catch {
    // The server has ended.
  }
}
