/** Loads the MCP client, which is an optional package, only for a runtime that has MCP servers. */
import { ConfigError, systemCodeOf } from '../../base/errors.ts';
import type { McpConnections, McpListener } from './protocol.ts';

const PACKAGE = '@modelcontextprotocol/client';

/**
 * The connections to MCP servers, on this thread. `version`: the version of this library. If the client's package is
 * missing, rejects with a `ConfigError` that names the package and the command to install it.
 */
export async function loadService(listener: McpListener, version: string): Promise<McpConnections> {
  try {
    const { McpService } = await import('./service.ts');
    return new McpService(listener, version);
  } catch (error) {
    if (systemCodeOf(error) !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new ConfigError(`option "mcp" needs the package ${PACKAGE}: npm install ${PACKAGE}@^2.4.0`, {
      cause: error,
      data: { key: 'mcp', package: PACKAGE },
    });
  }
}
