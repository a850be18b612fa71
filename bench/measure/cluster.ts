/**
 * A cluster: W2 and W1 on LMDB alone, on a log in PostgreSQL, and on one whose requests take 2 ms longer. The three are
 * open in one process and take turns. The server is that of the tests, with synced commits.
 */
import { join } from 'node:path';
import { postgres } from '../../src/postgres/index.ts';
import { newSchema, query, startServer, type TestServer } from '../../test/postgres/support/server.ts';
import { NO_CLUSTER, type RunContext, SLOW_CLUSTER } from '../names.ts';
import type { Figures, Row } from '../report/figures.ts';
import { FULL_SIZE, manySessions, oneSession, QUICK_SIZE, type WorkSize } from '../shared-work.ts';
import { startStage } from '../stage.ts';
import { isolationOf, withDirectory } from '../systems/open-system.ts';
import { HALF_STEPS_A_TURN } from '../systems/system.ts';
import { openTroupe, type TroupeOptions, type TroupeSystem } from '../systems/troupe-system.ts';
import { warmUp } from '../warm-up.ts';
import { measureOnce } from './repeat.ts';

const REPETITIONS: Readonly<Record<RunContext['scale'], number>> = { quick: 2, full: 5, long: 20 };
const SLOW_MS = 2;

/** A system with its log, if it has one outside. */
interface Member {
  readonly variant: string;
  readonly system: TroupeSystem;
  readonly schema: string | undefined;
  readonly repetitions: Figures[];
}

/**
 * Figures of each: those of W2; `turns` and `turnP50` of W1; `commits`, entries of the log for each turn of W1; and
 * `logBytes`, bytes of the log for each half-step of W2.
 */
export function measureCluster(context: RunContext): Promise<readonly Row[]> {
  const size = context.scale === 'quick' ? QUICK_SIZE : FULL_SIZE;
  return withDirectory(async (directory) => {
    const server = await startServer({ isSynced: true });
    const line = startStage('./systems/slow-line', [server.socket, String(SLOW_MS)]);
    try {
      const slowUrl = `postgres://troupe@127.0.0.1:${Number(await line.line())}/postgres`;
      const open = async (variant: string, url?: string): Promise<Member> => {
        const schema = url === undefined ? undefined : newSchema();
        const options: TroupeOptions = {
          isolation: isolationOf(context),
          ...(url === undefined || schema === undefined ? {} : { cluster: postgres({ url, schema }) }),
        };
        return { variant, system: await openTroupe(join(directory, variant), options), schema, repetitions: [] };
      };
      const members = [await open(NO_CLUSTER), await open('PostgreSQL', server.url), await open(SLOW_CLUSTER, slowUrl)];
      for (const { system } of members) await warmUp(context, system);
      for (let index = 0; index < REPETITIONS[context.scale]; index += 1) {
        for (const member of members) member.repetitions.push(await measureMember(member, server, { size, index }));
      }
      for (const { system } of members) await system.close();
      return members.map(({ variant, repetitions }) => ({ variant, repetitions }));
    } finally {
      line.process.stdin?.end();
      await line.ended();
      await server.stop();
    }
  });
}

async function measureMember(
  { system, schema }: Member,
  server: TestServer,
  { size, index }: { readonly size: WorkSize; readonly index: number },
): Promise<Figures> {
  const before = await sizeOfLog(server, schema);
  const many = await measureOnce(`many${index}-`, (repetition) => manySessions(system, size, repetition));
  const between = await sizeOfLog(server, schema);
  const one = await measureOnce(`one${index}-`, (repetition) => oneSession(system, size, repetition));
  const after = await sizeOfLog(server, schema);
  const { rate: turns = 0, p50: turnP50 = 0 } = one;
  if (schema === undefined) return { ...many, turns, turnP50 };
  const halfSteps = size.sessions * size.turnsEach * HALF_STEPS_A_TURN;
  return {
    ...many,
    turns,
    turnP50,
    commits: (after.entries - between.entries) / size.turns,
    logBytes: (between.bytes - before.bytes) / halfSteps,
  };
}

async function sizeOfLog(
  { url }: TestServer,
  schema: string | undefined,
): Promise<{ readonly entries: number; readonly bytes: number }> {
  if (schema === undefined) return { entries: 0, bytes: 0 };
  const [row] = await query(
    url,
    `SELECT count(*) AS entries, coalesce(sum(octet_length(bytes)), 0) AS bytes FROM "${schema}".troupe_log`,
  );
  return { entries: Number(row?.['entries']), bytes: Number(row?.['bytes']) };
}
