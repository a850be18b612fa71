/** Names and ids: their forms, and the checks of names and ids from outside. Pure; runs on every thread. */
import { createHash } from 'node:crypto';
import { describeValue, InvalidNameError } from './errors.ts';

/**
 * A session's id: chosen by the embedder, or assigned to a child as `<parent>:<n>`. The id of a tenant's session begins
 * with the tenant's name and a `~`.
 */
export type SessionId = string;

/** The most characters a session id may have. */
export const SESSION_ID_CHARACTERS_MAX = 128;
/** A tenant's name cannot contain a colon, because the part of an id before the first colon is the root of its tree. */
const TENANT = '[A-Za-z0-9][A-Za-z0-9._-]{0,63}';
const TENANT_NAME = new RegExp(`^${TENANT}$`);
/** The form of a session id, as the last part of a regular expression: it ends with `$`. */
export const SESSION_ID_FORM: string = `(?=.{1,${SESSION_ID_CHARACTERS_MAX}}$)(?:${TENANT}~)?[A-Za-z0-9][A-Za-z0-9._:-]*$`;
const SESSION_ID = new RegExp(`^${SESSION_ID_FORM}`);
/** A version cannot contain `@`, because `agentKey` joins name and version with it. */
const AGENT_VERSION = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$/;
const AGENT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const TOOL_NAME = /^[a-zA-Z0-9_-]{1,128}$/;
/** The character after the tenant's name in a session id. */
const TENANT_END = '~';
const CALL_ID = /^[a-zA-Z0-9_-]+$/;
const NICKNAME = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;
/** The most characters of a sub-agent's nickname. */
export const NICKNAME_CHARACTERS_MAX = 30;
/**
 * The prefix of the names of the calls by which the runtime delivers entries to a model. No tool may have such a name.
 */
export const DELIVERY_PREFIX = 'from_';
/** Nicknames whose delivery name would collide with a reserved name. */
const RESERVED_NICKNAMES: ReadonlySet<string> = new Set(['mneme', 'melete']);

/** The name of the calls that deliver the replies of a sub-agent with this nickname to its parent. */
export function deliveryNameOf(nickname: string): string {
  return `${DELIVERY_PREFIX}${nickname}`;
}

/** Returns `id`; throws `InvalidNameError` when it does not have the form of a session id. */
export function checkSessionId(id: unknown): SessionId {
  if (typeof id !== 'string' || !SESSION_ID.test(id)) {
    throw new InvalidNameError(`session id must match ${SESSION_ID.source}, got ${describeValue(id)}`);
  }
  return id;
}

/** True if a tenant may have this name. */
export function isTenantName(name: string): boolean {
  return TENANT_NAME.test(name);
}

/** Returns `name`; throws `InvalidNameError` when it does not have the form of a tenant's name. */
export function checkTenantName(name: unknown): string {
  if (typeof name === 'string' && isTenantName(name)) return name;
  throw new InvalidNameError(`the name of a tenant must match ${TENANT_NAME.source}, got ${describeValue(name)}`);
}

/**
 * The tenant of a session; undefined if it has none. The tenant follows from the id, so it never changes and needs no
 * look-up.
 */
export function tenantOf(id: SessionId): string | undefined {
  const end = id.indexOf(TENANT_END);
  return end === -1 ? undefined : id.slice(0, end);
}

/** The beginning of the ids of a tenant's sessions. */
export function tenantPrefix(tenant: string): string {
  return `${tenant}${TENANT_END}`;
}

/**
 * The id that a caller of this tenant means. An id without a tenant is completed with the caller's tenant. Undefined:
 * the session belongs to another tenant. For a caller without a tenant (undefined), each id stays as it is. Throws
 * `InvalidNameError` if the id is too long with the tenant in front.
 */
export function idWithin(tenant: string | undefined, id: SessionId): SessionId | undefined {
  if (tenant === undefined) return id;
  const owner = tenantOf(id);
  if (owner === undefined) return checkSessionId(`${tenantPrefix(tenant)}${id}`);
  return owner === tenant ? id : undefined;
}

/**
 * The id that a caller means in a filter. An id of another tenant stays as it is: the filter then finds no session of
 * the caller's tenant. Throws `InvalidNameError`.
 */
export function filterId(tenant: string | undefined, id: unknown): SessionId {
  const given = checkSessionId(id);
  return idWithin(tenant, given) ?? given;
}

/** True for the sessions of a tenant; without a tenant (undefined), for all sessions. */
export function isOfTenant(tenant: string | undefined, id: SessionId): boolean {
  return tenant === undefined || id.startsWith(tenantPrefix(tenant));
}

/**
 * True for a session and its descendants. A descendant's id is its ancestor's id followed by a colon and more, so
 * `user-4` is not an ancestor of `user-42`.
 */
export function isInTree(id: SessionId, root: SessionId): boolean {
  return id === root || id.startsWith(`${root}:`);
}

/** True for a name an agent may have. */
export function isAgentName(name: string): boolean {
  return AGENT_NAME.test(name);
}

/** True for a version an agent may have. */
export function isAgentVersion(version: string): boolean {
  return AGENT_VERSION.test(version);
}

/**
 * Names one definition of an agent: its name, and its version if it has one. No name or version contains `@`.
 */
export function agentKey(name: string, version: string | undefined): string {
  return version === undefined ? name : `${name}@${version}`;
}

/** True for a tool name the Messages API accepts (rule R29). */
export function isToolName(name: string): boolean {
  return TOOL_NAME.test(name);
}

/** True for a tool-use id the Messages API accepts (rule R07). */
export function isCallId(id: string): boolean {
  return CALL_ID.test(id);
}

/**
 * The normal form of the nickname `raw`, or the reason why `raw` cannot be a nickname (contract §7.5). `taken`:
 * nicknames of the siblings.
 */
export function checkNickname(
  raw: string,
  taken: ReadonlySet<string>,
): { readonly name: string } | { readonly error: string } {
  const name = raw.trim().toLowerCase();
  if (name === '') return { error: 'Nickname cannot be blank' };
  if (name.length > NICKNAME_CHARACTERS_MAX) {
    return { error: `Nickname too long (max ${NICKNAME_CHARACTERS_MAX} chars)` };
  }
  if (!NICKNAME.test(name)) {
    return { error: `Invalid format for a nickname: ${JSON.stringify(name)} (lower-case words joined by hyphens)` };
  }
  if (RESERVED_NICKNAMES.has(name) || name.startsWith('melete-')) {
    return { error: `Nickname ${JSON.stringify(name)} is reserved` };
  }
  if (taken.has(name)) return { error: `Nickname ${JSON.stringify(name)} already taken by a sibling` };
  return { name };
}

/**
 * Returns the part of an id that decides the shard of its tree: everything before the first colon. All ids with one
 * root share a shard, whether generated or chosen. So that shard can check a child's generated id against the ids that
 * the embedder chose (rule A6).
 */
export function rootOf(id: SessionId): string {
  const colon = id.indexOf(':');
  return colon === -1 ? id : id.slice(0, colon);
}

/** The shard of a tree: a function of the root's id and of the number of shards (A6). */
export function shardOf(id: SessionId, shards: number): number {
  if (shards === 1) return 0;
  const digest = createHash('sha256').update(rootOf(id)).digest();
  return digest.readUInt32BE(0) % shards;
}
