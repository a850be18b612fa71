/**
 * The planted bugs: mistakes a programmer might make in this code, all of which the simulator must find. Data only;
 * `register.mjs` puts one of them in place while its file is loaded.
 */
import { answerBugs } from './answer-bugs.ts';
import { auditBugs } from './audit-bugs.ts';
import { backupBugs } from './backup-bugs.ts';
import { clusterBugs } from './cluster-bugs.ts';
import { draftBugs } from './draft-bugs.ts';
import { encryptionBugs } from './encryption-bugs.ts';
import { enricherBugs } from './enricher-bugs.ts';
import { erasureBugs } from './erasure-bugs.ts';
import { eventAndPoolBugs } from './event-and-pool-bugs.ts';
import { handOverBugs } from './hand-over-bugs.ts';
import { historyBugs } from './history-bugs.ts';
import { layoutBugs } from './layout-bugs.ts';
import { modelBugs } from './model-bugs.ts';
import type { PlantedBug } from './planted-bug.ts';
import { questionBugs } from './question-bugs.ts';
import { redactionBugs } from './redaction-bugs.ts';
import { requestBugs } from './request-bugs.ts';
import { sessionBugs } from './session-bugs.ts';
import { storeBugs } from './store-bugs.ts';
import { tenantBugs } from './tenant-bugs.ts';
import { versionBugs } from './version-bugs.ts';
import { webhookBugs } from './webhook-bugs.ts';

/** All planted bugs, in the order of the report. */
export const plantedBugs: readonly PlantedBug[] = [
  ...storeBugs,
  ...clusterBugs,
  ...encryptionBugs,
  ...redactionBugs,
  ...erasureBugs,
  ...auditBugs,
  ...backupBugs,
  ...handOverBugs,
  ...draftBugs,
  ...layoutBugs,
  ...sessionBugs,
  ...eventAndPoolBugs,
  ...historyBugs,
  ...enricherBugs,
  ...requestBugs,
  ...answerBugs,
  ...questionBugs,
  ...modelBugs,
  ...webhookBugs,
  ...versionBugs,
  ...tenantBugs,
];

/** The bug of this name. Throws an `Error` when there is none. */
export function bugNamed(name: string): PlantedBug {
  const bug = plantedBugs.find((each) => each.name === name);
  if (bug === undefined) throw new Error(`no planted bug is named ${JSON.stringify(name)}`);
  return bug;
}
