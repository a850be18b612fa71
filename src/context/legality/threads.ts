/** Rules for message threads, which are conversations that the API keeps for some minutes: R62. Pure. */
import { given, member, needsBeta, type Report, type RequestView } from './report.ts';

const THREADS = ['message-threads-2026-08-12'];
/** Fields that a thread keeps. A request that continues the thread may not repeat them. */
const KEPT = ['system', 'tools'] as const;
const UNSUPPORTED = ['context_management', 'fallbacks'] as const;
const MARKS_MAX = 3;

/** Reports R62. `marks`: the number of cache marks in the request. */
export function checkThread(view: RequestView, marks: number, report: Report): void {
  const { thread } = view.body;
  if (!given(thread)) return;
  needsBeta(view, THREADS, 'R62', 'thread', report);
  const type = member(thread, 'type');
  if (type !== 'create' && type !== 'continue') {
    report('R62', 'thread.type', "thread.type: Input should be 'create' or 'continue'");
    return;
  }
  for (const key of UNSUPPORTED) {
    if (!given(view.body[key])) continue;
    report('R62', key, `thread: ${key} is not supported with threads`, true, 'thread_unsupported_request');
  }
  if (type === 'continue') checkContinued(view, thread, report);
  // The API was once seen to enforce this bound, but the documentation says four. So this is only a warning.
  if (marks > MARKS_MAX) {
    const text = `a maximum of ${MARKS_MAX} blocks with cache_control may be provided when thread is set. Found ${marks}.`;
    report('R62', 'thread', `thread: ${text}`, false);
  }
}

function checkContinued(view: RequestView, thread: unknown, report: Report): void {
  if (typeof member(thread, 'previous_message_id') !== 'string') {
    report('R62', 'thread.previous_message_id', 'thread.continue.previous_message_id: Field required');
  }
  for (const key of KEPT) {
    if (!given(view.body[key])) continue;
    report('R62', key, `thread: differing field(s): ${key}`, true, 'thread_fingerprint_mismatch');
  }
}
