/** Names and colours of systems. Colours are variables of the page, which has a light and a dark set. */

/** Names for readers. */
const NAMES: Readonly<Record<string, string>> = {
  inline: 'troupe, inline',
  isolated: 'troupe, isolated',
  loop: 'hand-written loop',
  kernel: 'append-file kernel',
  memory: 'kernel in memory',
  sdk: 'bare SDK',
  http: 'node:http',
};

/** Systems in the order they are drawn. */
const ORDER: readonly string[] = ['isolated', 'inline', 'loop', 'kernel', 'memory', 'sdk', 'http'];

/** A system's name. */
export function systemName(system: string): string {
  return NAMES[system] ?? system;
}

/** A system's colour. */
export function systemColor(system: string): string {
  return NAMES[system] === undefined ? 'currentColor' : `var(--${system})`;
}

/** The position of a system among others. */
export function systemRank(system: string): number {
  const rank = ORDER.indexOf(system);
  return rank === -1 ? ORDER.length : rank;
}
