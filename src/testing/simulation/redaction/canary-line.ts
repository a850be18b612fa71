/**
 * The line between the host and a session thread in a run with canaries (I38 of `invariants.ts`). Requests and answers
 * of the host carry canaries into the thread. A canary in anything that the thread sends is a violation: answers,
 * errors, events, notices, log lines, questions to the host.
 */
import type { ShardThread } from '../../../runtime/host/shard-threads.ts';
import type { HostMethods } from '../../../runtime/protocol/host-methods.ts';
import type { ShardMethods } from '../../../runtime/protocol/protocol.ts';
import type { AnswerForm } from '../../../session/state/answer-form.ts';
import { type Endpoint, endpointWith } from '../../../threads/endpoint.ts';
import type { Canaries } from './canaries.ts';

type Marks = {
  readonly [M in keyof ShardMethods]?: (
    request: ShardMethods[M]['request'],
    canaries: Canaries,
  ) => ShardMethods[M]['request'];
};

/** The requests of the host that have texts, each with the function that adds canaries to these texts. */
const MARKS: Marks = {
  'session.send': (request, canaries) => ({
    ...request,
    content: canaries.content(request.content),
    ...withForm(request, canaries),
  }),
  'session.spawn': (request, canaries) => ({
    ...request,
    items: request.items.map((item) => ({
      ...item,
      task: canaries.text(item.task),
      ...withForm(item, canaries),
    })),
  }),
  'session.interrupt': (request, canaries) => withReason(request, canaries),
  'session.approve': (request, canaries) => withReason(request, canaries),
  'session.answer': (request, canaries) => ({
    ...request,
    reply: 'value' in request.reply ? { ...request.reply, value: canaries.value(request.reply.value) } : request.reply,
  }),
  'session.goal': (request, canaries) => ({
    ...request,
    change:
      'description' in request.change
        ? { ...request.change, description: canaries.text(request.change.description) }
        : request.change,
  }),
  'tasks.start': (request, canaries) =>
    request.title === undefined ? request : { ...request, title: canaries.text(request.title) },
  'history.edit': (request, canaries) => ({ ...request, edit: edited(request.edit, canaries) }),
};

/** The form of the answer that is asked for, with a canary in the title of its schema. */
function withForm({ output }: { readonly output?: AnswerForm }, canaries: Canaries): { readonly output?: AnswerForm } {
  if (output === undefined) return {};
  return { output: { ...output, schema: { ...output.schema, title: canaries.text('An answer') } } };
}

function withReason<T extends { readonly reason?: string }>(request: T, canaries: Canaries): T {
  return request.reason === undefined ? request : { ...request, reason: canaries.text(request.reason) };
}

type Edit = ShardMethods['history.edit']['request']['edit'];

function edited(edit: Edit, canaries: Canaries): Edit {
  switch (edit.operation) {
    case 'add':
    case 'append':
      return { ...edit, message: { ...edit.message, content: canaries.content(edit.message['content']) } };
    case 'update':
      return { ...edit, attributes: canaries.value(edit.attributes) };
    case 'set':
    case 'replaceAll':
    case 'seed':
      return {
        ...edit,
        messages: edit.messages.map((message) => ({ ...message, content: canaries.content(message['content']) })),
      };
    case 'replaceSystemPrompt':
      return { ...edit, text: canaries.text(edit.text) };
    default:
      return edit;
  }
}

/** Returns the thread with a line that adds canaries to what the thread receives, and finds canaries that it sends. */
export function canaryLine(thread: ShardThread, canaries: Canaries): ShardThread {
  const endpoint = canaryEndpoint(thread.endpoint, canaries);
  return {
    endpoint,
    onExit: (listener) => thread.onExit(listener),
    exit: () => thread.exit(),
    serve: ({ runner, ask }) =>
      thread.serve({
        runner,
        ask: async (method, request) => {
          canaries.check(request, `the question ${method}`);
          return answered(method, await ask(method, request), canaries);
        },
      }),
  };
}

/** The answer of the host to a question, with canaries in its texts. */
function answered<T>(method: string, answer: T, canaries: Canaries): T {
  return ((ANSWER_MARKS[method as keyof HostMethods] as Mark | undefined)?.(answer, canaries) ?? answer) as T;
}

type Mark = (answer: unknown, canaries: Canaries) => unknown;

const ANSWER_MARKS: {
  readonly [M in keyof HostMethods]?: (
    answer: HostMethods[M]['answer'],
    canaries: Canaries,
  ) => HostMethods[M]['answer'];
} = {
  'host.evaluateSystem': (answer, canaries) => canaries.text(answer),
  'host.upgrade': (answer, canaries) => answer.map((edit) => edited(edit, canaries)),
  'host.consult': (answer, canaries) =>
    'interrupt' in answer && answer.interrupt !== undefined
      ? { ...answer, interrupt: canaries.value(answer.interrupt) }
      : answer,
  // Names of definitions are kept, because a model chooses by them.
  'host.lookUp': (answer, canaries) =>
    (answer.about === 'skill' || answer.about === 'workflow') && answer.value !== null
      ? { ...answer, value: { ...canaries.value(answer.value), name: answer.value.name } }
      : answer,
};

function canaryEndpoint(endpoint: Endpoint, canaries: Canaries): Endpoint {
  return endpointWith(endpoint, {
    call: (method, payload) => {
      const mark = MARKS[method as keyof Marks] as ((request: unknown, canaries: Canaries) => unknown) | undefined;
      const answer = endpoint.call(method, mark?.(payload, canaries) ?? payload);
      const check = (value: unknown): void => canaries.check(value, `the answer to ${method}`);
      answer.then(check, check);
      return answer;
    },
    handle: (method, handler) =>
      endpoint.handle(method, (payload) => {
        canaries.check(payload, `the note ${method}`);
        const answer = handler(payload);
        if (!(answer instanceof Promise)) return answered(method, answer, canaries);
        return answer.then((value: unknown) => answered(method, value, canaries));
      }),
  });
}
