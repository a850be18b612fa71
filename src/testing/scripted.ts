/** The scripted model for users: `scripted(script)` in place of `anthropic()`. */
import { defined } from '../base/defined.ts';
import type { ModelProvider, ProviderData } from '../models/provider.ts';
import { createScriptedProvider, type ScriptedOptions } from '../models/script/provider.ts';
import { checkScript, isPlainScript, type PlainScript, type Script } from '../models/script/script.ts';

export type {
  PlainScript,
  Reply,
  ReplyContext,
  ReplyFunction,
  Script,
} from '../models/script/script.ts';

/**
 * A model that answers from a script: a list of replies, a function of the request, rules, or a module with one of
 * these. Each session plays the script from its start. The model refuses requests that the Messages API would refuse,
 * unless `strict` is false.
 *
 * A script that is plain data, or names a module, becomes provider data and runs in the model threads. A script with
 * functions, or with the option `clock`, becomes a provider value and runs on the host thread. Throws a `ConfigError`
 * that names the invalid part.
 *
 * ```ts
 * scripted(['Hello.', { toolUse: { name: 'add', input: { a: 1, b: 2 } } }, 'The sum is 3.']);
 * scripted({ rules: [{ when: { result: true }, reply: 'It says {{result}}' }], otherwise: { toolUse: { name: 'look' } } });
 * scripted((request, { call }) => `${call}: ${request.messages.length} messages`);
 * scripted({ module: new URL('./my-model.ts', import.meta.url), export: 'answer' });
 * ```
 */
export function scripted(script: PlainScript, options?: ScriptedOptions & { readonly clock?: never }): ProviderData;
export function scripted(script: Script, options?: ScriptedOptions): ProviderData | ModelProvider;
export function scripted(script: Script, options: ScriptedOptions = {}): ProviderData | ModelProvider {
  const checked = checkScript(script);
  if (!isPlainScript(checked) || options.clock !== undefined) {
    return createScriptedProvider(checked, options);
  }
  return {
    kind: 'scripted',
    script: checked,
    ...defined({ strict: options.strict, pieceMs: options.pieceMs }),
  };
}
