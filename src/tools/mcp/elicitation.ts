/**
 * Questions of MCP servers. A server's answer `input_required` to a call becomes one question to a person, or a result
 * that says why the question cannot be asked. Only schemas in the protocol's form are accepted: flat, without patterns.
 * So judging an answer is cheap. Pure.
 */
import { type InputRequiredResult, specTypeSchemas } from '@modelcontextprotocol/client';
import { MCP_QUESTION_BYTES_MAX, QUESTION_CHARACTERS_MAX } from '../../base/bounds.ts';
import { describeValue } from '../../base/errors.ts';
import { isRecord, type Json } from '../../base/json.ts';
import type { AnsweredElicitation } from '../../session/state/elicitation.ts';
import { formOfSchema } from '../input-schema.ts';
import { schemaProblem } from '../json-schema.ts';
import { cleanText } from '../result-text.ts';
import type { McpResult, McpServerAnswer } from './protocol.ts';

/** The question that a server asks, or a failed result for a question that is not supported. */
export function questionOf(
  server: string,
  { inputRequests = {}, requestState: state }: InputRequiredResult,
): McpServerAnswer {
  const [asked, ...others] = Object.entries(inputRequests);
  if (asked === undefined) return refused('an answer that comes later');
  if (others.length > 0) return refused('several questions at once');
  const [key, request] = asked;
  // The client has not checked the request.
  const { method, params } = isRecord(request) ? (request as Readonly<Record<string, unknown>>) : {};
  if (method !== 'elicitation/create') return refused(describeValue(method));
  if (isRecord(params) && params['mode'] === 'url') return refused('a question that a web page asks');
  const checked = specTypeSchemas.ElicitRequestFormParams['~standard'].validate(params);
  if (checked.issues !== undefined) return refused('a question that does not have the form of the protocol');
  const question = cleanText(checked.value.message);
  if (question.trim() === '') return refused('a question without a text');
  if (question.length > QUESTION_CHARACTERS_MAX) {
    return refused(`a question of ${question.length} characters, of which ${QUESTION_CHARACTERS_MAX} are allowed`);
  }
  const text = JSON.stringify(checked.value.requestedSchema);
  const bytes = Buffer.byteLength(text) + Buffer.byteLength(key) + Buffer.byteLength(state ?? '');
  if (bytes > MCP_QUESTION_BYTES_MAX) {
    return refused(`a schema with a state of ${bytes} bytes, of which ${MCP_QUESTION_BYTES_MAX} are allowed`);
  }
  const schema = JSON.parse(text, clean) as Readonly<Record<string, Json>>;
  const problem = schemaProblem(schema);
  if (problem !== undefined) return refused(`a schema that is not valid: ${problem}`);
  return {
    question,
    form: formOfSchema(schema),
    elicitation: state === undefined ? { server, key } : { server, key, state },
  };
}

/** The members of a call that continues with an answer; none for a call that begins. */
export function continuationOf(elicited: AnsweredElicitation | undefined): object {
  if (elicited === undefined) return {};
  const { key, state, response } = elicited;
  const inputResponses = { [key]: response };
  return state === undefined ? { inputResponses } : { inputResponses, requestState: state };
}

function clean(_key: string, value: unknown): unknown {
  return typeof value === 'string' ? cleanText(value) : value;
}

function refused(what: string): McpResult {
  const text = `The server asks for input that is not supported: ${what}. The call was not continued.`;
  return { blocks: [{ type: 'text', text }], isError: true };
}
