/**
 * Follows the version of each turn in a session's log, and checks the moves between versions (I32 of `invariants.ts`).
 *
 * Owns: the versions in the log of one session. Does not own: the log, nor what the model and the tools saw.
 */
import type { SessionRecord } from '../../../session/state/records.ts';
import type { SessionState } from '../../../session/state/state.ts';
import { type CallStory, type Ledger, sessionOfKey } from '../ledger.ts';

/** A broken rule of a log. */
export interface VersionFault {
  readonly kind: 'failed';
  readonly what: string;
}

/** See the head of the file. */
export class VersionTrail {
  /** The versions of the turns that sent a request, by the digest of its messages. */
  readonly requests: Map<string, Set<string | undefined>> = new Map();
  /** The versions of the turns that sent requests of an epoch, by the epoch's fingerprint. */
  readonly fingerprints: Map<string, Set<string | undefined>> = new Map();
  /** The version of the turn that made a call, by the key of the call. */
  readonly calls: Map<string, string | undefined> = new Map();
  /** True if the last turn continues a run that was suspended, and so has the version of that run. */
  isContinued = false;
  /** The version with which the running turn began. */
  #turn: string | undefined;
  #turnId = 0;

  /** Notes the request of a half-step in a turn. Returns its digest. */
  sent(digest: string, { turn, version, fingerprint }: SessionState): string {
    // A request for a summary between two turns belongs to no version.
    if (turn === undefined) return digest;
    add(this.requests, digest, version);
    if (fingerprint !== undefined) add(this.fingerprints, fingerprint, version);
    return digest;
  }

  /** Notes a call that the running turn makes. */
  called(key: string, { version }: SessionState): void {
    this.calls.set(key, version);
  }

  /** Takes a record after it was applied to the state. */
  after({ id, turn, version }: SessionState, record: SessionRecord): VersionFault | undefined {
    if (turn === undefined) return undefined;
    if (turn.id !== this.#turnId) {
      this.isContinued = record.type === 'continued';
      this.#turnId = turn.id;
      this.#turn = version;
    }
    const named = turn.agent?.version;
    if (this.#turn === version && named === version) return undefined;
    const what = `turn ${turn.id} of ${id} began with ${named ?? this.#turn} and is at ${version} after ${record.type} (I32)`;
    return { kind: 'failed', what };
  }
}

function add(map: Map<string, Set<string | undefined>>, key: string, version: string | undefined): void {
  map.set(key, (map.get(key) ?? new Set()).add(version));
}

/** True if a call has one of the versions of the turns that sent its request, or no version, or is for a summary. */
function fits({ version, isSummary }: CallStory, known: ReadonlySet<string | undefined>): boolean {
  return version === undefined || isSummary === true || known.has(version);
}

/**
 * True if a call was made before its claim was durable, and the claim was lost in a crash (A2). The shard then started
 * again, began that turn with another version, and sent the same messages.
 */
function wasLost(call: CallStory, calls: readonly CallStory[], known: ReadonlySet<string | undefined>): boolean {
  return calls.some((later) => {
    return later.digest === call.digest && later.incarnation > call.incarnation && fits(later, known);
  });
}

/** Checks that the model and the tools saw the versions that the logs have. Violations go to the ledger. */
export function checkVersions(ledger: Ledger, stories: ReadonlyMap<string, { readonly versions: VersionTrail }>): void {
  for (const [session, calls] of ledger.calls) {
    const versions = stories.get(session)?.versions;
    for (const call of versions === undefined ? [] : calls) {
      const known = versions?.requests.get(call.digest);
      if (known === undefined || fits(call, known) || wasLost(call, calls, known)) continue;
      const what = `the request ${call.digest} of version ${call.version} in a turn of ${[...known].join(', ')}`;
      ledger.violate('failed', `${session} sent ${what} (I32)`);
    }
  }
  for (const [session, { versions }] of stories) {
    for (const [fingerprint, known] of versions.fingerprints) {
      if (known.size < 2) continue;
      ledger.violate('failed', `${session} used epochs ${fingerprint} in turns of ${[...known].join(', ')} (I32)`);
    }
  }
  for (const [key, ran] of ledger.toolVersions) {
    const story = stories.get(sessionOfKey(key));
    if (story === undefined || !story.versions.calls.has(key)) continue;
    const version = story.versions.calls.get(key);
    for (const each of ran) {
      if (each !== version) ledger.violate('failed', `call ${key} of ${version} ran with the tool of ${each} (I32)`);
    }
  }
}
