/**
 * A model that answers at random: texts, tool calls, sub-agents, reports, and every known failure of a model call. It
 * checks each request against the rules of the Messages API, and notes it in the ledger. If a request continues a
 * message thread, the model receives only the new messages, as the API would. `simulated-threads.ts` restores the whole
 * conversation, and the model checks and notes the whole conversation.
 */
import { CancelledError } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import type { ContentBlock } from '../../base/messages.ts';
import { COMPACTION_INSTRUCTION } from '../../context/compaction-request.ts';
import { checkRequest, fatalOf } from '../../context/legality/legality.ts';
import { modelTraits } from '../../context/model-traits.ts';
import { MessageThreads } from '../../models/message-threads/message-threads.ts';
import { modelErrorOf } from '../../models/model-error.ts';
import type { GenerateContext, ModelProvider, ModelRequest, ModelResponse } from '../../models/provider.ts';
import { bodyOf } from '../../models/request-body.ts';
import { PauseTurnAnswers } from '../../models/script/pause-turn-answers.ts';
import { ANSWER_TOOL } from '../../session/rules/structured-answer.ts';
import { ThinkingLedger } from '../thinking-ledger.ts';
import { streamedCall } from './families/drafts.ts';
import type { FaultKind } from './faults.ts';
import { digestOf, requestDigest } from './ledger.ts';
import { type FormName, formOfSchema, isAnswerTool, valueFor } from './messages/simulated-forms.ts';
import { NORTH } from './models/agent-models.ts';
import type { ProviderTroubles } from './models/provider-troubles.ts';
import { answerToChild, askedForm } from './questions/simulated-questions.ts';
import type { SeededRandom } from './seeded-random.ts';
import { SKILL_NAMES, WORKFLOW_NAMES } from './simulated-definitions.ts';
import { LINE_MS_MAX } from './simulated-line.ts';
import { SimulatedThreads, type ThreadSurroundings, withoutForeign } from './simulated-threads.ts';
import { versionNamed } from './versions/agent-versions.ts';
import type { SimulatedProcess } from './world.ts';

/** The parts of the simulation the model needs. */
export interface ModelSurroundings extends ThreadSurroundings {
  /** See `SimulatedMachine.incarnationOf`. */
  readonly incarnationOf: (session: string) => number;
  /** Virtual ms since the current incarnation of a session's shard began. */
  readonly incarnationAgeMs: (session: string) => number;
  /** Ends the process of the current life. */
  /** Ends the process, or the machine's process that started it. */
  readonly crash: (why: string, process: SimulatedProcess) => void;
  /** The troubles of whole providers, if the agents have several models. */
  readonly troubles?: ProviderTroubles;
}

/** A block of an answer, valid or not. */
export type Block = Readonly<Record<string, unknown>> & { readonly type: string };
/** A response before it is checked, valid or not, as a provider may hand it over. */
export interface RawResponse {
  readonly content: readonly Block[];
  readonly stop_reason: string | null;
  readonly usage?: unknown;
}

/** Most milliseconds of an outage: longer than all retries of a call. */
const OUTAGE_MS = 1_200_000;
/** Most milliseconds between an answer that does not fit its form and a crash: about two writes of the store. */
const CRASH_MS = 30;
/** Faults that end a call with an error, each with its error. */
const FAILURES: readonly (readonly [FaultKind, () => Parameters<typeof modelErrorOf>[0]])[] = [
  ['model.rate_limited', () => ({ message: 'rate limited', status: 429, retryAfterMs: 20_000 })],
  ['model.overloaded', () => ({ message: 'overloaded', status: 529 })],
  ['model.failed', () => ({ message: 'internal error', status: 500 })],
  ['model.connection', () => ({ message: 'connect ECONNREFUSED', code: 'model_connection' })],
  ['model.protocol', () => ({ message: 'a line is not JSON', code: 'model_protocol' })],
  ['model.too_long', () => ({ message: 'prompt is too long: 208310 tokens > 200000 maximum', status: 400 })],
  ['model.invalid_request', () => ({ message: 'messages: refused', status: 400 })],
  ['model.authentication', () => ({ message: 'invalid x-api-key', status: 401 })],
  ['model.retired', () => ({ message: 'model: not found', status: 404 })],
];

/** True for a request that only fills the provider's cache. Such a request belongs to no half-step. */
function isWarmUp(request: ModelRequest): boolean {
  return request.max_tokens === 0;
}

/** The model. `providerOf` makes it the provider of a process. */
export class SimulatedModel {
  readonly #surroundings: ModelSurroundings;
  readonly #random: SeededRandom;
  readonly #paused = new PauseTurnAnswers();
  /** The model's thoughts and their contexts. The thoughts outlive processes, as in a real provider. */
  readonly #thoughts = new ThinkingLedger(1);
  #count = 0;
  #lastCallId = 'c0';
  /** Virtual ms until which every call fails. */
  #outUntil = 0;
  /** The conversations that the API keeps. They outlive processes, too. */
  readonly #threads: SimulatedThreads;
  #answers = 0;

  constructor(surroundings: ModelSurroundings) {
    this.#surroundings = surroundings;
    this.#random = surroundings.world.random.fork();
    this.#threads = new SimulatedThreads(surroundings);
  }

  /**
   * The provider of a process or a thread. When that process dies, its calls are lost. Its record of the messages in
   * each message thread is lost, too.
   */
  providerOf(process: SimulatedProcess): ModelProvider {
    const threads = new MessageThreads(this.#surroundings.world.clockOf(process));
    return {
      name: 'simulated',
      generate: (request, context) => {
        const { session } = context;
        return threads.call(request, { session, account: () => '' }, (sending) => {
          // A call by a dead process is treated as never made.
          if (!process.isAlive) return new Promise(() => undefined);
          return this.#call(process, sending, context);
        });
      },
    };
  }

  async #call(process: SimulatedProcess, sending: ModelRequest, context: GenerateContext): Promise<ModelResponse> {
    const thread = this.#threads.begin(sending, context.session);
    const request = thread === undefined ? withoutForeign(bodyOf(sending)) : (thread.whole as unknown as ModelRequest);
    if (!isWarmUp(request)) this.#hear(request, context.session);
    try {
      return await this.#generate(process, request, context, (response) => thread?.answered(response));
    } catch (error) {
      thread?.failed();
      throw error;
    }
  }

  /** Answers a request. `keep` receives the answer even if the answer is then lost on its way to the caller. */
  async #generate(
    process: SimulatedProcess,
    request: ModelRequest,
    context: GenerateContext,
    keep: (response: ModelResponse) => void,
  ): Promise<ModelResponse> {
    const { world, faults, trace } = this.#surroundings;
    const random = this.#random;
    const aborted = new Promise<never>((_resolve, reject) => {
      const onAbort = (): void => reject(new CancelledError('aborted', { cause: context.signal.reason }));
      if (context.signal.aborted) onAbort();
      context.signal.addEventListener('abort', onAbort, { once: true });
    });
    aborted.catch(() => undefined);
    const pause = (ms: number): Promise<void> => Promise.race([world.sleep(process, ms), aborted]);
    const latencyMs = faults.strikes('model.late', 0.05) ? random.between(60_000, 400_000) : random.between(5, 8_000);
    await pause(latencyMs * 0.3);
    if (faults.strikes('model.outage', 0.01)) this.#outUntil = world.elapsedMs + random.between(0, OUTAGE_MS);
    if (faults.isOn && world.elapsedMs < this.#outUntil) {
      throw modelErrorOf({ message: 'overloaded for a while', status: 529 });
    }
    const trouble = this.#surroundings.troubles?.of(NORTH, process);
    if (trouble !== undefined) {
      trace(`${NORTH} fails with ${trouble.status} for ${context.session}`);
      if (trouble.status === 401) this.#surroundings.ledger.keyRefused(context.session);
      throw modelErrorOf(trouble);
    }
    for (const [kind, failure] of FAILURES) {
      if (!faults.strikes(kind, 0.02)) continue;
      trace(`${kind} for ${context.session}`);
      if (kind === 'model.authentication') this.#surroundings.ledger.keyRefused(context.session);
      throw modelErrorOf(failure());
    }
    if (faults.strikes('model.silent', 0.02)) return aborted;
    if (isWarmUp(request))
      return { content: [], stop_reason: 'max_tokens', usage: { input_tokens: 1, output_tokens: 0 } };
    const isDeclined = this.#surroundings.troubles?.declines(process) === true;
    const answered = this.#served(request, this.answer(process, request));
    const answer = isDeclined ? { ...answered, stop_reason: 'refusal' } : answered;
    const streamed = streamedCall(answer.content, answer.usage);
    this.#surroundings.ledger.streamed(context.session, streamed);
    if (streamed.inputTokens !== undefined)
      context.onUsage?.({ input_tokens: streamed.inputTokens, output_tokens: random.between(1, 9) });
    if (faults.strikes('model.malformed_delta', 0.02)) {
      context.onDelta({ type: 'text', text: undefined as unknown as string });
      return aborted;
    }
    for (const block of answer.content) {
      if (block.type === 'text') context.onDelta({ type: 'text', text: String(block['text']) });
      await pause(latencyMs * 0.2);
    }
    this.#answers += 1;
    const response = { ...answer, id: `msg_${this.#answers}` } as unknown as ModelResponse;
    keep(response);
    if (faults.strikes('model.broken_stream', 0.02)) {
      throw modelErrorOf({ message: 'the stream was cut', code: 'model_connection' });
    }
    if (faults.strikes('model.error_in_stream', 0.02)) {
      throw modelErrorOf({ message: 'overloaded in mid-stream', type: 'overloaded_error' });
    }
    await pause(latencyMs * 0.3);
    if (answer.stop_reason === 'pause_turn') this.#paused.note(request, response);
    if (Array.isArray(response.content)) this.#thoughts.note(request, response);
    return response;
  }

  /** Checks a request and notes it in the ledger. */
  #hear(request: ModelRequest, session: string): void {
    const { ledger, troubles } = this.#surroundings;
    const checked = checkRequest(request, { isPausedTurn: (blocks) => this.#paused.has(blocks) });
    for (const { rule, path, message } of [...fatalOf(checked), ...this.#thoughts.check(request)]) {
      ledger.violate('illegal', `request of ${session}: ${rule} ${path}: ${message}`);
    }
    this.note(request, session, troubles === undefined ? undefined : NORTH);
  }

  /** Notes a request in the ledger. `provider`: the name of the model's provider, if the agent has several models. */
  note(request: ModelRequest, session: string, provider?: string): void {
    const { ledger, incarnationOf, incarnationAgeMs, trace } = this.#surroundings;
    const calls = ledger.calls.get(session) ?? [];
    ledger.calls.set(session, calls);
    const digest = requestDigest(request.messages, provider === undefined ? undefined : `${provider}/${request.model}`);
    const isSummary = isSummaryAsked(request);
    calls.push({
      incarnation: incarnationOf(session),
      digest,
      whole: digestOf(JSON.stringify(request)),
      isStraggler: incarnationAgeMs(session) <= LINE_MS_MAX,
      isSummary,
      version: versionNamed(request.system),
    });
    const what = isSummary ? 'summary' : 'model call';
    trace(`${what} of ${session}: ${request.messages.length} messages, ${digest}`);
  }

  /** Draws an answer to a request: its blocks, without calls of the provider's own tools. */
  answer(process: SimulatedProcess, request: ModelRequest): RawResponse {
    const { faults } = this.#surroundings;
    const random = this.#random;
    const usage = { input_tokens: random.between(1, 500), output_tokens: random.between(1, 100) };
    const text = (): Block => {
      const n = this.#next();
      return { type: 'text', text: answerToChild(request, { n, random }) ?? `answer ${n}` };
    };
    // With manual thinking the model always thinks, because a turn must start with a thought (R22).
    const isManual = request.thinking?.type === 'enabled';
    const thinking = thinks(request) && (isManual || random.chance(0.5)) ? [this.#thought(request)] : [];
    if (faults.strikes('model.empty', 0.03)) return { content: [], stop_reason: 'end_turn', usage };
    if (faults.strikes('model.malformed', 0.02)) return random.pick(this.#malformed());
    if (faults.strikes('model.refusal', 0.02)) return { content: [text()], stop_reason: 'refusal', usage };
    if (faults.strikes('model.context_full', 0.02)) {
      return { content: [text()], stop_reason: 'model_context_window_exceeded', usage };
    }
    if (faults.strikes('model.paused', 0.04)) {
      return { content: [...thinking, text()], stop_reason: 'pause_turn', usage };
    }
    if (isSummaryAsked(request) && random.chance(0.8)) {
      const summary = faults.isOn && random.chance(0.1) ? '<topics>none</topics>  ' : `summary ${this.#next()}`;
      return { content: [...thinking, { type: 'text', text: summary }], stop_reason: 'end_turn', usage };
    }
    const calls = random.chance(faults.isOn ? 0.55 : 0.3) ? this.#calls(request) : [];
    const form = formOf(request);
    if (calls.length === 0 && form !== undefined) return this.#structured(process, request, { form, thinking, usage });
    if (calls.length === 0) {
      const content = [...thinking, text()];
      return { content, stop_reason: 'end_turn', ...(faults.strikes('model.no_usage', 0.05) ? {} : { usage }) };
    }
    const stop = faults.strikes('model.cut_call', 0.04) ? 'max_tokens' : 'tool_use';
    return { content: [...thinking, ...(random.chance(0.4) ? [text()] : []), ...calls], stop_reason: stop, usage };
  }

  /** An answer in the form that the request asks for, or one with a mistake. */
  #structured(
    process: SimulatedProcess,
    request: ModelRequest,
    given: { readonly form: FormName; readonly thinking: readonly Block[]; readonly usage: unknown },
  ): RawResponse {
    const { faults, world, crash } = this.#surroundings;
    const random = this.#random;
    const { form, thinking, usage } = given;
    const fits = !faults.strikes('answer.misfit', 0.5);
    const value = valueFor(form, { fits, n: this.#next(), random });
    const inText = request.output_config?.['format'] !== undefined || (!fits && random.chance(0.3));
    const text = inText && !fits && random.chance(0.3) ? `in words ${this.#next()}` : JSON.stringify(value);
    const answer = inText ? { type: 'text', text } : { ...this.#toolCall(request, ANSWER_TOOL), input: value };
    const beside = inText || !random.chance(0.2) ? [] : this.#calls(request);
    const content = [...thinking, answer, ...beside];
    if (faults.strikes('answer.refused', 0.1)) return { content, stop_reason: 'refusal', usage };
    if (faults.strikes('answer.cut', 0.1)) return { content, stop_reason: 'max_tokens', usage };
    if (!fits && faults.strikes('answer.crash', 0.4)) {
      world.schedule(process, random.between(0, CRASH_MS), () => crash('after an answer that does not fit', process));
    }
    return { content, stop_reason: content.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn', usage };
  }

  /** Adds results of the calls that the provider was asked to run, and new calls of the provider's tool. */
  #served(request: ModelRequest, answer: RawResponse): RawResponse {
    if (!Array.isArray(answer.content)) return answer;
    const isServed = !this.#surroundings.faults.strikes('model.unserved', 0.25);
    const results = isServed ? waitingUses(request).map(foundFor) : [];
    const written = this.#withUses(request, answer);
    // With manual thinking an answer with calls begins with a thought (R22).
    const isManual = request.thinking?.type === 'enabled' && written[0]?.type === 'thinking';
    const content = isManual ? [...written.slice(0, 1), ...results, ...written.slice(1)] : [...results, ...written];
    return content.length === answer.content.length ? answer : { ...answer, content: this.#signed(request, content) };
  }

  /** Gives each thought a signature that is bound to the request and to the blocks before the thought. */
  #signed(request: ModelRequest, content: readonly Block[]): readonly Block[] {
    const signed: Block[] = [];
    for (const block of content) {
      const before = signed as unknown as readonly ContentBlock[];
      const isBound = block.type === 'thinking' && typeof block['signature'] === 'string';
      const thinking = String(block['thinking']);
      signed.push(isBound ? { ...block, signature: this.#thoughts.sign(request, before, thinking) } : block);
    }
    return signed;
  }

  /**
   * Adds a call of the provider's own tool. The call is answered at once, or waits for the results of other calls or
   * for the end of a pause.
   */
  #withUses(request: ModelRequest, { content, stop_reason: stop }: RawResponse): readonly Block[] {
    const random = this.#random;
    if (request.tools?.some(({ name }) => name === SERVER_TOOL) !== true || isSummaryAsked(request)) return content;
    if (!random.chance(0.3)) return content;
    const use = { type: 'server_tool_use', id: `srvtoolu_${this.#next()}`, name: SERVER_TOOL, input: { query: 'x' } };
    const waits = stop === 'pause_turn' || (stop === 'tool_use' && random.chance(0.7));
    const place = content.findIndex(({ type }) => type !== 'thinking');
    if (place === -1) return content;
    const found = waits ? [] : [foundFor(use.id)];
    return waits && stop === 'pause_turn'
      ? [...content, use]
      : [...content.slice(0, place), use, ...found, ...content.slice(place)];
  }

  #thought(request: ModelRequest): Block {
    const thinking = `hm ${this.#next()}`;
    return { type: 'thinking', thinking, signature: this.#thoughts.sign(request, [], thinking) };
  }

  #calls(request: ModelRequest): readonly Block[] {
    const { faults } = this.#surroundings;
    const random = this.#random;
    const names = (request.tools ?? []).map(({ name }) => name).filter((name) => name !== SERVER_TOOL);
    if (names.length === 0) return [];
    return Array.from({ length: random.pick([1, 1, 1, 2, 3]) }, () => {
      const name = faults.strikes('model.unknown_tool', 0.03)
        ? 'no_such_tool'
        : (this.#resultTool(request, names) ?? random.pick(names));
      return this.#toolCall(request, name);
    });
  }

  /** In a cluster: often the tool with long results, or the one that reads their rest. */
  #resultTool(request: ModelRequest, names: readonly string[]): string | undefined {
    if (!names.includes('read_file') || this.#random.chance(0.5)) return undefined;
    return pathIn(request) === NO_PATH ? 'long' : 'read_file';
  }

  #toolCall(request: ModelRequest, name: string): Block {
    const id = this.#surroundings.faults.strikes('model.duplicate_ids', 0.05) ? this.#lastCallId : `c${this.#next()}`;
    this.#lastCallId = id;
    return { type: 'tool_use', id, name, input: this.#inputFor(request, name) };
  }

  #inputFor(request: ModelRequest, name: string): unknown {
    const random = this.#random;
    if (this.#surroundings.faults.strikes('model.bad_input', 0.04)) return random.pick([{ n: 'x' }, 'text', null, [1]]);
    if (name === 'spawn_subagent') return { task: `task ${this.#next()}` };
    if (name === 'spawn_specialist') return { name: 'wide', task: `task ${this.#next()}` };
    if (name === 'mark_goal_completed') return { result: `result ${this.#next()}` };
    if (name === 'read_file') return { path: pathIn(request) };
    const form = isAnswerTool(name) ? formOf(request) : undefined;
    if (form !== undefined) return valueFor(form, { fits: random.chance(0.7), n: this.#next(), random });
    if (askedForm(name) !== undefined) return { question: `question ${this.#next()}` };
    const enricher = enricherInput(name, random, () => this.#next());
    if (enricher !== undefined) return enricher;
    return { n: random.between(0, 9) };
  }

  #malformed(): readonly RawResponse[] {
    const usage = { input_tokens: -1, output_tokens: 1e300 };
    return [
      { content: [{ type: 'text', text: '   ' }], stop_reason: 'end_turn', usage },
      { content: [{ type: 'tool_use', id: 'bad id!', name: 'pure', input: { n: 1 } }], stop_reason: 'tool_use', usage },
      { content: [{ type: 'text', text: 'half \ud800 pair' }], stop_reason: null },
      { content: [{ type: 'tool_result', tool_use_id: 'x', content: 'mine' }], stop_reason: 'end_turn', usage },
      { content: 'no list' as unknown as Block[], stop_reason: 'end_turn' },
      { content: [{ type: 'tool_use', id: 'c1', name: 'from_scout', input: {} }], stop_reason: 'tool_use', usage },
    ];
  }

  #next(): number {
    this.#count += 1;
    return this.#count;
  }
}

/** The name of the agents' tool that the provider runs. */
const SERVER_TOOL = 'web_search';

/** The result of a call of the provider. */
function foundFor(id: string): Block {
  return { type: 'web_search_tool_result', tool_use_id: id, content: [] };
}

/** The provider's calls at the end of a request, by id, but only those without a result so far. */
function waitingUses({ messages }: ModelRequest): readonly string[] {
  const last = messages.at(-1);
  const end = last?.role === 'user' ? messages.length - 1 : messages.length;
  const isOpen = last?.role !== 'user' || blocksOf(last).every(({ type }) => type === 'tool_result');
  if (!isOpen) return [];
  const start = messages.findLastIndex(({ role }, index) => index < end && role !== 'assistant') + 1;
  const blocks = messages.slice(start, end).flatMap(blocksOf);
  const answered = new Set(blocks.map((block) => block['tool_use_id']));
  return blocks.flatMap(({ type, id }) => (type === 'server_tool_use' && !answered.has(id) ? [String(id)] : []));
}

function blocksOf({ content }: ModelRequest['messages'][number]): readonly Block[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : (content as unknown as readonly Block[]);
}

/** True if the model thinks: the request's setting decides, or the model's default without a setting. */
function thinks({ model, thinking }: ModelRequest): boolean {
  return thinking === undefined ? modelTraits(model).thinksByDefault === true : thinking.type !== 'disabled';
}

/** The path of a call of `read_file` if the request has no shortened result. */
const NO_PATH = '/none';

/** The path in the newest shortened result of a request. */
function pathIn({ messages }: ModelRequest): string {
  const paths = [...JSON.stringify(messages).matchAll(/saved to: ([^\\\s"]+)/g)];
  return paths.at(-1)?.[1] ?? NO_PATH;
}

/** The input for an enricher's tool, valid or not; undefined for other tools. */
function enricherInput(name: string, random: SeededRandom, next: () => number): unknown {
  switch (name) {
    case 'rename_session':
      return { emoji: '🍞', name: random.pick(['Bread', 'Cake', ' ']) };
    case 'assign_nickname':
      return { nickname: random.pick(['scout', 'reader', `reader-${next()}`, 'agent-1', 'melete', ' ']) };
    case 'activate_skill':
      return { skill_name: random.pick(SKILL_NAMES) };
    case 'read_workflow':
      return { workflow_name: random.pick(WORKFLOW_NAMES) };
    case 'set_goal':
      return { description: `goal ${next()}`, ...(random.chance(0.3) ? { parent_goal_id: random.between(1, 4) } : {}) };
    case 'update_goal':
      return { goal_id: random.between(1, 4), description: `goal ${next()}` };
    case 'finish_goal':
      return { goal_id: random.between(1, 4) };
    case 'save_snapshot':
      return { text: random.pick([`what was said ${next()}`, ' ', undefined]) };
    case 'attach_messages_to_goals':
      return { message_ids: [random.between(1, 9)], goal_ids: [random.between(1, 4)] };
    case 'search_messages':
      // A message index is built in real time, not virtual time. So the simulation only sends a query that is refused.
      return { query: ' ' };
    case 'view_messages':
      return { message_id: `s${random.between(0, 4)}#${random.between(1, 9)}` };
    case 'surface_memory':
      return { message_id: `s${random.between(0, 4)}#${random.between(1, 9)}`, why: 'because' };
    default:
      return undefined;
  }
}

/** The form that the request asks for, as the format of its text or as the input of its answer tool. */
function formOf({ output_config, tools }: ModelRequest): FormName | undefined {
  const format = output_config?.['format'];
  const schema = isRecord(format) ? format['schema'] : tools?.find(({ name }) => isAnswerTool(name))?.input_schema;
  return formOfSchema(schema);
}

/** True if the request ends with the instruction to write a summary. */
function isSummaryAsked(request: ModelRequest): boolean {
  return JSON.stringify(request.messages.at(-1)).includes(INSTRUCTION_BEGINNING);
}

/** The beginning of the instruction: long enough to be unique, without characters that JSON would escape. */
const INSTRUCTION_BEGINNING = COMPACTION_INSTRUCTION.slice(0, 60);
