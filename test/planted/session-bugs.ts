/** Planted bugs of the pure core and of the actors: what a session decides and what it remembers. */
import type { PlantedBug } from './planted-bug.ts';

const CHILDREN = 'src/session/decide/children.ts';
const FOLD = 'src/session/apply/fold.ts';
const MAILBOX = 'src/session/rules/mailbox.ts';
const RECOVERY = 'src/session/decide/recovery.ts';
const SEND = 'src/session/decide/send.ts';

/** See the head of the file. */
export const sessionBugs: readonly PlantedBug[] = [
  {
    name: 'key-unchecked',
    what: 'a message sent again with its key is accepted again once it left the mailbox',
    file: SEND,
    find: 'if (known !== undefined) {',
    replace: 'if (known !== undefined && state.mailbox.some((waiting) => waiting.id === known.id)) {',
  },
  {
    name: 'key-with-other-content',
    what: 'a key that was used with other content returns the earlier receipt',
    file: SEND,
    find: "if (known.fingerprint !== (entry.fingerprint ?? '')) {",
    replace: "if (known.fingerprint === '') {",
  },
  {
    name: 'mailbox-bound-ignored',
    what: 'the bound of the mailbox counts only messages that wait for a separate turn',
    file: MAILBOX,
    find: 'if (state.mailbox.length >= limits.mailbox) {',
    replace: "if (state.mailbox.filter((waiting) => waiting.deliver === 'turn').length >= limits.mailbox) {",
  },
  {
    name: 'mailbox-bytes-ignored',
    what: "the bound of a mailbox's bytes ignores the new message",
    file: MAILBOX,
    find: 'if (state.mailboxBytes + bytes > limits.mailboxBytes) {',
    replace: 'if (state.mailboxBytes > limits.mailboxBytes) {',
  },
  {
    name: 'content-of-another-entry',
    what: 'a content read back from the log is that of the first entry in its transition',
    file: 'src/session/rules/waiting-content.ts',
    find: "if (record.type === 'accepted' && record.id === id) return record.entry.content;",
    replace: "if (record.type === 'accepted') return record.entry.content;",
  },
  {
    name: 'newest-rides-first',
    what: 'the rider of a half-step is the newest waiting message',
    file: MAILBOX,
    find: 'candidates.find((entry) => !isAlone(entry)),',
    replace: 'candidates.findLast((entry) => !isAlone(entry)),',
  },
  {
    name: 'steers-behind-riders',
    what: 'steers are promoted after the rider',
    file: MAILBOX,
    find: '...background, ...steers, ...riders]',
    replace: '...background, ...riders, ...steers]',
  },
  {
    name: 'one-steer-a-half-step',
    what: 'steers join one a half-step instead of all together',
    file: MAILBOX,
    find: "else if (entry.deliver === 'steer') steers.push(entry);",
    replace: "else if (entry.deliver === 'steer' && steers.length === 0) steers.push(entry);",
  },
  {
    name: 'merge-loses-the-older',
    what: 'only the newest of merged messages is kept',
    file: 'src/session/rules/promotion.ts',
    find: 'joinContents(entries.map((each) => each.content));',
    replace: 'joinContents(entries.slice(-1).map((each) => each.content));',
  },
  {
    name: 'resume-forgets-the-wake',
    what: 'a resumed session does not claim its waiting entries',
    file: 'src/session/decide/interrupt.ts',
    find: "return { records: [{ type: 'resumed' }], effects: [WAKE] };",
    replace: "return { records: [{ type: 'resumed' }], effects: [] };",
  },
  {
    name: 'wake-forgotten-after-results',
    what: 'a tool result arrives, but the round is not checked for its end',
    file: 'src/session/decide/tools.ts',
    find: 'effects: [WAKE],',
    replace: 'effects: [],',
  },
  {
    name: 'result-dropped-while-paused',
    what: 'a tool result that arrives while the session is paused is dropped as late',
    file: 'src/session/decide/tools.ts',
    find: "if (call === undefined) return { records: [], effects: [{ type: 'stale', what: 'tool result' }] };",
    replace:
      "if (call === undefined || state.paused) return { records: [], effects: [{ type: 'stale', what: 'tool result' }] };",
  },
  {
    name: 'retry-counts-wrong',
    what: 'the fold counts the failed attempt, not the one due: the retry is dropped as stale',
    file: 'src/session/apply/turn.ts',
    find: 'current.attempt = record.attempt + 1;',
    replace: 'current.attempt = record.attempt;',
  },
  {
    name: 'interrupt-leaves-calls-open',
    what: 'an interrupt closes the round and forgets to answer the last of its open calls',
    file: 'src/session/decide/end-round.ts',
    find: 'for (const call of state.openCalls.values()) {',
    replace: 'for (const call of [...state.openCalls.values()].slice(0, 1)) {',
  },
  {
    name: 'once-tool-runs-again',
    what: 'recovery runs a `once` tool again',
    file: RECOVERY,
    find: "if (facts?.effect === 'once') {",
    replace: "if (facts === undefined && call.name === 'once') {",
  },
  {
    name: 'probe-not-asked',
    what: 'recovery runs a `probe` tool again without asking it',
    file: RECOVERY,
    find: "facts?.effect === 'probe' ? 'probe' : 'run'",
    replace: "facts?.effect === 'once' ? 'probe' : 'run'",
  },
  {
    name: 'new-key-on-recovery',
    what: 'a call that recovery runs again gets another idempotency key',
    file: RECOVERY,
    find: 'effects.push(startCall(state, call, environment,',
    replace: 'effects.push(startCall(state, { ...call, seq: state.nextMessageSeq }, environment,',
  },
  {
    name: 'recovery-changes-the-request',
    what: 'recovery adds a message to the log: the call is made again with other bytes',
    file: RECOVERY,
    find: 'return { records, effects: [callOrEvaluate(',
    replace: "return { records: [...records, { type: 'noted', content: 'Recovered.' }], effects: [callOrEvaluate(",
  },
  {
    name: 'recovery-leaves-a-call',
    what: 'recovery ignores a half-step whose retry was due before the crash',
    file: RECOVERY,
    find: '  return { records, effects: [callOrEvaluate(',
    replace:
      '  if (retryAt !== undefined) return { records, effects: [] };\n  return { records, effects: [callOrEvaluate(',
  },
  {
    name: 'restart-forgets-the-task',
    what: 'a restarted child starts without its task',
    file: 'src/session/apply/lifecycle.ts',
    find: "appendTask(fold, state.goal?.description ?? '');",
    replace: "if (state.goal === undefined) appendTask(fold, '');",
  },
  {
    name: 'spawn-key-ignored',
    what: 'a spawn repeated with its key makes another child',
    file: CHILDREN,
    find: 'const known = request.key === undefined ? undefined : state.childKeys.get(request.key);',
    replace:
      'const known = request.callId === undefined ? undefined : state.childKeys.get(request.key ?? request.callId);',
  },
  {
    name: 'spawn-key-with-other-task',
    what: 'a spawn key that was used for another task returns the earlier child',
    file: CHILDREN,
    find: "if (known.fingerprint !== (request.fingerprint ?? '')) {",
    replace: "if (known.fingerprint === '') {",
  },
  {
    name: 'exit-told-twice',
    what: 'a child that is woken after its end ends a second time',
    file: 'src/session/decide/supervision.ts',
    find: 'if (state.parent === undefined || state.exit !== undefined) return NOTHING;',
    replace: 'if (state.parent === undefined) return NOTHING;',
  },
  {
    name: 'handle-child-fills-the-mailbox',
    what: 'a child whose replies go to its handle writes to its parent as well',
    file: CHILDREN,
    find: "if (child === undefined || child.replies === 'handle') return",
    replace: 'if (child === undefined) return',
  },
  {
    name: 'resting-parent-not-told',
    what: 'a parent that left memory is not notified of its child',
    file: 'src/runtime/shard/transitions.ts',
    find: '    find: (sessionId) => this.#residency.find(sessionId),',
    replace: '    find: (sessionId) => this.#residency.inMemory(sessionId),',
  },
  {
    name: 'eviction-splits-a-round',
    what: 'an eviction removes calls whose results are still to come',
    file: 'src/session/rules/eviction.ts',
    find: 'if (after === undefined && open.size === 0 && seqWhenAll !== undefined) return seqWhenAll;',
    replace: 'if (after === undefined && seqWhenAll !== undefined) return seqWhenAll;',
  },
  {
    name: 'late-merge-into-answered',
    what: 'a message that follows an answered request is merged into its last message',
    file: FOLD,
    find: 'const followsAnswered = state.sealedSeq > 0 && (state.messages.at(-1)?.seq ?? 0) <= state.sealedSeq;',
    replace: 'const followsAnswered = state.sealedSeq > 0 && (state.messages.at(-1)?.seq ?? 0) < state.sealedSeq;',
  },
  {
    name: 'usage-counted-twice',
    what: 'the usage of a paused answer is counted again',
    file: 'src/session/apply/answer.ts',
    find: 'continuePaused(state, record.halfStep);',
    replace: 'continuePaused(state, record.halfStep);\n    state.usage = addUsage(state.usage, record.usage);',
  },
  {
    name: 'events-counted-when-read',
    what: 'an event is numbered only when it has a reader: live session and replay differ',
    file: FOLD,
    find: '    this.state.eventSeq += 1;',
    replace: '    if (this.observer === undefined || this.observer.event !== undefined) this.state.eventSeq += 1;',
  },
  {
    name: 'call-ids-of-earlier-turns',
    what: 'a call id is unique within its answer only',
    file: 'src/session/rules/answer.ts',
    find: 'if (own?.has(id) || options.taken.has(id)) id = nextFreeId(id, own, options.taken);',
    replace: 'if (own?.has(id)) id = nextFreeId(id, own, options.taken);',
  },
  {
    name: 'queue-for-a-place-forgotten',
    what: 'a session without admission is not put into the queue for it',
    file: 'src/runtime/shard/admission.ts',
    find: 'if (hasAgent && isWaiting(state) && !isHeld) this.#queued.add(actor.id);',
    replace: 'if (hasAgent && isWaiting(state) && !isHeld && state.blocked !== undefined) this.#queued.add(actor.id);',
  },
];
