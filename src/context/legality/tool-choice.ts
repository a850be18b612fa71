/** Rules for `tool_choice`: R28, R41, R48. Pure. */
import { member, type Report, type RequestView } from './report.ts';
import { isToolsetMember } from './tool-types.ts';

/** Reports R28, R41 and R48. */
export function checkToolChoice(view: RequestView, report: Report): void {
  checkForced(view, report);
  const choice = view.body['tool_choice'];
  const name = String(member(choice, 'name'));
  const isKnown = view.tools.some(({ tool }) => tool['name'] === name);
  // A choice that names a member of a toolset breaks R60 instead.
  if (member(choice, 'type') === 'tool' && !isKnown && !isToolsetMember(view, name)) {
    report('R41', 'tool_choice', `Tool '${name}' not found in provided tools`);
  }
  const used = view.messages.some(({ blocks }) => blocks.some(({ type }) => type === 'tool_use'));
  // A continued thread keeps its tools, so the request need not have any.
  if (used && view.tools.length === 0 && member(view.body['thread'], 'type') !== 'continue') {
    report('R41', 'tools', 'tools: must be given when messages hold `tool_use` blocks');
  }
}

/** Reports R28 and R48. */
function checkForced(view: RequestView, report: Report): void {
  const type = member(view.body['tool_choice'], 'type');
  if (type !== 'any' && type !== 'tool') return;
  const { forcedTool, forcedToolWithThinking } = view.traits;
  if (forcedTool === false) {
    report('R48', 'tool_choice', 'tool_choice: type "tool" and "any" are not supported for this model.');
    return;
  }
  const mode = member(view.body['thinking'], 'type');
  if (mode !== 'enabled' && mode !== 'adaptive') return;
  // Some models accept a forced tool while they think by default. It is not known whether they also accept it beside an
  // explicit `thinking`, so for these models this is only a warning.
  const isKnown = mode === 'enabled' || forcedToolWithThinking === false;
  report('R28', 'tool_choice', 'Thinking may not be enabled when tool_choice forces tool use.', isKnown);
}
