/** Subpath `troupe/actors`: the actors, for code that replaces or studies them. */
export { AgentCatalog, type SessionAgent } from './agent-catalog.ts';
export type { AgentDefinition, AgentPlan } from './agent-plan.ts';
export { ModelCaller } from './model-caller.ts';
export { SessionActor } from './session-actor.ts';
export { FamilySupervisor } from './supervision/family-supervisor.ts';
export { decideSupervision, type SupervisionDecision, supervisorState } from './supervision/supervisor.ts';
export {
  type ChildSpec,
  childSpec,
  SUPERVISOR_DEFAULTS,
  type SupervisorOptions,
} from './supervision/supervisor-options.ts';
export { runTreeTransition } from './supervision/tree-transition.ts';
export { ToolRunner } from './tool-runner.ts';
