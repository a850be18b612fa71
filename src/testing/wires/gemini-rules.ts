/** Rules of the Gemini API for functions, schemas and the configuration of an answer: G11 to G14. Pure. */
import { isRecord } from '../../base/json.ts';
import { type Refuse, recordsOf } from './wire-fake.ts';

type Fields = Readonly<Record<string, unknown>>;

const NAME = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/u;
/** The members of `Schema`, and two more that its page does not list but that clients send. */
const SCHEMA_FIELDS: ReadonlySet<string> = new Set([
  ...['type', 'format', 'title', 'description', 'nullable', 'enum', 'maxItems', 'minItems', 'properties', 'required'],
  ...['minProperties', 'maxProperties', 'minLength', 'maxLength', 'pattern', 'example', 'anyOf', 'propertyOrdering'],
  ...['default', 'items', 'minimum', 'maximum', 'allOf', 'oneOf'],
]);
const DECLARATION_FIELDS: ReadonlySet<string> = new Set([
  ...['name', 'description', 'behavior', 'parameters', 'parametersJsonSchema', 'response', 'responseJsonSchema'],
]);
/** Levels of a schema that are checked: more than any client writes. */
const DEPTH_MAX = 64;

/** Reports G11, G12 and G13. */
export function checkDeclarations(tools: unknown, toolConfig: unknown, refuse: Refuse): void {
  const names: unknown[] = [];
  for (const [tool, place] of recordsOf(tools)) {
    for (const [declaration, index] of recordsOf(tool['functionDeclarations'])) {
      const path = `tools[${place}].functionDeclarations[${index}]`;
      const { name, parameters } = declaration;
      names.push(name);
      if (typeof name !== 'string' || !NAME.test(name)) {
        refuse(
          'G11',
          `${path}.name`,
          `* GenerateContentRequest.${path}.name: Invalid function name. Must start with a letter or an underscore.`,
        );
      }
      const unknown = Object.keys(declaration).find((field) => !DECLARATION_FIELDS.has(field));
      if (unknown !== undefined)
        refuse(
          'G12',
          path,
          `Invalid JSON payload received. Unknown name "${unknown}" at '${path}': Cannot find field.`,
        );
      checkSchema(parameters, `${path}.parameters`, 0, refuse);
    }
  }
  const config = isRecord(toolConfig) ? toolConfig['functionCallingConfig'] : undefined;
  const allowed: unknown = isRecord(config) ? config['allowedFunctionNames'] : undefined;
  if (!Array.isArray(allowed)) return;
  const missing: unknown = allowed.find((name) => !names.includes(name));
  if (missing !== undefined)
    refuse('G13', 'toolConfig', `allowed_function_names contains a function that is not declared: ${String(missing)}`);
}

/** Reports G12 and G14 for the form of an answer. */
export function checkGeneration(config: unknown, refuse: Refuse): void {
  if (!isRecord(config)) return;
  const { responseSchema, responseJsonSchema, responseMimeType } = config;
  if (responseSchema === undefined && responseJsonSchema === undefined) return;
  if (responseMimeType !== 'application/json') {
    refuse(
      'G14',
      'generationConfig',
      "* GenerateContentRequest.generation_config.response_schema: only allowed when response mime type is 'application/json'",
    );
  }
  checkSchema(responseSchema, 'generationConfig.responseSchema', 0, refuse);
}

function checkSchema(schema: unknown, path: string, depth: number, refuse: Refuse): void {
  if (!isRecord(schema) || depth > DEPTH_MAX) return;
  const unknown = Object.keys(schema).find((field) => !SCHEMA_FIELDS.has(field));
  if (unknown !== undefined)
    refuse('G12', path, `Invalid JSON payload received. Unknown name "${unknown}" at '${path}': Cannot find field.`);
  for (const [name, part] of partsOf(schema)) checkSchema(part, `${path}.${name}`, depth + 1, refuse);
}

function partsOf({ properties, items, anyOf }: Fields): readonly (readonly [string, unknown])[] {
  const named = isRecord(properties) ? Object.entries(properties) : [];
  const listed = Array.isArray(anyOf) ? anyOf.map((part: unknown, index) => [`anyOf[${index}]`, part] as const) : [];
  return [...named, ...listed, ['items', items]];
}
