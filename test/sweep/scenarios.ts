/** All scenarios of the sweep. */
import type { Scenario } from './scenario.ts';
import { FAMILIES } from './scenarios/families.ts';
import { MODELS } from './scenarios/models.ts';
import { REMOVALS } from './scenarios/removals.ts';
import { STORES } from './scenarios/stores.ts';
import { TOOLS } from './scenarios/tools.ts';
import { TURNS } from './scenarios/turns.ts';

/** All scenarios; their names differ. */
export const SCENARIOS: readonly Scenario[] = [...TURNS, ...TOOLS, ...MODELS, ...FAMILIES, ...STORES, ...REMOVALS];
