/** Subpath `troupe/testing`: what the project tests itself with, for users' own agents. */
export { killSessionThread } from '../runtime/runtime.ts';
export {
  type JournalConformance,
  type JournalUnderTest,
  type MakeJournal,
  runJournalConformance,
} from './journal-conformance.ts';
export { type ManualClock, manualClock } from './manual-clock.ts';
export {
  type PlainScript,
  type Reply,
  type ReplyContext,
  type ReplyFunction,
  type Script,
  scripted,
} from './scripted.ts';
export { type StrictFake, type StrictFakeOptions, strictFake } from './strict-fake.ts';
