/** Planted bugs of the fields of a request, which each model accepts or refuses in its own way. */
import type { PlantedBug } from './planted-bug.ts';

const CATALOG = 'actors/agent-catalog.ts';
const HEADERS = 'actors/request-headers.ts';

/** See the head of the file. */
export const requestBugs: readonly PlantedBug[] = [
  {
    name: 'bound-thoughts-forgotten',
    what: 'a model that binds its thoughts to what came before them is treated as one that does not (R21)',
    file: CATALOG,
    find: 'bindsThinking: epoch.traits.bindsThinking,',
    replace: 'bindsThinking: false,',
  },
  {
    name: 'thinking-off-by-default',
    what: 'an agent that says nothing of thinking has it disabled, which some models refuse (R45)',
    file: HEADERS,
    find: 'const { model, max_tokens, ...rest } = base;',
    replace:
      "const { model, max_tokens, ...others } = base;\n    const rest = { thinking: { type: 'disabled' }, ...others };",
  },
  {
    name: 'tool-forced',
    what: 'a request with tools forces the model to use one, which some models refuse (R28, R48)',
    file: HEADERS,
    find: '    if (isShared) plain.set(system, header);',
    replace:
      "    if (header.tools !== undefined) Object.assign(header, { tool_choice: { type: 'any' } });\n    if (isShared) plain.set(system, header);",
  },
  {
    name: 'thread-anchor-not-consumed',
    what: 'a call that was lost leaves the end of its message thread behind, so that its answer is continued twice (I20)',
    file: 'src/models/message-threads/message-threads.ts',
    find: 'const call: LatestCall = {};',
    replace: 'const call: LatestCall = anchor === undefined ? {} : { anchor };',
  },
  {
    name: 'thread-continued-after-an-edit',
    what: 'a message thread is continued although the messages that it holds have changed (I3, I20)',
    file: 'src/models/message-threads/thread-rule.ts',
    find: 'if (anchor.historyHash !== historyHash(messages.slice(0, anchor.length))) return CREATE;',
    replace: '',
  },
  {
    name: 'thread-keeps-the-old-system',
    what: 'a message thread is continued although the system prompt or another field that it keeps has changed (I20)',
    file: 'src/models/message-threads/thread-rule.ts',
    find: 'if (anchor.fixedHash !== fixedHash(request, account)) return CREATE;',
    replace: '',
  },
];
