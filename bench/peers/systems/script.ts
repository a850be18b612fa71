/** The model of the benchmark, in a form that every peer's model class can translate. */

/** The last message of a request. */
export type Shown =
  | { readonly type: 'question'; readonly text: string }
  | { readonly type: 'result'; readonly text: string };

/** The reply of the model: a call of `add`, or the answer. */
export type Said =
  | { readonly type: 'call'; readonly id: string; readonly input: { readonly a: number; readonly b: number } }
  | { readonly type: 'answer'; readonly text: string };

/** The description of the tool for the model. */
export const ADD = { name: 'add', description: 'Add two integers.' } as const;

let calls = 0;

/** Answers `add a b` with a call of the tool, and the tool's result with the sum. Throws for any other text. */
export function say(shown: Shown): Said {
  if (shown.type === 'question') {
    const found = /^add (\d+) (\d+)/.exec(shown.text);
    if (found === null) throw new Error(`no question: ${shown.text}`);
    calls += 1;
    return { type: 'call', id: `call_${calls}`, input: { a: Number(found[1]), b: Number(found[2]) } };
  }
  if (!/^\d+$/.test(shown.text)) throw new Error(`no result of the tool: ${shown.text}`);
  return { type: 'answer', text: `sum ${shown.text}` };
}
