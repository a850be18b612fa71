/**
 * The tools that MCP servers listed last, kept in the store's directory. After a restart a session's requests and open
 * calls need the tools of a server before the server has started again. Lives on the host thread.
 *
 * Owns: the file. Does not own: the servers, the lists that are in use now.
 *
 *  N1 a list is used only for a server of the same name with the same command and arguments, or the same address;
 *  N2 one write runs at a time; the newest lists are written last;
 *  N3 a file that cannot be read or written is reported, and only the kept lists are lost.
 */
import { createHash, randomUUID } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { MCP_SERVERS_MAX, MCP_TOOLS_CHARACTERS_MAX } from '../../base/bounds.ts';
import { asError, systemCodeOf } from '../../base/errors.ts';
import type { Json } from '../../base/json.ts';
import { putFile } from '../../journal/store/durable-file.ts';
import type { McpServer, McpServerMap, McpToolList } from '../../tools/mcp/protocol.ts';
import type { GuardedLogger } from '../protocol/options.ts';

/** The file in the store's directory. */
const FILE = 'mcp-tools.json';
const FILE_FORMAT = 1;
/** A character of a list takes three bytes at most. */
const FILE_BYTES_MAX: number = 3 * MCP_SERVERS_MAX * MCP_TOOLS_CHARACTERS_MAX;

/** The list of one server, and the digest of the server's program or address when it gave the list. */
interface KnownList extends McpToolList {
  readonly origin: string;
}

const fileSchema: z.ZodType<{ readonly format: typeof FILE_FORMAT; readonly lists: readonly KnownList[] }> = z.object({
  format: z.literal(FILE_FORMAT),
  lists: z.array(
    z.object({
      server: z.string(),
      origin: z.string(),
      tools: z.array(
        z.object({
          name: z.string(),
          description: z.object({
            name: z.string(),
            description: z.string(),
            inputSchema: z.custom<Readonly<Record<string, Json>>>(
              (value) => typeof value === 'object' && value !== null,
            ),
            effect: z.enum(['pure', 'keyed', 'once']),
            adjustableTimeout: z.boolean(),
            truncate: z.boolean(),
          }),
        }),
      ),
    }),
  ),
});

/** See the head of the file. `directory`: the store's; undefined: the store is in memory, and nothing is kept. */
export class KnownTools {
  readonly #directory: string | undefined;
  readonly #logger: GuardedLogger | undefined;
  #next: readonly KnownList[] | undefined;
  #writing: Promise<void> | undefined;

  constructor(directory: string | undefined, logger: GuardedLogger | undefined) {
    this.#directory = directory;
    this.#logger = logger;
  }

  /** The lists of these servers, as far as they are known (N1). Never rejects. */
  async read(servers: McpServerMap): Promise<readonly McpToolList[]> {
    if (this.#directory === undefined) return [];
    const path = join(this.#directory, FILE);
    try {
      const { size } = await stat(path);
      if (size > FILE_BYTES_MAX) throw new Error(`it has ${size} bytes`);
      const { lists } = fileSchema.parse(JSON.parse(await readFile(path, 'utf8')));
      return lists.flatMap(({ server, origin, tools }) => {
        const definition = Object.hasOwn(servers, server) ? servers[server] : undefined;
        const isSame = definition !== undefined && originOf(definition) === origin;
        return isSame ? [{ server, tools }] : [];
      });
    } catch (error) {
      if (systemCodeOf(error) !== 'ENOENT') {
        this.#logger?.warn({ path }, `the list of MCP tools ${path} is broken and ignored: ${asError(error).message}`);
      }
      return [];
    }
  }

  /** Keeps the lists of these servers. */
  keep(lists: readonly McpToolList[], servers: McpServerMap): void {
    if (this.#directory === undefined) return;
    this.#next = lists.flatMap(({ server, tools }) => {
      const definition = Object.hasOwn(servers, server) ? servers[server] : undefined;
      return definition === undefined ? [] : [{ server, origin: originOf(definition), tools }];
    });
    this.#writing ??= this.#write(this.#directory);
  }

  /** Resolves when nothing is being written. */
  async close(): Promise<void> {
    await this.#writing;
  }

  async #write(directory: string): Promise<void> {
    while (this.#next !== undefined) {
      const lists = this.#next;
      this.#next = undefined;
      try {
        await putFile(join(directory, FILE), JSON.stringify({ format: FILE_FORMAT, lists }), `.${randomUUID()}.new`);
      } catch (error) {
        this.#logger?.warn({}, `the list of MCP tools cannot be stored: ${asError(error).message}`);
      }
    }
    this.#writing = undefined;
  }
}

/** A digest of the server's program or address. An argument may be a secret, and no file of the store may have it. */
function originOf(server: McpServer): string {
  const origin = 'command' in server ? [server.command, ...(server.args ?? [])] : [server.url];
  return createHash('sha256').update(JSON.stringify(origin)).digest('base64url');
}
