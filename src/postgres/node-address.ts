/** The address of a node as an option, and as the text in its row. */
import { z } from 'zod';
import { NODE_HOST_CHARACTERS_MAX, PORT_MAX } from '../base/bounds.ts';
import type { NodeAddress } from '../cluster/plan.ts';

/** Addresses that mean all addresses of a machine: another node that connects to one reaches its own machine. */
const ANY_ADDRESS: ReadonlySet<string> = new Set(['0.0.0.0', '::', '*']);

/** The schema of the option `listen`. Port 0 is any free one. */
export const listenSchema: z.ZodType<NodeAddress> = z.strictObject({
  host: z
    .string()
    .trim()
    .min(1)
    .max(NODE_HOST_CHARACTERS_MAX)
    .refine((host) => !ANY_ADDRESS.has(host), 'must be the address at which the other nodes reach this machine'),
  port: z.number().int().min(0).max(PORT_MAX),
});

/** The port follows the last colon, so the host may be an address of IPv6. */
const textSchema = z
  .string()
  .regex(/^\S+:\d{1,5}$/u)
  .transform((text): unknown => {
    const colon = text.lastIndexOf(':');
    return { host: text.slice(0, colon), port: Number(text.slice(colon + 1)) };
  })
  .pipe(listenSchema)
  .refine(({ port }) => port > 0);

/** The text of an address in a row. */
export function addressText({ host, port }: NodeAddress): string {
  return `${host}:${port}`;
}

/** The address in a row; undefined for a null, and for a text that is no address. */
export function addressIn(text: unknown): NodeAddress | undefined {
  return textSchema.safeParse(text).data;
}
