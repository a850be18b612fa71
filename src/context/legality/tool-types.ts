/** Rules for the tools that the API defines: R60, R66. Pure. */

import { modelKey } from '../model-traits.ts';
import { given, member, type Report, type RequestView } from './report.ts';

const POINTER = [
  ...['left_click', 'right_click', 'middle_click', 'double_click', 'triple_click', 'left_click_drag'],
  ...['left_mouse_down', 'left_mouse_up', 'mouse_move', 'scroll', 'type', 'key', 'hold_key', 'wait'],
  ...['screenshot', 'zoom'],
];

/** Toolsets by type, each with the name that it reserves and its members. Source: the types of the vendor's SDK. */
const TOOLSETS: Readonly<Record<string, { readonly name: string; readonly members: ReadonlySet<string> }>> = {
  computer_toolset_20260801: { name: 'computer', members: new Set([...POINTER, 'cursor_position']) },
  browser_toolset_20260801: {
    name: 'browser',
    members: new Set([
      ...POINTER,
      ...['navigate', 'list_tabs', 'new_tab', 'switch_tab', 'close_tab', 'read_page', 'get_page_text'],
      ...['read_console', 'read_network', 'find', 'form_input', 'file_upload', 'scroll_to', 'hover'],
      'javascript_exec',
    ]),
  },
};

/**
 * The types of web tools. From the date `CODE_CALLED_SINCE` on, the model's code may call such a tool, unless
 * `allowed_callers` says otherwise.
 */
const CODE_CALLED_WEB_TOOL = /^web_(?:search|fetch)_(?<day>\d{8})$/;
const CODE_CALLED_SINCE = '20260209';

/** True if the model's code in a container may call this tool. */
export function isCalledByCode(tool: Readonly<Record<string, unknown>>): boolean {
  const callers = tool['allowed_callers'];
  if (Array.isArray(callers)) return callers.some((caller) => caller !== 'direct');
  const day = CODE_CALLED_WEB_TOOL.exec(String(tool['type']))?.groups?.['day'];
  return day !== undefined && day >= CODE_CALLED_SINCE;
}

/** Reports R60 and R66. */
export function checkToolTypes(view: RequestView, report: Report): void {
  const model = String(view.body['model']);
  for (const { tool, index } of view.tools) {
    const type = String(tool['type']);
    const path = `tools.${index}`;
    if (view.traits.refusedToolTypes?.has(type) === true) {
      report('R60', `${path}.type`, `'${model}' does not support tool types: ${type}.`);
    }
    if (view.traits.codeCallsTools === false && isCalledByCode(tool)) {
      const remedy = 'Set `allowed_callers` to ["direct"].';
      report('R60', path, `${path}: '${model}' does not support programmatic tool calling. ${remedy}`);
    }
    const toolset = TOOLSETS[type];
    if (toolset !== undefined) checkToolset(view, tool, index, toolset.name, report);
    if (type.startsWith('advisor_')) checkAdvisor(view, tool, path, report);
  }
  const choice = view.body['tool_choice'];
  const name = String(member(choice, 'name'));
  if (member(choice, 'type') !== 'tool' || !isToolsetMember(view, name)) return;
  report('R60', 'tool_choice', `tool_choice: '${name}' is a member of a toolset and cannot be chosen`);
}

/** True if the name is that of a member of a toolset in the request, and no tool of the request has this name. */
export function isToolsetMember(view: RequestView, name: string): boolean {
  if (view.tools.some(({ tool }) => tool['name'] === name)) return false;
  return view.tools.some(({ tool }) => TOOLSETS[String(tool['type'])]?.members.has(name) === true);
}

/** Reports R60 for the entry of a toolset. */
function checkToolset(
  view: RequestView,
  tool: Readonly<Record<string, unknown>>,
  index: number,
  name: string,
  report: Report,
): void {
  const path = `tools.${index}.${String(tool['type'])}`;
  for (const key of ['name', 'strict', 'input_examples']) {
    if (given(tool[key])) report('R60', `${path}.${key}`, `${path}.${key}: Extra inputs are not permitted`);
  }
  const callers = tool['allowed_callers'];
  if (given(callers) && !(Array.isArray(callers) && callers.every((caller) => caller === 'direct'))) {
    report('R60', `${path}.allowed_callers`, `${path}.allowed_callers: only ["direct"] is supported`);
  }
  if (view.tools.some((other) => other.index !== index && other.tool['name'] === name)) {
    report('R60', path, `${path}: no other tool can be named '${name}'`);
  }
}

/** Reports R66. */
function checkAdvisor(view: RequestView, tool: Readonly<Record<string, unknown>>, path: string, report: Report): void {
  const advisor = String(tool['model']);
  const key = modelKey(advisor);
  const { advisors } = view.traits;
  if (advisors === undefined || key === undefined || advisors.includes(key)) return;
  const model = String(view.body['model']);
  report('R66', `${path}.model`, `${path}.model: '${advisor}' cannot advise '${model}'`);
}
