/** Rules for compactions by the API on demand, and for the blocks that compactions leave: R55. Pure. */
import { blockPath, given, member, needsBeta, type Report, type RequestView } from './report.ts';

const ON_DEMAND = ['compact-2026-09-04'];
/** With this setting the API compacts by itself, and leaves a block at each position where it compacted. */
const AUTOMATIC = 'compact_20260112';

/** Reports R55. */
export function checkCompaction(view: RequestView, report: Report): void {
  if (given(view.body['compaction'])) checkAsked(view, report);
  const edits = member(view.body['context_management'], 'edits');
  if (Array.isArray(edits) && edits.some((edit) => member(edit, 'type') === AUTOMATIC)) return;
  let full = 0;
  for (const message of view.messages) {
    message.blocks.forEach((block, index) => {
      if (block.type !== 'compaction') return;
      const path = blockPath(message, index);
      needsBeta(view, ON_DEMAND, 'R55', path, report);
      if (typeof block['content'] === 'string' && block['content'] !== '') full += 1;
      if (full > 1) {
        const text = '`messages` holds more than one `compaction` block with content';
        report('R55', path, `${path}: ${text}`, true, 'compaction_block_ambiguous');
      } else if (message.role === 'system' || index > 0 || message !== view.messages[0]) {
        const text = 'the `compaction` block is not the first block of the conversation';
        report('R55', path, `${path}: ${text}`, true, 'compaction_block_misplaced');
      }
    });
  }
}

/** Checks a request for a compaction. Such a request may have fewer settings than other requests. */
function checkAsked(view: RequestView, report: Report): void {
  const { body } = view;
  needsBeta(view, ON_DEMAND, 'R55', 'compaction', report);
  const config = body['output_config'];
  const choice = member(body['tool_choice'], 'type');
  const taken: readonly (readonly [string, boolean])[] = [
    ['context_management', given(body['context_management'])],
    ['stop_sequences', given(body['stop_sequences'])],
    ['tool_choice', choice === 'any' || choice === 'tool'],
    ['output_config.format', given(member(config, 'format'))],
    ['output_config.task_budget.remaining', given(member(member(config, 'task_budget'), 'remaining'))],
  ];
  for (const [path, isGiven] of taken) {
    if (isGiven) report('R55', path, `${path}: is not supported with \`compaction\``);
  }
}
