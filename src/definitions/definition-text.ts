/**
 * Parses and checks the text of a definition file: a skill, a workflow or a specialist (contract §1.7). A file has
 * front matter, which is a YAML mapping between two lines of three hyphens, and a text below it. This module is
 * imported only when it is needed, because the YAML parser takes as long to load as the database.
 */
import { parse } from 'yaml';
import { z } from 'zod';
import { DEFINITION_DESCRIPTION_CHARACTERS_MAX, DEFINITION_TOOLS_MAX } from '../base/bounds.ts';
import { isAgentName } from '../base/ids.ts';
import { isRecord } from '../base/json.ts';
import type { Definition } from './definition.ts';

/** A specialist: an agent that a file defines. Other agents may spawn it by its name. */
export interface SpecialistDefinition {
  readonly name: string;
  readonly description: string;
  /** Tool names in lower case, each once; an empty list means no tools. */
  readonly tools: readonly string[];
  readonly prompt: string;
  readonly model?: string;
  readonly color?: string;
  /** The maximum number of model calls in one turn. */
  readonly maxTurns?: number;
}

/** Names of skills and workflows. */
const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/u;

const description = z.string().trim().min(1).max(DEFINITION_DESCRIPTION_CHARACTERS_MAX);
const definitionSchema = z.looseObject({
  name: z.string().regex(NAME, 'must be lower-case letters, digits, hyphens or underscores, at most 64'),
  description,
});
const toolsSchema = z
  .union([z.string().transform((list) => list.split(',')), z.array(z.string())])
  .transform((names) => [...new Set(names.map((name) => name.trim().toLowerCase()).filter((name) => name !== ''))])
  .refine((names) => names.length <= DEFINITION_TOOLS_MAX, `must name at most ${DEFINITION_TOOLS_MAX} tools`);
const specialistSchema = z.looseObject({
  name: z.string().refine(isAgentName, 'must be letters, digits, dots, hyphens or underscores, at most 64'),
  description,
  tools: toolsSchema.nullish(),
  model: z.string().min(1).nullish(),
  color: z.string().nullish(),
  maxTurns: z.number().int().positive().nullish(),
});

/** Parses a skill or workflow. Throws an Error that describes the fault. */
export function parseDefinition(text: string): Definition {
  const { data, body } = parseFrontMatter(text);
  const { name, description: about } = checked(definitionSchema, data);
  if (body === '') throw new Error('it has no text below its front matter');
  return { name, description: about, content: body };
}

/** Parses a specialist. Throws an Error that describes the fault. */
export function parseSpecialist(text: string): SpecialistDefinition {
  const { data, body } = parseFrontMatter(text);
  const { name, description: about, tools, model, color, maxTurns } = checked(specialistSchema, data);
  if (body === '') throw new Error('it has no prompt below its front matter');
  return {
    name,
    description: about,
    tools: tools ?? [],
    prompt: body,
    ...(model == null ? {} : { model }),
    ...(color == null ? {} : { color }),
    ...(maxTurns == null ? {} : { maxTurns }),
  };
}

function checked<T>(schema: z.ZodType<T>, data: unknown): T {
  const result = schema.safeParse(data);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw new Error(`${issue?.path.map(String).join('.') || 'front matter'}: ${issue?.message ?? 'invalid'}`);
}

/** The parsed front matter, and the text below it. */
interface FrontMatter {
  readonly data: Readonly<Record<string, unknown>>;
  /** The text below the front matter, without white space at both ends. */
  readonly body: string;
}

const FENCE = /^---[ \t]*$/u;

/** Splits the text of a file. Throws an Error that names the missing part, or the error of the YAML parser. */
function parseFrontMatter(text: string): FrontMatter {
  const lines = text.replace(/^\u{feff}/u, '').split(/\r?\n/u);
  if (!FENCE.test(lines[0] ?? '')) throw new Error('it does not begin with front matter (a line of three hyphens)');
  const end = lines.findIndex((line, index) => index > 0 && FENCE.test(line));
  if (end === -1) throw new Error('its front matter does not end (a line of three hyphens)');
  // The core schema creates plain data only. Aliases are off, because with them a few lines could become a value of
  // gigabytes.
  const data: unknown = parse(lines.slice(1, end).join('\n'), {
    schema: 'core',
    maxAliasCount: 0,
    logLevel: 'error',
    prettyErrors: false,
  });
  if (!isRecord(data)) throw new Error('its front matter is not a mapping');
  return {
    data,
    body: lines
      .slice(end + 1)
      .join('\n')
      .trim(),
  };
}
