/**
 * The message threads of the simulated API. The API restores the whole conversation from the part of a request that was
 * sent. Injected faults make the API lose a thread, or refuse to continue one.
 *
 * Owns: the kept conversations. Does not own: the answers.
 *
 * There are two violations: the whole conversation differs from the intended request in a field, or the API refuses to
 * continue a thread without an injected fault.
 */
import { withoutOrigins } from '../../base/block-origin.ts';
import { checkRequest, fatalOf } from '../../context/legality/legality.ts';
import { modelErrorOf } from '../../models/model-error.ts';
import type { ModelRequest } from '../../models/provider.ts';
import { bodyOf, wireBody } from '../../models/request-body.ts';
import type { WireRequest } from '../fake-request.ts';
import { FakeThreads, isThreaded, type ThreadedRequest, type ThreadRefusal } from '../fake-threads.ts';
import type { FaultKind, Faults } from './faults.ts';
import type { Ledger } from './ledger.ts';
import type { World } from './world.ts';

/** The parts of the simulation that the threads need. */
export interface ThreadSurroundings {
  readonly world: World;
  readonly faults: Faults;
  readonly ledger: Ledger;
  readonly trace: (text: string) => void;
}

/** Faults that make the API refuse to continue a thread. The thread itself does not change. */
const REFUSALS: readonly (readonly [FaultKind, ThreadRefusal])[] = [
  ['model.thread_continued', refusal('thread_already_continued')],
  ['model.thread_mismatch', refusal('thread_fingerprint_mismatch')],
];

/** See the head of the file. */
export class SimulatedThreads {
  readonly #surroundings: ThreadSurroundings;
  readonly #kept: FakeThreads;

  constructor(surroundings: ThreadSurroundings) {
    this.#surroundings = surroundings;
    this.#kept = new FakeThreads({ monotonic: () => surroundings.world.elapsedMs });
  }

  /**
   * Begins a request. Undefined if the request has no thread. If the API refuses the request, throws the API's error.
   */
  begin(request: ModelRequest, session: string): ThreadedRequest | undefined {
    const step = request.transport?.thread;
    if (step === undefined) return undefined;
    const { faults, ledger, trace } = this.#surroundings;
    const wire = withoutForeign(wireBody(request)) as unknown as WireRequest;
    for (const { rule, path, message } of fatalOf(checkRequest(wire)).filter((each) => each.rule === 'R62')) {
      ledger.violate('illegal', `request of ${session}: ${rule} ${path}: ${message}`);
    }
    if (faults.strikes('model.thread_unsupported', 0.03)) throw this.#refused(session, UNSUPPORTED);
    let isOwnFault = false;
    if (step.kind === 'continue') {
      for (const [kind, answer] of REFUSALS) if (faults.strikes(kind, 0.1)) throw this.#refused(session, answer);
      isOwnFault = faults.strikes('model.thread_lost', 0.15);
      if (isOwnFault) this.#kept.lose(step.previousMessageId);
    }
    const begun = this.#kept.begin(wire, '');
    if (!isThreaded(begun)) {
      if (!isOwnFault) ledger.violate('illegal', `${session} continued a thread: ${begun.errorCode}`);
      throw this.#refused(session, begun);
    }
    if (JSON.stringify(begun.whole) !== JSON.stringify(withoutForeign(bodyOf(request)))) {
      ledger.violate('illegal', `${session} sent part of a request to a thread that holds another conversation`);
    }
    trace(`${step.kind} of ${session}`);
    return begun;
  }

  #refused(session: string, { status, errorCode, message }: ThreadRefusal): Error {
    this.#surroundings.trace(`${errorCode} for ${session}`);
    return modelErrorOf({ status, errorCode, message });
  }
}

/** A body as the Messages API gets it: without the parts of other vendors. */
export function withoutForeign<Body extends Pick<ModelRequest, 'messages'>>(body: Body): Body {
  const messages = body.messages.flatMap((message) => withoutOrigins(message) ?? []);
  return { ...body, messages };
}

const UNSUPPORTED: ThreadRefusal = refusal('thread_unsupported_request');

function refusal(errorCode: string): ThreadRefusal {
  return { status: 400, errorCode, message: errorCode };
}
