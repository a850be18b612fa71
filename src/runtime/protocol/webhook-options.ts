/** The option `webhooks` of `open`, and its check. */
import { z } from 'zod';
import {
  WEBHOOK_HEADERS_MAX,
  WEBHOOK_SECRET_BYTES_MAX,
  WEBHOOK_SECRET_BYTES_MIN,
  WEBHOOKS_MAX,
} from '../../base/bounds.ts';
import { ConfigError } from '../../base/errors.ts';
import { isTenantName } from '../../base/ids.ts';
import type { NoticeWish } from '../../session/rules/notices.ts';

/** A receiver of notices over HTTP. */
export interface WebhookOptions {
  /**
   * Address of the receiver: http or https, without user name and password. No two webhooks may have the same address.
   */
  readonly url: string | URL;
  /**
   * `waiting`: a tool call waits for a person. `turn.ended`: a turn finished, failed, was interrupted or was suspended.
   * Default: both.
   */
  readonly events?: readonly ('waiting' | 'turn.ended')[];
  /**
   * Signs each delivery: `whsec_` and the base64 of 24 to 64 random bytes, as in the Standard Webhooks specification.
   * Without a secret, deliveries are not signed.
   */
  readonly secret?: string;
  /** Headers added to each delivery, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * True: the ends of sub-agents' turns are delivered too. Waiting calls of sub-agents are always delivered. Default
   * false.
   */
  readonly children?: boolean;
  /** Delivers only notices of this tenant's sessions. Default: notices of all sessions. */
  readonly tenant?: string;
}

/** A checked webhook. */
export interface CheckedWebhook {
  readonly url: URL;
  readonly wish: NoticeWish;
  /** The key of the signature; undefined: deliveries are not signed. */
  readonly key: Buffer | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

const SECRET_PREFIX = 'whsec_';
/** Headers that every delivery has. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'content-type',
  'content-length',
  'host',
  'user-agent',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
]);
const EVENTS = ['waiting', 'turn.ended'] as const;

/** A webhook whose form was checked. */
interface GivenWebhook {
  readonly url: string | URL;
  readonly events?: readonly (typeof EVENTS)[number][] | undefined;
  readonly secret?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly children?: boolean | undefined;
  readonly tenant?: string | undefined;
}

const webhook: z.ZodType<GivenWebhook> = z.strictObject({
  url: z.union([z.string().min(1), z.instanceof(URL)]),
  events: z.array(z.enum(EVENTS)).min(1).optional(),
  secret: z.string().optional(),
  headers: z.record(z.string(), z.string()).optional(),
  children: z.boolean().optional(),
  tenant: z.string().optional(),
});

/** The schema of the option. */
export const webhooksSchema: z.ZodType<readonly GivenWebhook[]> = z.array(webhook).max(WEBHOOKS_MAX);

/** Checks the webhooks. Throws `ConfigError` naming the key. The error never shows a secret or a header. */
export function checkWebhooks(given: readonly GivenWebhook[] = []): readonly CheckedWebhook[] {
  const checked = given.map(({ url, events, secret, headers = {}, children, tenant }, index) => {
    const key = `webhooks.${index}`;
    return {
      url: checkUrl(url, `${key}.url`),
      wish: { events: events ?? EVENTS, children: children ?? false, ...tenantWish(tenant, `${key}.tenant`) },
      key: secret === undefined ? undefined : checkSecret(secret, `${key}.secret`),
      headers: checkHeaders(headers, `${key}.headers`),
    };
  });
  const known = new Set<string>();
  for (const [index, { url }] of checked.entries()) {
    if (known.has(url.href)) throw problem(`webhooks.${index}.url`, 'must differ from the other webhooks');
    known.add(url.href);
  }
  return checked;
}

function tenantWish(tenant: string | undefined, key: string): Pick<NoticeWish, 'tenant'> {
  if (tenant === undefined) return {};
  if (isTenantName(tenant)) return { tenant };
  throw problem(key, 'must be the name of a tenant');
}

function checkUrl(given: string | URL, key: string): URL {
  const url = URL.canParse(String(given)) ? new URL(String(given)) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') throw problem(key, 'must be an http or https address');
  if (url.username !== '' || url.password !== '') {
    throw problem(key, 'must have no name and password; put them into the header "authorization"');
  }
  url.hash = '';
  return url;
}

function checkSecret(secret: string, key: string): Buffer {
  const text = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : '';
  const bytes = /^[A-Za-z0-9+/]+={0,2}$/.test(text) ? Buffer.from(text, 'base64') : Buffer.alloc(0);
  if (bytes.length >= WEBHOOK_SECRET_BYTES_MIN && bytes.length <= WEBHOOK_SECRET_BYTES_MAX) return bytes;
  const form = `"${SECRET_PREFIX}" and the base64 of ${WEBHOOK_SECRET_BYTES_MIN} to ${WEBHOOK_SECRET_BYTES_MAX} random bytes`;
  throw problem(key, `must be ${form}`);
}

function checkHeaders(headers: Readonly<Record<string, string>>, key: string): Readonly<Record<string, string>> {
  const names = Object.keys(headers);
  if (names.length > WEBHOOK_HEADERS_MAX) throw problem(key, `must have at most ${WEBHOOK_HEADERS_MAX} headers`);
  const own = names.find((name) => OWN_HEADERS.has(name.toLowerCase()));
  if (own !== undefined) throw problem(`${key}.${own}`, 'is set by every delivery; leave it out');
  const parsed = parsedHeaders(headers);
  if (parsed === undefined) throw problem(key, 'must be names and values that HTTP allows');
  return parsed;
}

/** Returns undefined for invalid headers. The platform's error is dropped, because its text shows the value. */
function parsedHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> | undefined {
  try {
    return Object.fromEntries(new Headers(headers));
  } catch {
    return undefined;
  }
}

function problem(key: string, text: string): ConfigError {
  return new ConfigError(`option "${key}" ${text}`, { data: { key } });
}
