/** Finds the tools among a module's exports, and describes them. Runs on tool threads. */
import { ConfigError } from '../base/errors.ts';
import type { ModuleExports } from '../threads/user-modules.ts';
import type { FoundTool } from './pool.ts';
import type { AnyTool } from './tool.ts';
import { describeTool, looksLikeTool } from './tool-schema.ts';

/** The tool that a module exports under this name; `undefined` when there is none. */
export function toolOf(exports: ModuleExports, exportName: string): AnyTool | undefined {
  const value = Object.hasOwn(exports, exportName) ? exports[exportName] : undefined;
  return looksLikeTool(value) ? (value as unknown as AnyTool) : undefined;
}

/** The tool that an export makes from `options`, a JSON text; `undefined` when the export makes no tool. */
export function makeTool(exports: ModuleExports, exportName: string, options: string): AnyTool | undefined {
  const make = Object.hasOwn(exports, exportName) ? exports[exportName] : undefined;
  const value: unknown = typeof make === 'function' ? make(JSON.parse(options)) : undefined;
  return looksLikeTool(value) ? (value as unknown as AnyTool) : undefined;
}

/**
 * Every tool that a module exports, by export name. A tool exported twice counts once. Throws `ConfigError` that names
 * the module and the export when a tool is faulty, two tools share a name, or the module exports no tool.
 */
export function findTools(exports: ModuleExports, url: string): readonly FoundTool[] {
  const found: FoundTool[] = [];
  const seen = new Set<unknown>();
  for (const [exportName, value] of Object.entries(exports)) {
    if (!looksLikeTool(value) || seen.has(value)) continue;
    seen.add(value);
    const description = describeExport(value, exportName, url);
    if (found.some((other) => other.description.name === description.name)) {
      throw new ConfigError(
        `tool module ${url} has two tools named ${JSON.stringify(description.name)}; a model knows a tool by its name alone`,
        {
          data: { url, exportName, rule: 'R30' },
        },
      );
    }
    found.push({ exportName, description });
  }
  if (found.length === 0) {
    throw new ConfigError(`tool module ${url} exports no tool`, { data: { url } });
  }
  return found;
}

function describeExport(value: unknown, exportName: string, url: string): FoundTool['description'] {
  try {
    return describeTool(value);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(`tool module ${url}, export ${exportName}: ${error.message}`, {
      cause: error,
      data: { ...error.data, url, exportName },
    });
  }
}
