/** Rules for cache marks, the fields `cache_control` of a request: R16 to R19, R43. Pure. */
import { isRecord } from '../../base/json.ts';
import { type BlockView, blockPath, type Report, type RequestView } from './report.ts';

/** The most cache marks of one request (R16). */
const CACHE_MARKS_MAX = 4;

interface Mark {
  readonly path: string;
  readonly ttl: string;
}

/** Reports R16 to R19 and R43. Returns the number of marks. */
export function checkCacheMarks(view: RequestView, report: Report): number {
  const marks: Mark[] = [];
  const visit = (holder: Readonly<Record<string, unknown>>, path: string): void => {
    if (!isRecord(holder['cache_control'])) return;
    marks.push({ path, ttl: ttlOf(holder['cache_control']) });
    checkPlace(holder, path, report);
  };
  // The order of the API's prefix: tools, system, messages.
  for (const { tool, index } of view.tools) visit(tool, `tools.${index}`);
  view.system.forEach((block, index) => {
    visit(block, `system.${index}`);
  });
  for (const message of view.messages) {
    message.blocks.forEach((block, index) => {
      const path = blockPath(message, index);
      if (block.type === 'tool_result' && Array.isArray(block['content'])) {
        block['content'].forEach((part: unknown, at) => {
          if (isRecord(part)) visit(part, `${path}.tool_result.content.${at}`);
        });
      }
      visit(block, path);
    });
  }
  // A mark of the whole request applies to the request's last block. It counts unless that block has its own mark.
  const isExtra = isRecord(view.body['cache_control']) && !isRecord(targetOf(view)?.['cache_control']);
  const count = marks.length + (isExtra ? 1 : 0);
  if (count > CACHE_MARKS_MAX) {
    const text = `A maximum of ${CACHE_MARKS_MAX} blocks with cache_control may be provided. Found ${count}.`;
    report('R16', '', text);
  }
  checkLifetimes(marks, report);
  checkTopLevel(view, report);
  return count;
}

function targetOf(view: RequestView): BlockView | undefined {
  return view.messages.at(-1)?.blocks.at(-1);
}

/** Checks that a block with a mark is of a kind that may have a mark (R17, R43). */
function checkPlace(holder: Readonly<Record<string, unknown>>, path: string, report: Report): void {
  if (holder['type'] === 'text' && holder['text'] === '') {
    report('R17', path, `${path}: cache_control cannot be set for empty text blocks`);
  }
  if (holder['type'] === 'thinking' || holder['type'] === 'redacted_thinking') {
    report('R43', path, `${path}: cache_control cannot be set for thinking blocks`);
  }
}

/** Checks the order of the marks' lifetimes (R18): a longer lifetime must not follow a shorter one. */
function checkLifetimes(marks: readonly Mark[], report: Report): void {
  const firstShort = marks.findIndex((mark) => mark.ttl === '5m');
  if (firstShort === -1) return;
  const late = marks.slice(firstShort).find((mark) => mark.ttl === '1h');
  if (late === undefined) return;
  const path = `${late.path}.cache_control.ttl`;
  const text = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block";
  report('R18', path, `${path}: ${text}`);
}

/** Checks R19: the mark of the whole request agrees with the mark of the block to which it applies. */
function checkTopLevel(view: RequestView, report: Report): void {
  const top = view.body['cache_control'];
  const target = targetOf(view)?.['cache_control'];
  if (!isRecord(top) || !isRecord(target) || ttlOf(top) === ttlOf(target)) return;
  const text = `Top-level cache_control has ttl='${ttlOf(top)}' but the target block already has ttl='${ttlOf(target)}'`;
  report('R19', 'cache_control', text);
}

function ttlOf(mark: Readonly<Record<string, unknown>>): string {
  return typeof mark['ttl'] === 'string' ? mark['ttl'] : '5m';
}
