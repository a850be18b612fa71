/**
 * Mneme: summarises messages that are about to leave a session's window, and later several such summaries (contract
 * §6.5, §6.5b). A summary is a task for the `EnricherLoop`. It reaches the session as one input at the end of the run.
 * Messages that Mneme pins to goals are pinned at once.
 */
import { z } from 'zod';
import { BYTES_PER_TOKEN, SNAPSHOT_CHARACTERS_MAX } from '../../src/base/bounds.ts';
import { ContentError, type ErrorShape, errorShape, LimitError } from '../../src/base/errors.ts';
import { isRecord } from '../../src/base/json.ts';
import type { Usage } from '../../src/base/messages.ts';
import { bookOf, goalsOf } from '../../src/session/rules/goals.ts';
import { uncovered } from '../../src/session/rules/memory.ts';
import type { Input } from '../../src/session/state/inputs.ts';
import type { SummaryRun } from '../../src/session/state/memory.ts';
import { type EnricherTask, type EnricherTool, enricherTool } from './enricher-loop.ts';
import type { EnricherStage } from './enricher-stage.ts';
import { SNAPSHOTS_SYSTEM, snapshotsText, ZONE_SYSTEM, zoneText } from './mneme-prompt.ts';

const SECOND_MS = 1_000;

/** The input that a session receives at the end of a summary. */
export type SummaryInput = Extract<Input, { type: 'summarised' }>;

/** The writing of one summary, until its session receives the outcome. */
export class SummaryWriter {
  readonly #stage: EnricherStage;
  readonly #run: number;
  readonly #texts: string[] = [];
  #isOk = false;

  constructor(stage: EnricherStage, run: number) {
    this.#stage = stage;
    this.#run = run;
  }

  /** The task of the run. Throws an Error if the session no longer asks for this summary. */
  task(): EnricherTask {
    const { actor, agent, settings } = this.#stage;
    const summary = actor.state.memory?.summarising;
    const model = agent.facts.enrichers?.mneme?.model;
    if (model === undefined || summary?.run !== this.#run) throw new Error(`no summary ${this.#run} is asked for`);
    return {
      session: actor.id,
      enricher: 'mneme',
      model,
      maxTokens: settings.mneme.maxTokens,
      timeoutMs: settings.timeouts.api * SECOND_MS,
      ...(summary.level === 1 ? this.#overMessages(summary) : this.#overSnapshots(summary)),
    };
  }

  /**
   * The input that the session receives when the run ends. A run fails if it neither saves a snapshot nor says that
   * there is nothing to remember (Δ24).
   */
  ended(outcome: { readonly usage: Usage; readonly error?: ErrorShape }): SummaryInput {
    const { usage } = outcome;
    const run = this.#run;
    const text = this.#texts.join('\n\n');
    if (text !== '') return { type: 'summarised', run, text, usage };
    if (this.#isOk) return { type: 'summarised', run, usage };
    const silent = new ContentError('neither was a snapshot saved nor was there said to be nothing to remember');
    return { type: 'summarised', run, error: outcome.error ?? errorShape(silent), usage };
  }

  #overMessages(summary: SummaryRun): Pick<EnricherTask, 'system' | 'text' | 'tools'> {
    const { state } = this.#stage.actor;
    const count = summary.leaving?.count ?? 0;
    const messages = state.messages.filter((message) => message.prompt !== true);
    const { pins } = bookOf(state);
    return {
      system: ZONE_SYSTEM,
      text: zoneText({ zone: messages.slice(0, count), context: messages.slice(count), goals: goalsOf(state), pins }),
      tools: [this.#saveSnapshot(), this.#attachMessages(), this.#everythingOk()],
    };
  }

  #overSnapshots({ from, to }: SummaryRun): Pick<EnricherTask, 'system' | 'text' | 'tools'> {
    const snapshots = uncovered(this.#stage.actor.state.memory?.snapshots ?? []);
    return {
      system: SNAPSHOTS_SYSTEM,
      text: snapshotsText(snapshots.filter((each) => each.from >= from && each.to <= to)),
      tools: [this.#saveSnapshot(), this.#everythingOk()],
    };
  }

  /** The tool that saves a snapshot (a summary). The texts of several calls are joined to one snapshot. */
  #saveSnapshot(): EnricherTool {
    const charactersMax = Math.min(this.#stage.settings.mneme.maxTokens * BYTES_PER_TOKEN, SNAPSHOT_CHARACTERS_MAX);
    return enricherTool({
      name: 'save_snapshot',
      description: 'Save a summary. Called again, it is added to.',
      input: z.object({ text: z.string().max(charactersMax).describe('The summary.') }),
      run: ({ text }) => {
        const part = text.trim();
        if (part === '') throw new ContentError('The text of a snapshot cannot be blank');
        if ([...this.#texts, part].join('\n\n').length > SNAPSHOT_CHARACTERS_MAX) {
          throw new LimitError(`A snapshot has at most ${SNAPSHOT_CHARACTERS_MAX} characters`, {
            data: { limit: 'snapshotCharacters', value: part.length },
          });
        }
        this.#texts.push(part);
        return 'Saved.';
      },
    });
  }

  #attachMessages(): EnricherTool {
    const ids = z.array(z.number().int().positive());
    return enricherTool({
      name: 'attach_messages_to_goals',
      description:
        'Pin messages, by their numbers, to active goals, by their ids: shown word for word while a goal is active.',
      input: z.object({ message_ids: ids, goal_ids: ids }),
      run: async ({ message_ids: messages, goal_ids: goals }) => {
        const done = await this.#stage.act({ type: 'goal', change: { action: 'attach', messages, goals } });
        const links = isRecord(done) ? Number(done['links']) : 0;
        return `Pinned ${links} message-goal links`;
      },
    });
  }

  #everythingOk(): EnricherTool {
    return enricherTool({
      name: 'everything_ok',
      description: 'Say that there is nothing to remember.',
      input: z.object({}),
      run: () => {
        this.#isOk = true;
        return 'Nothing is saved.';
      },
    });
  }
}
