/** The texts of W10. Each carries the time of its writing, on the monotonic clock that all processes share. */

/** Events of one answer. */
export const STREAM_EVENTS = 200;
/** Events of one answer that carry text; the others are the begin and the end of message and block. */
export const TEXT_EVENTS: number = STREAM_EVENTS - 5;

const RADIX = 36;
const NS_A_US = 1_000n;

/** One text, written at this time of `process.hrtime` in microseconds. */
export function stampedText(writtenUs: bigint): string {
  return `@${writtenUs.toString(RADIX)} word `;
}

/** The ms since the first of these texts was written. */
export function textAgeMs(text: string): number {
  const writtenUs = Number.parseInt(text.slice(1, text.indexOf(' ')), RADIX);
  return (Number(process.hrtime.bigint() / NS_A_US) - writtenUs) / 1_000;
}

/** Throws unless the answer holds every text once. */
export function expectWholeAnswer(answer: string): void {
  const texts = answer.split('@').length - 1;
  if (texts !== TEXT_EVENTS) throw new Error(`an answer has ${texts} texts, not ${TEXT_EVENTS}`);
}
