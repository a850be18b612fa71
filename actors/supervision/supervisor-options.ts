/**
 * The options of a supervisor and of its children, in the terms of Erlang/OTP, and their validation. Pure; runs on
 * every thread.
 */
import { SUPERVISED_CHILDREN_MAX } from '../../src/base/bounds.ts';
import { defined } from '../../src/base/defined.ts';
import { ConfigError, describeValue } from '../../src/base/errors.ts';
import { isRecord } from '../../src/base/json.ts';

/** When a child is started again: always, only after a failure, or never. */
export type RestartType = 'permanent' | 'transient' | 'temporary';
/**
 * How a child is stopped. `brutalKill`: it is killed at once. `infinity`: it is asked to stop, and has no time limit. A
 * number: it is asked to stop, and killed after this many ms.
 */
export type Shutdown = 'brutalKill' | 'infinity' | number;
/** Which children restart when one fails: only that child, all children, or that child and those started after it. */
export type Strategy = 'oneForOne' | 'oneForAll' | 'restForOne';
/** How a child's failure is handled. `restart`: OTP's rules apply. Any other value: every failure is handled alike. */
export type OnChildFailure = 'report' | 'restart' | 'escalate' | 'ignore';

/** One child. `id`: unique among the children of its supervisor. */
export interface ChildSpec {
  readonly id: string;
  readonly restart: RestartType;
  readonly shutdown: Shutdown;
  readonly type: 'worker' | 'supervisor';
}

/** Delays before the restart of a child that met a transient fault: `minMs * factor ** n`, at most `maxMs`. */
export interface Backoff {
  readonly minMs: number;
  readonly maxMs: number;
  readonly factor: number;
  /** Share of the delay, 0 to 1, that is varied so that children that failed together restart at different times. */
  readonly jitter: number;
}

/** How a supervisor behaves. `intensity` restarts within `periodMs` are allowed; one more stops the supervisor. */
export interface SupervisorOptions {
  readonly strategy: Strategy;
  readonly intensity: number;
  readonly periodMs: number;
  readonly onChildFailure: OnChildFailure;
  readonly backoff: Backoff;
  /** Maximum children at once; a further child is refused. */
  readonly childrenMax: number;
}

/** A child spec or options as given: everything but a child's id may be left out. */
export type ChildSpecInput = Partial<ChildSpec> & Pick<ChildSpec, 'id'>;
export type SupervisorOptionsInput = Partial<Omit<SupervisorOptions, 'backoff'>> & {
  readonly backoff?: Partial<Backoff>;
};

/** OTP's time limit for a worker that was asked to stop, in ms. */
const WORKER_SHUTDOWN_MS = 5_000;

/** OTP's defaults: one restart in five seconds. The back-off has the delays of a model call's retries. */
export const SUPERVISOR_DEFAULTS: SupervisorOptions = Object.freeze({
  strategy: 'oneForOne',
  intensity: 1,
  periodMs: 5_000,
  onChildFailure: 'restart',
  backoff: Object.freeze({ minMs: 500, maxMs: 60_000, factor: 2, jitter: 0.2 }),
  childrenMax: SUPERVISED_CHILDREN_MAX,
});

/**
 * A child spec with OTP's defaults: permanent; a worker has 5 s to stop, a supervisor has no time limit. Throws
 * `ConfigError` that names the key, the value found and the expected value.
 */
export function childSpec(input: unknown): ChildSpec {
  const given = checkKeys('child spec', input, ['id', 'restart', 'shutdown', 'type']);
  const type = given['type'] ?? 'worker';
  const spec: Readonly<Record<keyof ChildSpec, unknown>> = {
    id: given['id'],
    restart: given['restart'] ?? 'permanent',
    shutdown: given['shutdown'] ?? (type === 'supervisor' ? 'infinity' : WORKER_SHUTDOWN_MS),
    type,
  };
  return {
    id: check(validId, 'id', spec.id, 'a string of 1 to 256 characters'),
    restart: check(validRestart, 'restart', spec.restart, "'permanent', 'transient' or 'temporary'"),
    shutdown: check(validShutdown, 'shutdown', spec.shutdown, "'brutalKill', 'infinity' or a number of ms from 0"),
    type: check(validType, 'type', spec.type, "'worker' or 'supervisor'"),
  };
}

/** Options with defaults filled in. Throws `ConfigError` that names the key, the value found and the expected value. */
export function supervisorOptions(input: unknown = {}): SupervisorOptions {
  const keys = ['strategy', 'intensity', 'periodMs', 'onChildFailure', 'backoff', 'childrenMax'];
  const given = { ...SUPERVISOR_DEFAULTS, ...defined(checkKeys('supervision', input, keys)) };
  const strategies = "'oneForOne', 'oneForAll' or 'restForOne'";
  const failures = "'report', 'restart', 'escalate' or 'ignore'";
  return {
    strategy: check(validStrategy, 'supervision.strategy', given.strategy, strategies),
    intensity: check(validIntensity, 'supervision.intensity', given.intensity, 'an integer from 0 to 1000'),
    periodMs: check(validPeriod, 'supervision.periodMs', given.periodMs, 'a number of ms above 0'),
    onChildFailure: check(validOnChildFailure, 'supervision.onChildFailure', given.onChildFailure, failures),
    backoff: checkBackoff(given.backoff),
    childrenMax: check(validChildrenMax, 'supervision.childrenMax', given.childrenMax, 'an integer above 0'),
  };
}

/**
 * The spec of a sub-agent session. If the policy is `restart`, the session restarts after a failure. Otherwise it is
 * forgotten when it ends. The session has the default time of a worker to stop.
 */
export function subAgentSpec(id: string, onChildFailure: OnChildFailure): ChildSpec {
  return childSpec({ id, restart: onChildFailure === 'restart' ? 'transient' : 'temporary' });
}

function checkBackoff(input: unknown): Backoff {
  const keys = ['minMs', 'maxMs', 'factor', 'jitter'];
  const given = { ...SUPERVISOR_DEFAULTS.backoff, ...defined(checkKeys('supervision.backoff', input, keys)) };
  const minMs = check(validPeriod, 'supervision.backoff.minMs', given.minMs, 'a number of ms above 0');
  const atLeastMin = (value: unknown): value is number => validPeriod(value) && value >= minMs;
  return {
    minMs,
    maxMs: check(atLeastMin, 'supervision.backoff.maxMs', given.maxMs, `a number of ms from minMs, ${minMs}`),
    factor: check(validFactor, 'supervision.backoff.factor', given.factor, 'a number from 1'),
    jitter: check(validJitter, 'supervision.backoff.jitter', given.jitter, 'a number from 0 to 1'),
  };
}

const validId = (value: unknown): value is string => typeof value === 'string' && value !== '' && value.length <= 256;
const validRestart = (value: unknown): value is RestartType => isOneOf(value, ['permanent', 'transient', 'temporary']);
const validShutdown = (value: unknown): value is Shutdown =>
  isOneOf(value, ['brutalKill', 'infinity']) || atLeast(value, 0);
const validType = (value: unknown): value is ChildSpec['type'] => isOneOf(value, ['worker', 'supervisor']);
const validStrategy = (value: unknown): value is Strategy => isOneOf(value, ['oneForOne', 'oneForAll', 'restForOne']);
const validIntensity = (value: unknown): value is number =>
  Number.isInteger(value) && atLeast(value, 0) && value <= 1_000;
const validPeriod = (value: unknown): value is number => atLeast(value, 0) && value > 0;
const validOnChildFailure = (value: unknown): value is OnChildFailure =>
  isOneOf(value, ['report', 'restart', 'escalate', 'ignore']);
const validFactor = (value: unknown): value is number => atLeast(value, 1);
const validJitter = (value: unknown): value is number => atLeast(value, 0) && value <= 1;
const validChildrenMax = (value: unknown): value is number => Number.isInteger(value) && atLeast(value, 1);

function atLeast(value: unknown, least: number): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= least;
}

function isOneOf(value: unknown, words: readonly string[]): boolean {
  return typeof value === 'string' && words.includes(value);
}

function check<T>(isValid: (value: unknown) => value is T, key: string, value: unknown, expected: string): T {
  if (isValid(value)) return value;
  throw new ConfigError(`${key}: expected ${expected}, got ${describeValue(value)}`, { data: { key } });
}

function checkKeys(name: string, input: unknown, keys: readonly string[]): Readonly<Record<string, unknown>> {
  if (!isRecord(input)) throw new ConfigError(`${name}: expected an object, got ${describeValue(input)}`);
  const unknown = Object.keys(input).find((key) => !keys.includes(key));
  if (unknown !== undefined)
    throw new ConfigError(`${name}: unknown key ${JSON.stringify(unknown)}`, { data: { key: unknown } });
  return input;
}
