/** Rules for the client's own tools in a request: R29 to R33. Pure. */
import { isToolName } from '../../base/ids.ts';
import { isRecord } from '../../base/json.ts';
import type { Report, RequestView } from './report.ts';
import { schemaFault } from './schema.ts';

const NAME_CHARACTERS_MAX = 128;
const PROPERTY_KEY = /^[a-zA-Z0-9_.-]{1,64}$/;
const COMBINATORS = ['oneOf', 'allOf', 'anyOf'] as const;

/** Reports R29 to R33. */
export function checkTools(view: RequestView, report: Report): void {
  const names = new Set<string>();
  for (const { tool, index } of view.tools) {
    const path = `tools.${index}.custom`;
    const name = tool['name'];
    // A tool that the API defines has a dated type. The API defines its name and schema too, so they are not checked.
    const isOwn = tool['type'] === undefined || tool['type'] === 'custom';
    if (isOwn) {
      checkName(name, path, report);
      checkSchema(tool['input_schema'], `${path}.input_schema`, report);
    }
    if (typeof name !== 'string') continue;
    if (names.has(name)) report('R30', 'tools', 'tools: Tool names must be unique.');
    names.add(name);
  }
}

/** Reports R29, and R39 for a missing name. */
function checkName(name: unknown, path: string, report: Report): void {
  if (typeof name !== 'string') {
    report('R39', `${path}.name`, `${path}.name: Field required`, true);
    return;
  }
  if (isToolName(name)) return;
  const what =
    name.length > NAME_CHARACTERS_MAX
      ? `String should have at most ${NAME_CHARACTERS_MAX} characters`
      : "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'";
  report('R29', `${path}.name`, `${path}.name: ${what}`);
}

/** Reports R31, R32 and R33. */
function checkSchema(schema: unknown, path: string, report: Report): void {
  if (!isRecord(schema)) {
    report('R31', path, `${path}: Field required`);
    return;
  }
  const combinator = COMBINATORS.find((key) => Object.hasOwn(schema, key));
  if (combinator !== undefined) {
    const text = 'input_schema does not support oneOf, allOf, or anyOf at the top level';
    report('R32', path, `${path}: ${text}`);
    return;
  }
  if (schema['type'] !== 'object') {
    report('R31', `${path}.type`, `${path}.type: Input should be 'object'`);
    return;
  }
  const properties = schema['properties'];
  const badKey = isRecord(properties) ? Object.keys(properties).find((key) => !PROPERTY_KEY.test(key)) : undefined;
  if (badKey !== undefined) {
    const text = `Property keys should match pattern '${PROPERTY_KEY.source}'`;
    report('R33', `${path}.properties`, `${path}.properties: ${text}`);
  }
  const fault = schemaFault(schema);
  if (fault !== undefined) {
    const text = `JSON schema is invalid. It must match JSON Schema draft 2020-12 (${fault})`;
    report('R31', path, `${path}: ${text}`);
  }
}
