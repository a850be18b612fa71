/**
 * The roles of tokens, and the callers that the tokens stand for. Each route names the role that it needs. A caller has
 * one or several roles. The role `admin` includes all other roles.
 */
import { z } from 'zod';
import { ConfigError } from '../base/errors.ts';
import { isTenantName } from '../base/ids.ts';
import { HttpProblem } from './problem.ts';

const ROLES = ['reader', 'writer', 'approver', 'admin'] as const;

/**
 * The role of a token decides which requests it allows. `reader` may read. `writer` may also send, spawn, interrupt and
 * change sessions. `approver` may read, decide calls and answer questions. `admin` may do everything. Only `admin` may
 * delete sessions, resend and drop dead letters, set budgets, read the audit log, and make backups.
 */
export type Role = (typeof ROLES)[number];

/** A token that a server accepts. */
export interface TokenOptions {
  /** 1 to 1024 visible ASCII characters. */
  readonly token: string;
  /**
   * The name of the token's holder in errors, and as the author (`by`) of its decisions. Default: `token <n>`, with
   * the token's number in the list. The token itself is never shown.
   */
  readonly name?: string;
  /**
   * The only tenant whose sessions the token reaches. Default: the token reaches all sessions and the whole runtime.
   */
  readonly tenant?: string;
  readonly role: Role | readonly Role[];
}

/** The holder of a token, or anyone if the server has no token. */
export interface Caller {
  readonly name: string;
  readonly tenant: string | undefined;
  readonly roles: ReadonlySet<Role>;
}

/** For each role, the roles that include it. */
const INCLUDED_IN: Readonly<Record<Role, readonly Role[]>> = {
  reader: ROLES,
  writer: ['writer', 'admin'],
  approver: ['approver', 'admin'],
  admin: ['admin'],
};

/**
 * The name of a caller as author of its decisions; undefined for `ANYONE`, which stands for no particular person or
 * program.
 */
export function authorOf(caller: Caller): string | undefined {
  return caller === ANYONE ? undefined : caller.name;
}

/** The caller of a server without tokens, and of the option `token`. */
export const ANYONE: Caller = { name: 'token', tenant: undefined, roles: new Set(['admin']) };

const role = z.enum(ROLES);
/** The schema of the members of `TokenOptions`, except the token, which no error may show. */
const callerSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.@ -]{1,64}$/, 'must be 1 to 64 letters, digits, blanks or ._@-')
    .optional(),
  tenant: z.string().refine(isTenantName, 'must be the name of a tenant').optional(),
  role: z.union([role.transform((only) => [only]), z.array(role).min(1)]),
});

/** Checks one entry of the option `tokens`, without its token. Throws `ConfigError`, which names `key`. */
export function checkCaller(given: unknown, key: string, index: number): Caller {
  const parsed = callerSchema.safeParse(given);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const at = [key, ...(issue?.path ?? [])].join('.');
    const known = issue?.path[0] === 'role' ? `; the roles are ${ROLES.join(', ')}` : '';
    throw new ConfigError(`option "${at}": ${issue?.message ?? 'is not valid'}${known}`, { data: { key: at } });
  }
  const { name = `token ${index + 1}`, tenant, role: roles } = parsed.data;
  return { name, tenant, roles: new Set(roles) };
}

/** Throws `HttpProblem` (`role_missing`, 403) if the caller does not have the role that a route needs. */
export function checkRole({ name, roles }: Caller, needed: Role): void {
  if (INCLUDED_IN[needed].some((each) => roles.has(each))) return;
  const has = [...roles].join(', ');
  throw new HttpProblem('role_missing', `this needs the role ${needed}; ${JSON.stringify(name)} has ${has}`);
}

/** Throws `HttpProblem` (`role_missing`, 403) for a caller of one tenant. */
export function checkWholeRuntime({ name, tenant }: Caller): void {
  if (tenant === undefined) return;
  throw new HttpProblem(
    'role_missing',
    `this is about all tenants; ${JSON.stringify(name)} is for the tenant ${JSON.stringify(tenant)} alone`,
  );
}
