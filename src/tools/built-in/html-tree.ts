/**
 * Parses HTML into a tree that has everything that the conversion to text needs. Time and memory are linear in the
 * page, whatever its content (F76): no search of the open elements looks at more than `HTML_DEPTH_MAX` of them.
 *
 * The tree is built from htmlparser2's tokens, not with its parser and domhandler. That parser searches all open
 * elements at each end tag, and its tree is as deep as the page. The parser needs 4.3 s for 80,000 `<b>` and as many
 * `</i>`; this file needs 0.07 s. The parser also has no rules for T1, T2, and which tag ends which element. So most of
 * this file would be needed even with the parser.
 *
 * T1 no element lies deeper than `HTML_DEPTH_MAX`; content of a deeper element becomes content of the innermost element
 *    that is kept.
 * T2 nothing of an element of `DROPPED` is in the tree.
 * T3 `hasBlocks` is true exactly for elements that hold a block element.
 */
import type { TokenizerCallbacks } from 'htmlparser2';
import { HTML_DEPTH_MAX } from '../../base/bounds.ts';

/** An element. The name is in lower case, and only the attributes of `ATTRIBUTES` are kept. */
export interface HtmlElement {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly HtmlNode[];
  /** True if the element holds block elements, at any depth (T3). */
  readonly hasBlocks: boolean;
}

/** An element, or a text with its entities decoded. */
export type HtmlNode = HtmlElement | string;

interface OpenElement extends HtmlElement {
  attributes: ReadonlyMap<string, string>;
  readonly children: HtmlNode[];
  hasBlocks: boolean;
}

/** Elements that are left out: they are not meant for people, or not part of this page. */
const DROPPED: ReadonlySet<string> = names('script style noscript iframe svg template title');
const VOID: ReadonlySet<string> = names('area base br col embed hr img input link meta param source track wbr');
/** The attributes that are kept, because readers of the tree use them. */
const ATTRIBUTES: ReadonlySet<string> = names('href src alt role class start');
const NO_ATTRIBUTES: ReadonlyMap<string, string> = new Map();
/** Elements that are on separate lines. */
const BLOCKS: ReadonlySet<string> = names(
  'address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure footer form ' +
    'h1 h2 h3 h4 h5 h6 header hgroup hr html li main menu nav ol optgroup option p pre search section select summary table tbody td ' +
    'textarea tfoot th thead tr ul',
);
const TABLE_PARTS: ReadonlySet<string> = names('table thead tbody tfoot tr td th caption');
/**
 * An end tag of a block element has an effect only inside the nearest of these elements. End tags of table parts are
 * not limited in this way.
 */
const CELLS: ReadonlySet<string> = names('td th caption');
/** An end tag of an inline element closes neither the nearest of these elements nor an element outside it. */
const PARTS: ReadonlySet<string> = names('td th caption body main article section');

/**
 * The elements that an opening tag ends. Only an element that is open inside the nearest open element of `within` is
 * ended.
 */
interface Ending {
  readonly ends: ReadonlySet<string>;
  readonly within: ReadonlySet<string>;
}
const ENDINGS: ReadonlyMap<string, Ending> = new Map([
  ...endings('li', 'li', 'ul ol menu dir table'),
  ...endings('dt dd', 'dt dd', 'dl table'),
  ...endings('td th', 'td th', 'table tr'),
  ...endings('tr', 'tr', 'table'),
  ...endings('thead tbody tfoot', 'thead tbody tfoot', 'table'),
  ...endings('option optgroup', 'option', 'select'),
  ...endings('a', 'a', 'table td th'),
]);

function names(list: string): ReadonlySet<string> {
  return new Set(list.split(' '));
}

function endings(opened: string, ends: string, within: string): readonly (readonly [string, Ending])[] {
  return opened.split(' ').map((name) => [name, { ends: names(ends), within: names(within) }]);
}

/** True for an element that is on separate lines. */
export function isBlock(name: string): boolean {
  return BLOCKS.has(name);
}

/** The tree of a page or a part of one, under an element without a name. Never rejects because of its content. */
export async function parseHtml(html: string): Promise<HtmlElement> {
  // The parser is loaded with the first page, because most runtimes never read a page.
  const { Tokenizer } = await import('htmlparser2');
  const builder = new TreeBuilder(html);
  const tokenizer = new Tokenizer({ xmlMode: false, decodeEntities: true }, builder);
  tokenizer.write(html);
  tokenizer.end();
  return builder.root;
}

/** Builds the tree from the tokens. A token is given by its start and end in the text. */
class TreeBuilder implements TokenizerCallbacks {
  readonly root: OpenElement = element('');
  readonly #html: string;
  /** The open elements, from the root to the innermost. */
  readonly #open: OpenElement[] = [this.root];
  /** The number of open elements of each name that lie too deep and are not kept (T1). */
  readonly #below = new Map<string, number>();
  /**
   * The name of the element that is being left out, and how many elements of that name are open, this element included
   * (T2).
   */
  #dropped: { readonly name: string; count: number } | undefined;
  #tag: OpenElement | undefined;
  #attribute = '';
  #value = '';

  constructor(html: string) {
    this.#html = html;
  }

  ontext(start: number, end: number): void {
    this.#text(this.#html.slice(start, end));
  }

  ontextentity(codePoint: number): void {
    this.#text(String.fromCodePoint(codePoint));
  }

  onopentagname(start: number, end: number): void {
    this.#tag = element(this.#html.slice(start, end).toLowerCase());
  }

  onattribname(start: number, end: number): void {
    this.#attribute = this.#html.slice(start, end).toLowerCase();
    this.#value = '';
  }

  onattribdata(start: number, end: number): void {
    this.#value += this.#html.slice(start, end);
  }

  onattribentity(codePoint: number): void {
    this.#value += String.fromCodePoint(codePoint);
  }

  onattribend(): void {
    const tag = this.#tag;
    if (tag === undefined || !ATTRIBUTES.has(this.#attribute) || tag.attributes.has(this.#attribute)) return;
    tag.attributes = new Map([...tag.attributes, [this.#attribute, this.#value]]);
  }

  onopentagend(): void {
    if (this.#tag !== undefined) this.#begin(this.#tag);
  }

  onselfclosingtag(): void {
    const tag = this.#tag;
    if (tag === undefined) return;
    this.#begin(tag);
    // In HTML the slash has no effect. In SVG, which is left out, it ends the element.
    if (this.#dropped?.name === tag.name) this.#end(tag.name);
  }

  onclosetag(start: number, end: number): void {
    this.#end(this.#html.slice(start, end).toLowerCase());
  }

  oncdata(): void {}
  oncomment(): void {}
  ondeclaration(): void {}
  onprocessinginstruction(): void {}
  onend(): void {}

  #text(text: string): void {
    if (this.#dropped !== undefined) return;
    const { children } = this.#innermost();
    const last = children.at(-1);
    if (typeof last === 'string') children[children.length - 1] = last + text;
    else children.push(text);
  }

  #begin(tag: OpenElement): void {
    const { name } = tag;
    if (this.#dropped !== undefined) {
      if (name === this.#dropped.name) this.#dropped.count += 1;
      return;
    }
    if (DROPPED.has(name)) {
      this.#dropped = { name, count: 1 };
      return;
    }
    this.#endImplied(name);
    if (this.#open.length > HTML_DEPTH_MAX && !VOID.has(name)) {
      this.#below.set(name, (this.#below.get(name) ?? 0) + 1);
      return;
    }
    this.#innermost().children.push(tag);
    if (BLOCKS.has(name)) this.#markBlocks();
    if (!VOID.has(name)) this.#open.push(tag);
  }

  /**
   * Marks the elements around a block element. Stops at the first marked element: all elements around it are marked too
   * (T3).
   */
  #markBlocks(): void {
    for (let at = this.#open.length - 1; at >= 0; at -= 1) {
      const around = this.#open[at];
      if (around === undefined || around.hasBlocks) return;
      around.hasBlocks = true;
    }
  }

  #end(name: string): void {
    if (this.#dropped !== undefined) {
      if (name === this.#dropped.name) this.#dropped.count -= 1;
      if (this.#dropped.count === 0) this.#dropped = undefined;
      return;
    }
    const below = this.#below.get(name) ?? 0;
    if (below > 0) {
      this.#below.set(name, below - 1);
      return;
    }
    if (name === 'br') this.#innermost().children.push(element('br'));
    const barrier = TABLE_PARTS.has(name) ? undefined : BLOCKS.has(name) ? CELLS : PARTS;
    for (let at = this.#open.length - 1; at > 0; at -= 1) {
      const open = this.#open[at]?.name ?? '';
      if (open === name) this.#close(at);
      if (open === name || barrier?.has(open) === true) return;
    }
  }

  /** Ends the elements that an opening tag ends implicitly. */
  #endImplied(name: string): void {
    if (BLOCKS.has(name)) this.#endParagraph();
    const ending = ENDINGS.get(name);
    if (ending === undefined) return;
    for (let at = this.#open.length - 1; at > 0; at -= 1) {
      const open = this.#open[at]?.name ?? '';
      if (ending.ends.has(open)) this.#close(at);
      if (ending.ends.has(open) || ending.within.has(open)) return;
    }
  }

  #endParagraph(): void {
    for (let at = this.#open.length - 1; at > 0; at -= 1) {
      const open = this.#open[at]?.name ?? '';
      if (open === 'p') this.#close(at);
      if (BLOCKS.has(open)) return;
    }
  }

  #close(at: number): void {
    this.#open.length = at;
    this.#below.clear();
  }

  #innermost(): OpenElement {
    return this.#open.at(-1) ?? this.root;
  }
}

function element(name: string): OpenElement {
  return { name, attributes: NO_ATTRIBUTES, children: [], hasBlocks: false };
}
