/**
 * Converts a page to Markdown (contract §11.3): its main part if it has one, otherwise everything but navigation and
 * other surroundings. The result is made for reading: text is not escaped, so that names and code stay unchanged. The
 * time grows at most with the length of the page times the depth of its tree, which `html-tree.ts` bounds.
 */
import { HTML_INDENT_LEVELS_MAX } from '../../base/bounds.ts';
import { type HtmlElement, type HtmlNode, isBlock, parseHtml } from './html-tree.ts';

/** Elements left out of a page without a main part. */
const SURROUNDINGS: ReadonlySet<string> = new Set(['nav', 'footer', 'aside', 'form', 'header', 'menu']);
const NOTHING: ReadonlySet<string> = new Set();
const LISTS: ReadonlySet<string> = new Set(['ul', 'ol', 'menu', 'dir']);
const ROW_GROUPS: ReadonlySet<string> = new Set(['thead', 'tbody', 'tfoot']);
/**
 * Elements that a cell of a data table does not contain. If a cell contains one of them, the table counts as layout.
 */
const BEYOND_CELLS: ReadonlySet<string> = new Set('ul ol dl table pre blockquote h1 h2 h3 h4 h5 h6 hr'.split(' '));
const MARKS: ReadonlyMap<string, string> = new Map([
  ['b', '**'],
  ['strong', '**'],
  ['i', '_'],
  ['em', '_'],
  ['del', '~~'],
  ['s', '~~'],
]);
/**
 * When its links are made absolute, a page may grow by its own length plus this many characters.
 */
const LINKS_GROWTH = 20_000;
/** Maximum length, in UTF-16 units, of a page's own base URL. */
const BASE_CHARACTERS_MAX = 2_048;
const LINKED: ReadonlySet<string> = new Set(['http:', 'https:', 'mailto:', 'tel:']);

/** One paragraph, heading, list and so on: lines without blank lines around them. */
interface Block {
  readonly text: string;
  readonly isList: boolean;
}

/**
 * The Markdown of a page that was fetched from `url`, without blank lines around it. Never rejects because of the
 * page's content.
 */
export async function htmlToMarkdown(html: string, url: URL): Promise<string> {
  const root = await parseHtml(html);
  const mains = mainParts(root);
  const page = new Page(mains === undefined ? SURROUNDINGS : NOTHING, baseOf(root, url), html.length + LINKS_GROWTH);
  return joined(page.blocks(mains ?? [root], 0));
}

/**
 * The main parts of a page: `<main>`, otherwise the articles, otherwise elements with the role `main`. Only outermost
 * elements count. `undefined`: the page marks no main part.
 */
function mainParts(root: HtmlElement): readonly HtmlElement[] | undefined {
  const isMain = ({ name }: HtmlElement): boolean => name === 'main';
  const isArticle = ({ name }: HtmlElement): boolean => name === 'article';
  const hasRole = ({ attributes }: HtmlElement): boolean => attributes.get('role')?.trim().toLowerCase() === 'main';
  return [isMain, isArticle, hasRole].map((fits) => outermost(root, fits)).find((found) => found.length > 0);
}

function outermost(from: HtmlElement, fits: (element: HtmlElement) => boolean): readonly HtmlElement[] {
  const found: HtmlElement[] = [];
  const look = (element: HtmlElement): void => {
    if (fits(element)) found.push(element);
    else for (const child of element.children) if (typeof child !== 'string') look(child);
  };
  look(from);
  return found;
}

/** The base URL of relative links, which the page may set. */
function baseOf(root: HtmlElement, url: URL): URL {
  const [base] = outermost(root, ({ name, attributes }) => name === 'base' && attributes.has('href'));
  const href = base?.attributes.get('href');
  // Every link is parsed together with the base URL, so a page must not be able to set a very long one.
  if (href === undefined || href.length > BASE_CHARACTERS_MAX || !URL.canParse(href, url.href)) return url;
  return new URL(href, url);
}

function joined(blocks: readonly Block[]): string {
  return blocks.map(({ text }) => text).join('\n\n');
}

/** The conversion of one page. Recursion is safe here, because `html-tree.ts` bounds the depth of the tree. */
class Page {
  readonly #leftOut: ReadonlySet<string>;
  readonly #base: URL;
  /**
   * Characters by which links may still grow when they are made absolute. Without this bound each link could repeat a
   * long base URL.
   */
  #growth: number;

  constructor(leftOut: ReadonlySet<string>, base: URL, growthMax: number) {
    this.#leftOut = leftOut;
    this.#base = base;
    this.#growth = growthMax;
  }

  /** The blocks of consecutive nodes. `level`: the number of lists and quotations around them. */
  blocks(nodes: readonly HtmlNode[], level: number): readonly Block[] {
    const blocks: Block[] = [];
    let run = '';
    const flush = (): void => {
      const text = tidy(run);
      run = '';
      if (text !== '') blocks.push({ text, isList: false });
    };
    const take = (node: HtmlNode): void => {
      if (typeof node === 'string' || !this.#isTransparent(node)) {
        if (typeof node === 'string' || !isBlock(node.name)) run += this.#inline(node);
        else {
          flush();
          for (const block of this.#block(node, level)) blocks.push(block);
        }
      } else for (const child of node.children) take(child);
    };
    for (const node of nodes) take(node);
    flush();
    return blocks;
  }

  /** True for an inline element around blocks: only its children are converted. A link with a target is kept. */
  #isTransparent({ name, hasBlocks, attributes }: HtmlElement): boolean {
    if (isBlock(name)) return false;
    return hasBlocks && !(name === 'a' && attributes.has('href'));
  }

  #block(element: HtmlElement, level: number): readonly Block[] {
    const { name, children } = element;
    if (this.#leftOut.has(name)) return [];
    const heading = /^h([1-6])$/u.exec(name)?.[1];
    if (heading !== undefined) return one(prefixed(`${'#'.repeat(Number(heading))} `, this.#line(children)));
    if (name === 'hr') return one('---');
    if (name === 'pre') return one(fenced(element));
    if (LISTS.has(name)) return one(this.#list(element, level), true);
    if (name === 'li') return one(this.#item('- ', children, level), true);
    if (name === 'blockquote') return one(quoted(joined(this.blocks(children, level + 1)), level));
    return (name === 'table' ? this.#table(element) : undefined) ?? this.blocks(children, level);
  }

  #list({ name, attributes, children }: HtmlElement, level: number): string {
    const start = Number(attributes.get('start') ?? 1);
    let number = Number.isSafeInteger(start) ? start : 1;
    const items: string[] = [];
    for (const child of children) {
      const isItem = typeof child !== 'string' && child.name === 'li';
      const marker = name === 'ol' ? `${number}. ` : '- ';
      const text = this.#item(isItem ? marker : '  ', isItem ? child.children : [child], level);
      if (text !== '' && isItem) number += 1;
      if (text !== '') items.push(text);
    }
    return items.join('\n');
  }

  #item(marker: string, nodes: readonly HtmlNode[], level: number): string {
    const blocks = this.blocks(nodes, level + 1);
    const text = blocks.map((block, at) => `${at === 0 ? '' : block.isList ? '\n' : '\n\n'}${block.text}`).join('');
    if (text === '') return '';
    return marker + (level < HTML_INDENT_LEVELS_MAX ? indented(text, ' '.repeat(marker.length)) : text);
  }

  /** A data table; `undefined` for a table that is only layout. */
  #table(table: HtmlElement): readonly Block[] | undefined {
    const rows: HtmlElement[] = [];
    const captions: HtmlElement[] = [];
    if (!sortRows(table, rows, captions)) return undefined;
    const cells = rows.map((row) => row.children.filter((child) => typeof child !== 'string'));
    const width = cells[0]?.length ?? 0;
    if (width < 2 || cells.flat().some(isBeyondCell)) return undefined;
    const lines = cells.map((row) => rowLine(row.map((cell) => this.#line([cell]).replaceAll('|', '\\|'))));
    lines.splice(1, 0, rowLine(new Array<string>(width).fill('---')));
    return [...this.blocks(captions, 0), ...one(lines.join('\n'))];
  }

  /** The nodes on a single line. */
  #line(nodes: readonly HtmlNode[]): string {
    return tidy(nodes.map((node) => this.#inline(node)).join('')).replace(/\n+/gu, ' ');
  }

  /** Text within a line; `\n` stands for a line break, and spaces are not yet tidied. */
  #inline(node: HtmlNode): string {
    if (typeof node === 'string') return node.replace(/\s+/gu, ' ');
    const { name, attributes, children } = node;
    if (this.#leftOut.has(name)) return '';
    if (name === 'br') return '\n';
    if (name === 'img') return this.#image(attributes);
    if (name === 'code' || name === 'kbd' || name === 'samp') return codeOf(node);
    const text = children.map((child) => this.#inline(child)).join('');
    if (isBlock(name)) return ` ${text} `;
    if (name === 'a') return this.#link(text, attributes.get('href'));
    const mark = MARKS.get(name);
    return mark === undefined ? text : around(mark, text, mark);
  }

  #link(text: string, href: string | undefined): string {
    const target = href === undefined || href.startsWith('#') ? undefined : this.#target(href);
    return target === undefined ? text : around('[', text.replace(/\n+/gu, ' '), `](${target})`);
  }

  #image(attributes: ReadonlyMap<string, string>): string {
    const alt = (attributes.get('alt') ?? '').replace(/\s+/gu, ' ').trim();
    const source = attributes.get('src');
    const target = source === undefined ? undefined : this.#target(source);
    // An image without a description is decoration.
    if (alt === '') return '';
    return target === undefined ? alt : `![${alt}](${target})`;
  }

  /**
   * A link made absolute, or as the page has it once `#growth` is used up. `undefined` for scripts, data and invalid
   * URLs, which cannot be opened.
   */
  #target(href: string): string | undefined {
    const written = href.trim();
    if (!URL.canParse(written, this.#base.href)) return undefined;
    const { protocol, href: whole } = new URL(written, this.#base);
    if (!LINKED.has(protocol)) return undefined;
    const growth = whole.length - written.length;
    const isWhole = growth <= this.#growth;
    if (isWhole) this.#growth -= Math.max(0, growth);
    return (isWhole ? whole : written).replace(/[\s()<>]/gu, (character) => encoded(character));
  }
}

function encoded(character: string): string {
  return `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`;
}

function one(text: string, isList = false): readonly Block[] {
  return text === '' ? [] : [{ text, isList }];
}

function prefixed(prefix: string, text: string): string {
  return text === '' ? '' : prefix + text;
}

/** Leaves at most one space between words, none at the ends of lines, and at most one empty line. */
function tidy(text: string): string {
  return text
    .replace(/ +/gu, ' ')
    .replace(/ ?\n ?/gu, '\n')
    .replace(/\n{3,}/gu, '\n\n')
    .trim();
}

/** Puts the marks directly around the words; surrounding spaces stay outside. */
function around(before: string, text: string, after: string): string {
  const inner = text.trim();
  if (inner === '') return text;
  const start = text.length - text.trimStart().length;
  return text.slice(0, start) + before + inner + after + text.slice(start + inner.length);
}

function indented(text: string, by: string): string {
  return text.replace(/\n(?=[^\n])/gu, `\n${by}`);
}

function quoted(text: string, level: number): string {
  if (text === '' || level >= HTML_INDENT_LEVELS_MAX) return text;
  return `> ${text.replaceAll('\n', '\n> ')}`.replace(/> $/gmu, '>');
}

function rowLine(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}

/** Sorts the parts of a table; false if it contains anything that a data table does not have. */
function sortRows(part: HtmlElement, rows: HtmlElement[], captions: HtmlElement[]): boolean {
  return part.children.every((child) => {
    if (typeof child === 'string') return child.trim() === '';
    if (ROW_GROUPS.has(child.name)) return sortRows(child, rows, captions);
    if (child.name === 'caption') captions.push(child);
    if (child.name === 'tr' && hasOnlyCells(child)) rows.push(child);
    else return child.name === 'caption' || child.name === 'colgroup' || child.name === 'col';
    return true;
  });
}

function hasOnlyCells({ children }: HtmlElement): boolean {
  return children.every((child) =>
    typeof child === 'string' ? child.trim() === '' : child.name === 'td' || child.name === 'th',
  );
}

function isBeyondCell(node: HtmlNode): boolean {
  if (typeof node === 'string' || !node.hasBlocks) return false;
  return node.children.some(
    (child) => typeof child !== 'string' && (BEYOND_CELLS.has(child.name) || isBeyondCell(child)),
  );
}

/** All text of an element as written, with its line breaks. */
function rawText(node: HtmlNode): string {
  if (typeof node === 'string') return node;
  return node.name === 'br' ? '\n' : node.children.map(rawText).join('');
}

function longestTicks(text: string): number {
  return (text.match(/`+/gu) ?? []).reduce((longest, { length }) => Math.max(longest, length), 0);
}

function fenced(pre: HtmlElement): string {
  const text = rawText(pre).replaceAll('\r\n', '\n').replace(/^\n/u, '').trimEnd();
  if (text === '') return '';
  const fence = '`'.repeat(Math.max(3, longestTicks(text) + 1));
  const [code = pre] = outermost(pre, ({ name }) => name === 'code');
  const language = /(?:^|\s)lang(?:uage)?-([\w+#.-]{1,40})/u.exec(code.attributes.get('class') ?? '')?.[1] ?? '';
  return `${fence}${language}\n${text}\n${fence}`;
}

function codeOf(code: HtmlElement): string {
  const text = rawText(code).replace(/\s+/gu, ' ');
  const ticks = '`'.repeat(longestTicks(text) + 1);
  const gap = text.trim().startsWith('`') || text.trim().endsWith('`') ? ' ' : '';
  return around(ticks + gap, text, gap + ticks);
}
