/** The refusal of a skill or workflow that does not exist. Apart from the definitions, since reading those needs YAML. */
import { ConfigError, describeValue } from '../base/errors.ts';
import { namesHint } from '../base/near-names.ts';
import type { DefinitionSource } from './definition.ts';

/** The error about a skill or workflow that does not exist. `source`: undefined if no directories were given. */
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
