/** Rules for calls and their results: R01 to R07. Pure. */
import { isCallId } from '../../base/ids.ts';
import { blockPath, type MessageView, member, type Report, type RequestView } from './report.ts';

const NO_RESULT = 'Each `tool_use` block must have a corresponding `tool_result` block in the next message.';
const NO_CALL = 'Each `tool_result` block must have a corresponding `tool_use` block in the previous message.';

/** Reports R01 to R07. System messages are skipped here, because R13 judges them. */
export function checkPairing(request: RequestView, report: Report): void {
  const view: RequestView = { ...request, messages: request.messages.filter(({ role }) => role !== 'system') };
  const isContinued = member(view.body['thread'], 'type') === 'continue';
  checkCallIds(view, report);
  const lastResult = new Map<string, number>();
  view.messages.forEach((message, place) => {
    for (const id of resultIds(message)) lastResult.set(id, place);
  });
  /** Ids of calls whose result comes too late. R03 is reported at the call, so R04 is not reported at the result. */
  const late = new Set<string>();
  view.messages.forEach((message, place) => {
    if (message.role === 'assistant') checkAnswered(view, place, lastResult, late, report);
  });
  view.messages.forEach((message, place) => {
    // The first message of a continued thread may answer calls that are in the thread, not in the request.
    if (place > 0 || !isContinued) checkAsked(message, view.messages[place - 1], late, report);
  });
}

/** Reports R05 and R07: each id has the right form and occurs once in the request. */
function checkCallIds(view: RequestView, report: Report): void {
  const seen = new Set<string>();
  for (const message of view.messages) {
    message.blocks.forEach((block, index) => {
      if (block.type !== 'tool_use') return;
      const path = blockPath(message, index);
      const id = String(block['id']);
      if (message.role !== 'assistant') {
        report('R39', path, `${path}: \`tool_use\` blocks can only be in \`assistant\` messages`, true);
      }
      if (!isCallId(id)) {
        const at = `${path}.tool_use.id`;
        report('R07', at, `${at}: String should match pattern '^[a-zA-Z0-9_-]+$'`);
      }
      if (seen.has(id)) report('R05', path, `${path}: \`tool_use\` ids must be unique`);
      seen.add(id);
    });
  }
}

/** Reports R01, R02 and R03: each call of a message must have its result at the beginning of the next message. */
function checkAnswered(
  view: RequestView,
  place: number,
  lastResult: ReadonlyMap<string, number>,
  late: Set<string>,
  report: Report,
): void {
  const message = view.messages[place];
  const ids = message === undefined ? [] : callIds(message);
  if (message === undefined || ids.length === 0) return;
  const next = view.messages[place + 1];
  const answers = new Set(next === undefined ? [] : resultIds(next));
  const leading = new Set(next === undefined ? [] : leadingResultIds(next));
  const missing: string[] = [];
  const hidden: string[] = [];
  const split: string[] = [];
  for (const id of new Set(ids)) {
    if (leading.has(id)) continue;
    if (answers.has(id)) hidden.push(id);
    else if ((lastResult.get(id) ?? -1) > place + 1) split.push(id);
    else missing.push(id);
  }
  for (const id of split) late.add(id);
  const path = `messages.${message.index}`;
  const text = (list: readonly string[]): string =>
    `${path}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${list.join(', ')}. ${NO_RESULT}`;
  if (missing.length > 0) report('R01', path, text(missing));
  if (hidden.length > 0) report('R02', path, text(hidden));
  if (split.length > 0) report('R03', path, text(split));
}

/** Reports R04 and R06: each result must answer a call of the message before, and each call has only one result. */
function checkAsked(
  message: MessageView,
  previous: MessageView | undefined,
  late: ReadonlySet<string>,
  report: Report,
): void {
  const asked = new Set(previous?.role === 'assistant' ? callIds(previous) : []);
  const answered = new Set<string>();
  message.blocks.forEach((block, index) => {
    if (block.type !== 'tool_result') return;
    const id = String(block['tool_use_id']);
    const path = blockPath(message, index);
    if (message.role !== 'user') {
      report('R04', path, `${path}: \`tool_result\` blocks can only be in \`user\` messages`);
    } else if (!asked.has(id) && !late.has(id)) {
      const text = `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. ${NO_CALL}`;
      report('R04', path, `${path}: ${text}`);
    } else if (answered.has(id)) {
      const text = `each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${id}`;
      report('R06', path, `${path}: ${text}`);
    }
    answered.add(id);
  });
}

function callIds(message: MessageView): readonly string[] {
  const ids: string[] = [];
  for (const block of message.blocks) if (block.type === 'tool_use') ids.push(String(block['id']));
  return ids;
}

function resultIds(message: MessageView): readonly string[] {
  if (message.role !== 'user') return [];
  const ids: string[] = [];
  for (const block of message.blocks) {
    if (block.type === 'tool_result') ids.push(String(block['tool_use_id']));
  }
  return ids;
}

function leadingResultIds(message: MessageView): readonly string[] {
  if (message.role !== 'user') return [];
  const end = message.blocks.findIndex((block) => block.type !== 'tool_result');
  const leading = end === -1 ? message.blocks : message.blocks.slice(0, end);
  return leading.map((block) => String(block['tool_use_id']));
}
