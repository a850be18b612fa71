/** The check that every option passes, and the texts of its errors. Pure. */
import { z } from 'zod';
import { BODY_ISSUES_MAX } from './bounds.ts';
import { ConfigError, describeValue } from './errors.ts';
import { namesHint } from './near-names.ts';

/**
 * Validates `value` with `schema`. Throws `ConfigError` that names the key (`name.path`), the value's type and the
 * expected form. Every option is validated here. `use`: `once` for options that a process gives only once. For all
 * other options zod compiles a parser. To compile a parser takes longer than to parse once without one.
 */
export function parseOption<T>(schema: z.ZodType<T>, name: string, value: unknown, use: 'once' | 'often' = 'often'): T {
  const result = schema.safeParse(value, { error: unknownKeyHint, jitless: use === 'once' });
  if (result.success) return result.data;
  const issue = deepestIssue(result.error.issues[0]);
  const path = issue?.path ?? [];
  if (issue?.code === 'unrecognized_keys') {
    const unknown = issue.keys
      .slice(0, BODY_ISSUES_MAX)
      .map((key) => JSON.stringify(joinPath(name, [...path, key])))
      .join(', ');
    throw new ConfigError(`unknown option ${unknown}${issue.message}`, {
      data: { key: joinPath(name, [...path, issue.keys[0] ?? '']) },
    });
  }
  const key = joinPath(name, path);
  let found: unknown = value;
  for (const part of path)
    found = found === null || found === undefined ? undefined : (found as Record<PropertyKey, unknown>)[part];
  const subject = key === '' ? 'the options' : `option ${JSON.stringify(key)}`;
  throw new ConfigError(`${subject}: ${expectationOf(issue)}; got ${describeValue(found)}`, {
    data: { key },
    cause: result.error,
  });
}

/** The expected form, in one wording for all kinds of issues. The value is described once, by the caller. */
function expectationOf(issue: z.core.$ZodIssue | undefined): string {
  if (issue === undefined) return 'invalid';
  const forms = issue.code === 'invalid_union' ? formsOf(issue) : [];
  if (forms.length > 0) return `expected ${[...new Set(forms)].join(' or ')}`;
  return issue.message.replace(/^Invalid (?:input|option): /, '').replace(/, received \S+$/, '');
}

/** The types of value that a union accepts. */
function formsOf({ errors }: z.core.$ZodIssueInvalidUnion): readonly string[] {
  return errors.flatMap(([first]) => {
    if (first?.code === 'invalid_union') return formsOf(first);
    return first?.code === 'invalid_type' && first.path.length === 0 ? [first.expected] : [];
  });
}

/** The hint for unknown keys of an object: a similar key, and the known keys. Other issues keep zod's own message. */
function unknownKeyHint(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code !== 'unrecognized_keys') return undefined;
  const { inst } = issue;
  const known = inst instanceof z.ZodObject ? Object.keys(inst.shape) : [];
  const [first = ''] = issue.keys;
  return known.length === 0 ? '' : namesHint(first, known, 'options', String);
}

/** The most deeply nested issue among the alternatives of a union, because it names the wrong member most exactly. */
function deepestIssue(issue: z.core.$ZodIssue | undefined): z.core.$ZodIssue | undefined {
  if (issue?.code !== 'invalid_union') return issue;
  let deepest: z.core.$ZodIssue = issue;
  for (const [first] of issue.errors) {
    const found = deepestIssue(first);
    if (found === undefined) continue;
    const path = [...issue.path, ...found.path];
    if (path.length > deepest.path.length) deepest = { ...found, path };
  }
  return deepest;
}

function joinPath(name: string, path: readonly PropertyKey[]): string {
  return [name, ...path.map(String)].filter((part) => part !== '').join('.');
}
