/**
 * The built-in tools; none is granted by default. In an agent's `tools`, a URL (`readFileTool`) gives the tool with
 * default bounds. A value (`read_file`, `readFile({ root })`) has the bounds it was made with. In both cases the tool
 * runs on the tool threads. `bash` runs on the shell thread. The tools that read messages ask the runtime on the host
 * thread.
 */
import { workerUrl } from '../../threads/worker-url.ts';

export { type AskOptions, type AskTool, askHuman, askParent } from './ask-tools.ts';
export { type BashInput, type BashOptions, type BashTool, bash, bashTool } from './bash.ts';
export { type EditFileInput, type EditFileOptions, edit_file, editFile } from './edit-file.ts';
export {
  type MemoryTool,
  type SearchMessagesInput,
  search_messages,
  type ViewMessagesInput,
  view_messages,
} from './memory-tools.ts';
export { type ReadFileInput, type ReadFileOptions, read_file, readFile } from './read-file.ts';
export { mark_goal_completed, type RuntimeTool, spawn_specialist, spawn_subagent } from './runtime-tool-names.ts';
export { type ThinkInput, type ThinkingOptions, think, thinking } from './think.ts';
export { type WebGetInput, type WebGetOptions, web_get, webGet } from './web-get.ts';
export { type WriteFileInput, type WriteFileOptions, write_file, writeFile } from './write-file.ts';

/** `edit_file`, on the tool threads. */
export const editFileTool: URL = workerUrl('./edit-file', import.meta.url);
/** `read_file`, on the tool threads. */
export const readFileTool: URL = workerUrl('./read-file', import.meta.url);
/** `think`, on the tool threads. */
export const thinkTool: URL = workerUrl('./think', import.meta.url);
/** `web_get`, on the tool threads. */
export const webGetTool: URL = workerUrl('./web-get', import.meta.url);
/** `write_file`, on the tool threads. */
export const writeFileTool: URL = workerUrl('./write-file', import.meta.url);
