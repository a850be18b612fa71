/**
 * `decide` determines what happens. It reads a state and an input, and returns records (facts to remember) and effects
 * (work to do). It changes nothing, waits for nothing, and knows only the time it is given.
 *
 * Each input is decided separately. If an input leads to another input of the same session, the decision has an `again`
 * effect, and `turn.ts` runs both in one batch. So the order that the contract requires (first release the half-step,
 * then look for waiting work) is visible as data.
 */

import { decideBudget, decideChildSpent, decideJoinBudget } from '../rules/budget.ts';
import { decideHeal } from '../rules/healing.ts';
import { type Decision, NOTHING, WAKE } from '../state/decision.ts';
import type { Environment, Input } from '../state/inputs.ts';
import type { RecordOf } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { decideActivation } from './activation.ts';
import { decideAnswer, decideLostAnswer, decideModelFailure, decideRetryDue } from './answer.ts';
import { decideApproval, decideApprovalsExpired } from './approval.ts';
import {
  decideBirth,
  decideChildExit,
  decideMarkGoal,
  decideParentSaid,
  decideSpawn,
  decideSubagentSaid,
} from './children.ts';
import { decideCompress, decideRemoveHistory } from './compression.ts';
import { decideEdit } from './edit.ts';
import { decideRename, decideSurface } from './enricher-tools.ts';
import { decideEnriched } from './enrichment.ts';
import { decideFork, decideForked } from './fork.ts';
import { decideGoal } from './goals.ts';
import { decideClaim, decideSystem, decideSystemFailure } from './half-step.ts';
import { decideInterrupt, decidePause, decideRecall, decideResume } from './interrupt.ts';
import { decideDropLetter, decideResendLetter } from './letters.ts';
import { decideSummarised } from './memory.ts';
import { decideChildName, decideChildReady, decideNamed, decideNickname } from './naming.ts';
import { decideAsk, decideChildAsked, decideParentEnded, decideReply } from './questions.ts';
import { decideRecovery } from './recovery.ts';
import { decideChildRevived, decideContinue } from './revival.ts';
import { decideBoundary } from './run-loop.ts';
import { decideSend } from './send.ts';
import { decideEscalation, decideRestart, decideRestartLater, reportFailure } from './supervision.ts';
import { decideStartTask, decideSwitch, decideUndo } from './tasks.ts';
import { decideDispatch, decideToolFinished } from './tools.ts';
import { decideVerdict } from './verdict.ts';
import { decideUpgraded } from './versions/upgrade.ts';

/** Decides one input. A refused input gets an effect, not an exception. `decide` throws only for broken invariants. */
export function decide(state: SessionState, input: Input, environment: Environment): Decision {
  switch (input.type) {
    case 'create':
      if (state.agent !== undefined) return NOTHING;
      return { records: [createdRecord(input.agent, environment)], effects: [] };
    case 'born':
      return decideBirth(state, input.seed, environment);
    case 'send':
      return decideSend(state, input, environment);
    case 'wake':
      return decideClaim(state, environment);
    case 'answered':
      return decideAnswer(state, input, environment);
    case 'modelFailed':
      return decideModelFailure(state, input, environment);
    case 'retryDue':
      return decideRetryDue(state, input);
    case 'dispatch':
      return decideDispatch(state, input, environment);
    case 'toolFinished':
      return decideToolFinished(state, input, environment);
    case 'systemEvaluated':
      return decideSystem(state, input);
    case 'systemFailed':
      return decideSystemFailure(state, input, environment);
    case 'interrupt':
      return decideInterrupt(state, input.reason, environment);
    case 'recall':
      return decideRecall(state, input.pendingId);
    case 'resendLetter':
      return decideResendLetter(state, input, environment);
    case 'dropLetter':
      return decideDropLetter(state, input.letter);
    case 'removeHistory':
      return decideRemoveHistory(state, input);
    case 'spawn':
      return decideSpawn(state, input.request, environment);
    case 'markGoal':
      return decideMarkGoal(state, input);
    case 'subagentSaid':
      return decideSubagentSaid(state, input);
    case 'childSpent':
      return decideChildSpent(state, input.tokens);
    case 'setBudget':
      return decideBudget(state, input.tokens, environment);
    case 'joinBudget':
      return decideJoinBudget(state);
    case 'childExited':
      return decideChildExit(state, input, environment);
    case 'start':
      return state.queued ? { records: [{ type: 'started' }], effects: [WAKE] } : NOTHING;
    case 'continue':
      return decideContinue(state);
    case 'childRevived':
      return decideChildRevived(state, input.child, environment);
    case 'fail':
      return reportFailure(state, input.error, input.reports);
    case 'restart':
      return decideRestart(state, input.reason, environment);
    case 'restartLater':
      return decideRestartLater(input, environment);
    case 'restartDue':
      if (state.restartAt === undefined) return { records: [], effects: [{ type: 'stale', what: 'restart' }] };
      return { records: [], effects: [{ type: 'restartDue' }] };
    case 'escalated':
      return decideEscalation(state, input, environment);
    case 'parentSaid':
      return decideParentSaid(state, input.content, environment);
    case 'goal':
      return decideGoal(state, input.change, environment);
    case 'activate':
      return decideActivation(state, input, environment);
    case 'surface':
      return decideSurface(state, input, environment);
    case 'rename':
      return decideRename(state, input.name);
    case 'nickname':
      return decideNickname(state, input.nickname);
    case 'nameChild':
      return decideChildName(state, input);
    case 'nicknamed':
      return decideNamed(input.name);
    case 'childReady':
      return decideChildReady(state, input.child);
    case 'enriched':
      return decideEnriched(state, input, environment);
    case 'pause':
      return decidePause(state);
    case 'resume':
      return decideResume(state, input, environment);
    case 'boundary':
      return decideBoundary(state, environment);
    case 'verdict':
      return decideVerdict(state, input, environment);
    case 'approve':
      return decideApproval(state, input, environment);
    case 'ask':
      return decideAsk(state, input);
    case 'answer':
      return decideReply(state, input, environment);
    case 'childAsked':
      return decideChildAsked(state, input);
    case 'parentEnded':
      return decideParentEnded(state);
    case 'approvalsExpired':
      return decideApprovalsExpired(state, environment);
    case 'upgraded':
      return decideUpgraded(state, input, environment);
    case 'recover':
      return decideRecovery(state, environment);
    case 'answerLost':
      return decideLostAnswer(input, environment);
    case 'startTask':
      return decideStartTask(state, input.title);
    case 'undo':
      return decideUndo(state);
    case 'switchTask':
      return decideSwitch(state, input.id);
    case 'fork':
      return decideFork(state, input, environment);
    case 'forked':
      return decideForked(state, input.record);
    case 'heal':
      return decideHeal(state, input, environment);
    case 'compress':
      return decideCompress(state, input, environment);
    case 'summarised':
      return decideSummarised(state, input);
    case 'edit':
      return decideEdit(state, input, environment);
  }
}

function createdRecord(agent: string, environment: Environment): RecordOf<'created'> {
  const version = environment.versionOf(agent);
  return { type: 'created', agent, ...(version === undefined ? {} : { version }), depth: 0 };
}
