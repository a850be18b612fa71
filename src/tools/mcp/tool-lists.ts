/** The tools that an MCP server lists, as descriptions for a model. */
import type { Tool } from '@modelcontextprotocol/client';
import { MCP_TOOLS_CHARACTERS_MAX, MCP_TOOLS_MAX } from '../../base/bounds.ts';
import { asError } from '../../base/errors.ts';
import { describeTool } from '../tool-schema.ts';
import { MCP_NAME_SEPARATOR, type McpEffect, type McpTool, type McpToolList } from './protocol.ts';

/** Characters that a tool's name may not have for a model (R29). Servers may use dots and slashes. */
const FOREIGN = /[^a-zA-Z0-9_-]/g;

/**
 * A server's tools, described and checked like all other tools. A tool that a model cannot have is left out, and so
 * are the tools beyond the bounds. `log` receives the reasons.
 */
export function describeTools(server: string, tools: readonly Tool[], log: (message: string) => void): McpToolList {
  const found = new Map<string, McpTool>();
  let characters = 0;
  for (const tool of tools) {
    try {
      const described = describe(server, tool);
      const { name } = described.description;
      if (found.has(name)) throw new Error(`the server has two tools that a model would know as ${name}`);
      characters += JSON.stringify(described).length;
      if (found.size >= MCP_TOOLS_MAX || characters > MCP_TOOLS_CHARACTERS_MAX) {
        log(
          `${tools.length - found.size} tools are left out: of a server's tools at most ${MCP_TOOLS_MAX} are taken,` +
            ` with ${MCP_TOOLS_CHARACTERS_MAX} characters in total`,
        );
        break;
      }
      found.set(name, described);
    } catch (error) {
      log(`the tool ${JSON.stringify(tool.name)} is left out: ${asError(error).message}`);
    }
  }
  return { server, tools: [...found.values()] };
}

function describe(server: string, { name, title, description, inputSchema, annotations }: Tool): McpTool {
  const text = [description, title, annotations?.title, name].find((each) => each !== undefined && each.trim() !== '');
  return {
    name,
    description: describeTool({
      name: `${server}${MCP_NAME_SEPARATOR}${name.replaceAll(FOREIGN, '_')}`,
      description: text,
      input: inputSchema,
      effect: effectOf(annotations),
      run: () => undefined,
    }),
  };
}

/**
 * The effect that a server's hints give. The hints say whether a call may run again. A call without a hint runs only
 * once.
 */
function effectOf(annotations: Tool['annotations']): McpEffect {
  if (annotations?.readOnlyHint === true) return 'pure';
  return annotations?.idempotentHint === true ? 'keyed' : 'once';
}
