/** Subpath `troupe/testing`: the project's own test tools, for users' agents. */
export { killSessionThread } from '../runtime/handles/runtime.ts';
export { type JournalConformance, runJournalConformance } from './conformance/journal-conformance.ts';
export type { JournalUnderTest, MakeJournal } from './conformance/journal-under-test.ts';
export { type ManualClock, manualClock } from './manual-clock.ts';
export {
  type PlainScript,
  type Reply,
  type ReplyContext,
  type ReplyFunction,
  type Script,
  scripted,
} from './scripted.ts';
export { FAULT_KINDS, type FaultKind } from './simulation/faults.ts';
export type { Violation, ViolationKind } from './simulation/ledger.ts';
export { simulate } from './simulation/simulate.ts';
export { type ManyOptions, type SimulationTotals, simulateMany } from './simulation/simulate-many.ts';
export type { SimulationOptions, SimulationResult } from './simulation/simulation-result.ts';
export { type StrictFake, type StrictFakeOptions, strictFake } from './strict-fake.ts';
export { fakeGemini } from './wires/gemini.ts';
export { fakeOpenAi } from './wires/open-ai.ts';
export { fakeOpenAiCompatible } from './wires/open-ai-compatible.ts';
export type { WireBody, WireFake, WireFakeOptions, WireRefusal, WireScript } from './wires/wire-fake.ts';
