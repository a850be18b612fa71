/** Sub-agents: spawning, births, messages between child and parent, the end of a child (contract §7). Pure. */

import { defined } from '../../base/defined.ts';
import { ConfigError, type ErrorShape, InvalidNameError, KeyReusedError, LimitError } from '../../base/errors.ts';
import { checkNickname, SESSION_ID_CHARACTERS_MAX } from '../../base/ids.ts';
import { namesHint } from '../../base/near-names.ts';
import { budgetError, childBudget } from '../rules/budget.ts';
import { childPrompt, spawnConfirmation } from '../rules/child-texts.ts';
import { isOpenChild, mustQueue } from '../state/child-link.ts';
import { type Decision, NOTHING, refuse, WAKE } from '../state/decision.ts';
import type { ChildSeed, Effect, Environment, Input, SpawnRequest } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { answerForEnded, childOfCall, spawnAnswer } from './naming.ts';
import { answerOfParent } from './questions.ts';
import { exitDecision } from './supervision.ts';

/** Characters reserved for the `:<n>` that a child's id adds to the parent's id. */
const CHILD_SUFFIX_CHARACTERS = 8;

/**
 * Spawns a child. The parent's link to the child and the child's first record are one batch (A6). A model's call gets
 * the reply as its result; a program gets the reply by an effect. A refusal creates nothing. Spawning again with the
 * same key returns the existing child, which continues its task if the request says so.
 */
export function decideSpawn(state: SessionState, request: SpawnRequest, environment: Environment): Decision {
  const known = request.key === undefined ? undefined : state.childKeys.get(request.key);
  if (known !== undefined) {
    if (known.fingerprint !== (request.fingerprint ?? '')) {
      return refuse(
        new KeyReusedError(`spawn key ${JSON.stringify(request.key)} was used for another task`, {
          data: { key: request.key },
        }),
      );
    }
    const { child } = known;
    const name = state.children.get(child)?.name ?? '';
    const effects: Effect[] = [{ type: 'spawned', child, name, duplicate: true }];
    if (request.continues === true) effects.push({ type: 'sendToChild', child, input: { type: 'continue' } });
    return { records: [], effects };
  }
  const { callId } = request;
  if (callId !== undefined && !state.openCalls.has(callId)) {
    return { records: [], effects: [{ type: 'stale', what: 'spawn call' }] };
  }
  const spawned = callId === undefined ? undefined : childOfCall(state, callId);
  if (spawned !== undefined) {
    // The call is repeated after a crash, and its child exists already. If an enricher names sub-agents, the call's
    // result waits for the name.
    const answer = environment.agent.enrichers?.melete === undefined ? spawnAnswer(state, spawned) : undefined;
    return answer === undefined ? NOTHING : { records: [], effects: [answer] };
  }
  const grants = grantsOf(state, request, environment);
  const problem = spawnProblem(state, request, environment) ?? ('error' in grants ? grants.error : undefined);
  if (problem !== undefined) return answerOrRefuse(callId, problem);
  const naming = nameOf(state, request);
  if ('error' in naming) return answerOrRefuse(callId, new InvalidNameError(naming.error));
  const granted = 'error' in grants ? undefined : grants.granted;
  const unnamed = request.name === undefined && environment.agent.enrichers?.melete !== undefined;
  const child = childId(state, environment);
  return spawn(state, {
    request,
    name: naming.name,
    child,
    granted,
    unnamed,
    queued: mustQueue(state, environment.agent.maxActiveChildren),
  });
}

/** The next free id `<parent>:<n>`. An embedder may have used some of these ids for other sessions. */
function childId(state: SessionState, environment: Environment): string {
  let number = state.nextChild;
  while (environment.exists(`${state.id}:${number}`)) number += 1;
  return `${state.id}:${number}`;
}

function spawn(
  state: SessionState,
  spec: {
    readonly request: SpawnRequest;
    readonly name: string;
    readonly child: string;
    readonly granted: readonly string[] | undefined;
    /**
     * True if the child may get another name before its first half-step. The result of the spawn call waits for that
     * name.
     */
    readonly unnamed: boolean;
    /** True if the child is queued. */
    readonly queued: boolean;
  },
): Decision {
  const { request, name, child, granted, unnamed, queued } = spec;
  const { callId, key, fingerprint, replies } = request;
  const budget = childBudget(state, request);
  const kind = request.specialist === true ? 'Specialist' : 'Sub-agent';
  const seed: ChildSeed = {
    id: child,
    parent: state.id,
    agent: request.agent ?? state.agent ?? '',
    depth: state.depth + 1,
    name,
    prompt: childPrompt(name),
    replies,
    task: request.task,
    ...(granted === undefined ? {} : { grants: granted }),
    ...(callId === undefined ? {} : { callId }),
    ...(unnamed ? { unnamed } : {}),
    ...(queued ? { queued } : {}),
    ...(budget === undefined ? {} : { budget }),
    ...(request.output === undefined ? {} : { output: request.output }),
  };
  const record: SessionRecord = {
    type: 'spawned',
    child,
    name,
    replies,
    ...(callId === undefined ? {} : { spawnCallId: callId }),
    ...(unnamed && request.specialist === true ? { specialist: true } : {}),
    ...(key === undefined ? {} : { key, fingerprint: fingerprint ?? '' }),
    ...(request.budget === undefined ? {} : { budget: request.budget }),
    ...(queued ? { queued } : {}),
  };
  const effects: Effect[] = [{ type: 'born', seed }];
  if (callId === undefined) {
    effects.push({ type: 'spawned', child, name, duplicate: false });
  } else if (!unnamed) {
    const content = spawnConfirmation(kind, name, child, queued);
    effects.push({ type: 'again', input: { type: 'toolFinished', callId, content, success: true } });
  }
  return { records: [record], effects };
}

/**
 * A child's grants: the requested tools that the parent itself may use (F77). Names are compared without regard to
 * case, and each tool is granted once (§7.2). `granted` undefined: all tools of the child's agent.
 */
function grantsOf(
  state: SessionState,
  request: SpawnRequest,
  environment: Environment,
): { readonly granted: readonly string[] | undefined } | { readonly error: ConfigError } {
  if (request.tools === undefined) return { granted: state.grants };
  const byLowerCase = new Map<string, string>();
  for (const name of environment.toolNamesOf(request.agent ?? state.agent ?? '') ?? []) {
    byLowerCase.set(name.toLowerCase(), name);
  }
  const granted = new Set<string>();
  for (const wanted of request.tools) {
    const name = byLowerCase.get(wanted.toLowerCase());
    if (name === undefined) {
      const hint = namesHint(wanted, byLowerCase.values(), 'tools');
      return { error: new ConfigError(`Unknown tool: ${wanted}${hint}`, { data: { key: 'tools' } }) };
    }
    if (state.grants === undefined || state.grants.includes(name)) granted.add(name);
  }
  return { granted: [...granted] };
}

function spawnProblem(
  state: SessionState,
  request: SpawnRequest,
  environment: Environment,
): ConfigError | LimitError | undefined {
  const { limits, agent } = environment;
  if (request.task.trim() === '') return new ConfigError('Task cannot be blank', { data: { key: 'task' } });
  if (request.agent !== undefined && environment.toolNamesOf(request.agent) === undefined) {
    const hint = namesHint(request.agent, environment.agentNames(), 'agents');
    return new ConfigError(`Unknown agent: ${request.agent}${hint}`, { code: 'unknown_agent', data: { key: 'agent' } });
  }
  const idLength = state.id.length + CHILD_SUFFIX_CHARACTERS;
  if (idLength > SESSION_ID_CHARACTERS_MAX) {
    return new LimitError(
      `The id of this session is too long to name children under it (${state.id.length} characters)`,
      {
        data: { limit: 'id', value: state.id.length },
      },
    );
  }
  if (state.depth >= limits.depth) {
    return new LimitError(`Sub-agents may not spawn here: depth ${state.depth} of ${limits.depth} (limits.depth)`, {
      data: { limit: 'depth', value: state.depth },
    });
  }
  if (state.children.size >= limits.children) {
    return new LimitError(`Too many sub-agents: ${limits.children} spawned (limits.children)`, {
      data: { limit: 'children' },
    });
  }
  const waiting = state.childQueue.size;
  if (mustQueue(state, environment.agent.maxActiveChildren) && waiting >= limits.spawnsWaiting) {
    return new LimitError(
      `Too many sub-agents: ${state.childrenAtWork} work (subagents.maxActive is ${agent.maxActiveChildren}) and ${waiting} wait (limits.spawnsWaiting). Wait for one to finish.`,
      { data: { limit: 'spawnsWaiting', value: waiting } },
    );
  }
  // A used-up budget refuses a model's call at once. A program's child is spawned and then fails with the error, so
  // that the other items of the same `spawnAll` are not refused.
  return state.budget === undefined || request.callId === undefined ? undefined : budgetError(state, environment);
}

/** The requested nickname, or `agent-N`; unique among the siblings (§7.5, Δ29). */
function nameOf(state: SessionState, request: SpawnRequest): { readonly name: string } | { readonly error: string } {
  const taken = state.childNames;
  if (request.name !== undefined) return checkNickname(request.name, taken);
  let number = state.children.size + 1;
  while (taken.has(`agent-${number}`)) number += 1;
  return { name: `agent-${number}` };
}

function answerOrRefuse(callId: string | undefined, error: ConfigError | LimitError | InvalidNameError): Decision {
  if (callId === undefined) return refuse(error);
  const content = JSON.stringify({ error: error.message });
  return {
    records: [],
    effects: [{ type: 'again', input: { type: 'toolFinished', callId, content, success: false } }],
  };
}

/**
 * A child's first transition (§7.3, Δ28). The log has the task once, as the child's first message. The accepted
 * entry stands for that message and starts the first turn.
 */
export function decideBirth(state: SessionState, seed: ChildSeed, environment: Environment): Decision {
  if (state.agent !== undefined) throw new Error(`session ${seed.id} exists already`);
  return {
    records: [
      {
        type: 'created',
        agent: seed.agent,
        ...defined({ version: environment.versionOf(seed.agent) }),
        depth: seed.depth,
        parent: seed.parent,
        name: seed.name,
        prompt: seed.prompt,
        replies: seed.replies,
        task: seed.task,
        ...(seed.grants === undefined ? {} : { grants: seed.grants }),
        ...(seed.callId === undefined ? {} : { spawnCallId: seed.callId }),
        ...(seed.unnamed === undefined ? {} : { unnamed: seed.unnamed }),
        ...(seed.queued === undefined ? {} : { queued: seed.queued }),
        ...(seed.budget === undefined ? {} : { budget: seed.budget }),
        ...(seed.output === undefined ? {} : { output: seed.output }),
      },
      { type: 'accepted', id: 1, entry: { type: 'user_message', content: seed.task, seed: 1 } },
    ],
    effects: [WAKE],
  };
}

/**
 * `mark_goal_completed` (§7.8): completes the goal, reports the result to the parent and closes the round without a
 * model call.
 */
export function decideMarkGoal(state: SessionState, input: Extract<Input, { type: 'markGoal' }>): Decision {
  const { callId } = input;
  if (!state.openCalls.has(callId)) return { records: [], effects: [{ type: 'stale', what: 'mark call' }] };
  if (input.result.trim() === '') return answerOrRefuse(callId, new ConfigError('Result cannot be blank'));
  if (state.goal === undefined || state.goal.completed) {
    return answerOrRefuse(callId, new ConfigError('No active goal found'));
  }
  const exit = exitDecision(state, { reason: 'completed', reply: input.result });
  return {
    records: [{ type: 'goalCompleted', result: input.result }, ...exit.records],
    effects: [
      { type: 'sendToParent', input: { type: 'subagentSaid', child: state.id, content: input.result } },
      ...exit.effects,
      {
        type: 'again',
        input: {
          type: 'toolFinished',
          callId,
          content: 'Goal completed. Your result was delivered; there is nothing more to do.',
          success: true,
        },
      },
    ],
  };
}

/** A child's text enters the parent's mailbox unchanged. The entry's source names the child (F71). */
export function decideSubagentSaid(state: SessionState, input: Extract<Input, { type: 'subagentSaid' }>): Decision {
  const child = state.children.get(input.child);
  if (child === undefined || child.replies === 'handle') return NOTHING;
  return {
    records: [
      {
        type: 'accepted',
        id: state.nextPendingId,
        entry: { type: 'subagent', content: input.content, source: { type: 'subagent', name: child.name } },
      },
    ],
    effects: [WAKE],
  };
}

/** Handles a child's end in its parent. The children that have been queued the longest may start, in the same batch. */
export function decideChildExit(
  state: SessionState,
  input: Extract<Input, { type: 'childExited' }>,
  environment: Environment,
): Decision {
  const child = state.children.get(input.child);
  if (child === undefined || !isOpenChild(child)) return NOTHING;
  const error: { readonly error?: ErrorShape } = input.error === undefined ? {} : { error: input.error };
  const records: SessionRecord[] = [{ type: 'childExited', child: input.child, reason: input.reason, ...error }];
  const effects: Effect[] = [...answerForEnded(state, child)];
  const atWork = state.childrenAtWork - (child.queued === true ? 0 : 1);
  let places = environment.agent.maxActiveChildren - atWork;
  for (const next of state.childQueue) {
    if (places <= 0) break;
    if (next === child.id) continue;
    records.push({ type: 'childStarted', child: next });
    effects.push({ type: 'sendToChild', child: next, input: { type: 'start' } });
    places -= 1;
  }
  return { records, effects };
}

/**
 * The parent addressed this child by `@name` (§7.6). The text answers the child's waiting question, or is a message.
 */
export function decideParentSaid(state: SessionState, content: string, environment: Environment): Decision {
  const answer = answerOfParent(state, content, environment);
  if (answer !== undefined) return answer;
  return {
    records: [
      {
        type: 'accepted',
        id: state.nextPendingId,
        entry: { type: 'user_message', content: `[from parent]: ${content}` },
      },
    ],
    effects: [WAKE],
  };
}
