/** Subpath `troupe/actors`: who acts, for those who replace or study it. */
export { AgentCatalog, type AgentDefinition, type AgentPlan, type SessionAgent } from './agent-catalog.ts';
export { type ChildSpec, childSpec, SUPERVISOR_DEFAULTS, type SupervisorOptions } from './child-spec.ts';
export { FamilySupervisor } from './family-supervisor.ts';
export { ModelCaller } from './model-caller.ts';
export { SessionActor } from './session-actor.ts';
export { decideSupervision, type SupervisionDecision, supervisorState } from './supervisor.ts';
export { ToolRunner } from './tool-runner.ts';
export { runTreeTurn } from './tree-turn.ts';
