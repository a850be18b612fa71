/**
 * The structured answers that the simulated embedder asks for, and the values that the simulated model gives. The
 * checks of the values do not use the product's validator, because a mistake in it would hide itself.
 */
import { isRecord, type Json } from '../../../base/json.ts';
import { ANSWER_TOOL } from '../../../session/rules/structured-answer.ts';
import type { SeededRandom } from '../seeded-random.ts';

/** The name of a form: the `title` of its schema. */
export type FormName = 'place' | 'list';

interface SimulatedForm {
  readonly schema: Readonly<Record<string, Json>>;
  readonly fits: (value: unknown) => boolean;
  /** A value that fits. `n` makes it different from earlier values. */
  readonly right: (n: number) => Json;
  /** Values that do not fit, each for another reason. */
  readonly wrong: (n: number) => readonly Json[];
}

const FORMS: Readonly<Record<FormName, SimulatedForm>> = {
  place: {
    schema: {
      title: 'place',
      type: 'object',
      properties: { n: { type: 'integer', minimum: 1 }, kind: { enum: ['Town', 'City'] } },
      required: ['n', 'kind'],
    },
    fits: (value) => isRecord(value) && isPositive(value['n']) && ['Town', 'City'].includes(String(value['kind'])),
    right: (n) => ({ n, kind: n % 2 === 0 ? 'Town' : 'City' }),
    wrong: (n) => [{ n: 0, kind: 'Town' }, { n: `${n}`, kind: 'Town' }, { n, kind: 'Village' }, { n }, [n], null],
  },
  list: {
    schema: {
      title: 'list',
      type: 'object',
      properties: {
        items: {
          type: 'array',
          maxItems: 2,
          items: { type: 'object', properties: { n: { type: 'integer', minimum: 1 } }, required: ['n'] },
        },
      },
      required: ['items'],
    },
    fits: (value) => {
      const items: unknown = isRecord(value) ? value['items'] : undefined;
      if (!Array.isArray(items) || items.length > 2) return false;
      return items.every((item: unknown) => isRecord(item) && isPositive(item['n']));
    },
    right: (n) => ({ items: n % 3 === 0 ? [] : [{ n }] }),
    wrong: (n) => [{ items: [{ n }, { n }, { n }] }, { items: [{ n: -n }] }, { items: n }, {}],
  },
};

const FORM_NAMES: readonly FormName[] = ['place', 'list'];

/** The form that a message or a spawn asks for. `share`: the probability that it asks for a form. */
export function pickForm(random: SeededRandom, share: number): FormName | undefined {
  return share > 0 && random.chance(share) ? random.pick(FORM_NAMES) : undefined;
}

/** The schema that an embedder sends as `output`. */
export function schemaOfForm(name: FormName): Readonly<Record<string, Json>> {
  return FORMS[name].schema;
}

/** True if this value has the form. */
export function hasForm(name: FormName, value: unknown): boolean {
  return FORMS[name].fits(value);
}

/** The form with this schema; undefined for other schemas. The schema may be the embedder's or that of a request. */
export function formOfSchema(schema: unknown): FormName | undefined {
  const title = isRecord(schema) ? schema['title'] : undefined;
  return FORM_NAMES.find((name) => name === title);
}

/** True for the tool that takes structured answers. No simulated tool has its name. */
export function isAnswerTool(toolName: string): boolean {
  return toolName === ANSWER_TOOL;
}

/**
 * A value that fits the form, or one that does not. A value that fits may have a word in upper case that the schema has
 * in another letter case.
 */
export function valueFor(
  name: FormName,
  { fits, n, random }: { readonly fits: boolean; readonly n: number; readonly random: SeededRandom },
): Json {
  if (!fits) return random.pick(FORMS[name].wrong(n));
  const value = FORMS[name].right(n);
  const word = isRecord(value) ? value['kind'] : undefined;
  return isRecord(value) && typeof word === 'string' && random.chance(0.2)
    ? ({ ...value, kind: word.toUpperCase() } as Json)
    : value;
}

function isPositive(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 1;
}
