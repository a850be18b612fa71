/**
 * Skills and workflows in the form that the runtime uses: plain data, found by name. `definition-text.ts` parses them.
 */
import { ConfigError, describeValue } from '../base/errors.ts';
import { namesHint } from '../base/near-names.ts';

/** A skill or a workflow: its name, its purpose, and its text. */
export interface Definition {
  readonly name: string;
  readonly description: string;
  readonly content: string;
}

/** Finds definitions by name, as of the last reading of the files. */
export interface DefinitionSource {
  skill(name: string): Definition | undefined;
  workflow(name: string): Definition | undefined;
  /** All skills, ascending by name. */
  skills(): readonly Definition[];
  workflows(): readonly Definition[];
}

/** The error about a skill or workflow that does not exist. `source`: undefined if the runtime has no definitions. */
export function unknownDefinition(
  source: DefinitionSource | undefined,
  kind: 'skill' | 'workflow',
  name: unknown,
): ConfigError {
  const kinds = `${kind}s` as const;
  const known = source?.[kinds]().map((each) => each.name) ?? [];
  const [shown, hint] = typeof name === 'string' ? [name, namesHint(name, known, kinds)] : [describeValue(name), ''];
  return new ConfigError(`Unknown ${kind}: ${shown}${hint}`, { data: { key: kind } });
}
