/**
 * Tools that let a model ask a person, or let a sub-agent ask its parent. A call waits until it is answered, even
 * across restarts, and the answer is its result. The runtime implements these tools, so no thread runs them.
 */
import { z } from 'zod';
import { ANSWER_SCHEMA_BYTES_MAX } from '../../base/bounds.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { AnswerForm } from '../../session/state/answer-form.ts';
import type { Asked } from '../../session/state/boundary.ts';
import { formOfSchema, objectSchemaOf } from '../input-schema.ts';
import type { JsonSchema, StandardSchema } from '../tool.ts';
import { describeTool } from '../tool-schema.ts';
import { type RuntimeTool, runtimeTool } from './runtime-tool-names.ts';

const ASKS: unique symbol = Symbol('troupe.ask-tool');

/** Options of `askHuman` and `askParent`. */
export interface AskOptions {
  /** Default `ask_human` or `ask_parent`. If one agent has several such tools, each needs another name. */
  readonly name?: string;
  /** For the model: when to ask. */
  readonly description?: string;
  /** The form of the answer: a Standard Schema of an object that has a JSON Schema, or a JSON Schema; default: text. */
  readonly answer?: StandardSchema | JsonSchema;
}

/** A tool whose calls are questions. */
export interface AskTool extends RuntimeTool {
  readonly [ASKS]: AskPlan;
}

/** A tool whose calls are questions, as plain data. */
export interface AskPlan {
  readonly name: string;
  readonly description: string;
  readonly asked: Asked;
  /** The form of the answer; missing: it is text. */
  readonly form?: AnswerForm;
}

/** The plan of a tool of this file; undefined for every other tool. */
export function askPlanOf(value: unknown): AskPlan | undefined {
  return typeof value === 'object' && value !== null && ASKS in value ? (value as AskTool)[ASKS] : undefined;
}

const optionsSchema = z.strictObject({
  name: z.string().optional(),
  description: z.string().optional(),
  answer: z.unknown().optional(),
});

/**
 * A tool that lets the model ask a person. `session.answer(callId, value)` answers, `session.decline(callId)` declines
 * (`question.asked` announces the call). Throws `ConfigError` for a bad option.
 */
export function askHuman(options: AskOptions = {}): AskTool {
  return askTool('human', 'ask_human', 'Ask your human, and wait for the answer.', options);
}

/**
 * A tool that lets a sub-agent ask its parent. A sub-agent whose agent lists the tool always has the tool, even if the
 * sub-agent's tools are restricted. Sessions without a parent do not have it. The parent's model answers with `@name`;
 * with `replies: 'handle'` the program answers with `child.answer(callId, value)`. Throws `ConfigError` for a bad
 * option.
 */
export function askParent(options: AskOptions = {}): AskTool {
  return askTool('parent', 'ask_parent', 'Ask the agent that gave you your task, and wait for the answer.', options);
}

function askTool(asked: Asked, ownName: string, ownDescription: string, options: AskOptions): AskTool {
  const member = asked === 'human' ? 'askHuman' : 'askParent';
  const { name = ownName, description = ownDescription, answer } = parseOption(optionsSchema, member, options);
  const tool = runtimeTool(name, description);
  describeTool(tool);
  const form = answer === undefined ? undefined : formOf(answer, `option ${JSON.stringify(`${member}.answer`)}`);
  return { ...tool, [ASKS]: { name, description, asked, ...(form === undefined ? {} : { form }) } };
}

/**
 * The form of the answer. No provider constrains a model's output to this schema, so the schema may have everything
 * that the schema of a tool's input may have.
 */
function formOf(answer: unknown, label: string): AnswerForm {
  return formOfSchema(objectSchemaOf(answer, label, 'output', ANSWER_SCHEMA_BYTES_MAX));
}
