/**
 * The origin of a tool value: the module and the function that can make the same tool on another thread. A built-in
 * tool has an origin, so that the tool runs on the tool threads although it is given as a value.
 *
 * Owns: which value has which origin. A copy of a tool has no origin, because its `run` may differ.
 */
import { toPlainJson } from '../base/json.ts';

/** See the head of the file. Plain data, so that it can be sent to threads. */
export interface ToolOrigin {
  readonly url: string;
  /** The export of the module that makes the tool. */
  readonly exportName: string;
  /** The argument of that export, as JSON. */
  readonly options: string;
}

const ORIGINS = new WeakMap<object, ToolOrigin>();

/** Notes that `exportName` of the module `url` makes this tool from `options`, which must be plain JSON. */
export function withOrigin<Made extends object>(tool: Made, url: string, exportName: string, options: object): Made {
  ORIGINS.set(tool, { url, exportName, options: JSON.stringify(toPlainJson(options)) });
  return tool;
}

/** The origin of a tool, if it has one. */
export function originOf(tool: object): ToolOrigin | undefined {
  return ORIGINS.get(tool);
}
