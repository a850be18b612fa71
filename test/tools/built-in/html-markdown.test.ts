// Goal: a page becomes the Markdown of its main part (contract §11.3), whatever it consists of, in linear time (F76).
import { describe, expect, test } from 'vitest';
import { htmlToMarkdown } from '../../../src/tools/built-in/html-markdown.ts';

const here = new URL('https://example.org/folder/page?x=1');
const markdown = (html: string): Promise<string> => htmlToMarkdown(html, here);

describe('elements of a page', () => {
  test.each([
    ['<h1>One</h1><h3>Three <em>deep</em></h3>', '# One\n\n### Three _deep_'],
    ['<p>a\n  b<p>c</p>d', 'a b\n\nc\n\nd'],
    ['a<br>b<br/> c', 'a\nb\nc'],
    ['<p>one<b> two </b>three <strong></strong>four</p>', 'one **two** three four'],
    ['<ul><li>a<li>b<ul><li>c</ul></ul>', '- a\n- b\n  - c'],
    ['<ol start=3><li>a</li><li><p>b</p><p>c</p></li></ol>', '3. a\n4. b\n\n   c'],
    ['<blockquote><p>a</p><p>b</p></blockquote>', '> a\n>\n> b'],
    ['<pre><code class="language-ts">if (a &lt; b)\n  c();\n</code></pre>', '```ts\nif (a < b)\n  c();\n```'],
    ['<pre>a\n```\nb</pre>', '````\na\n```\nb\n````'],
    ['<code>a`b</code> and <code> snake_case* </code>', '``a`b`` and `snake_case*`'],
    ['a<hr>b', 'a\n\n---\n\nb'],
    ['snake_case, 2 * 3, [x] &amp; &copy; &#x1F600; &nbsp;&unknown;', 'snake_case, 2 * 3, [x] & © 😀 &unknown;'],
    ['a &lt;script&gt; < b <3', 'a <script> < b <3'],
    ['<dl><dt>a<dd>b<dt>c<dd>d</dl>', 'a\n\nb\n\nc\n\nd'],
    ['<b><div>a</div><div>b</div></b>', 'a\n\nb'],
    ['<p>open <b>never closed<p>next', 'open **never closed**\n\nnext'],
    ['', ''],
    [' \n ', ''],
    ['<p', ''],
  ])('%j', async (html, expected) => {
    expect(await markdown(html)).toBe(expected);
  });

  test('links become absolute; a link that cannot be fetched becomes text', async () => {
    expect(await markdown('<a href="../a b">x</a> <a href="?y=2">y</a>')).toBe(
      '[x](https://example.org/a%20b) [y](https://example.org/folder/page?y=2)',
    );
    expect(await markdown('<base href="https://other.example/"><a href="a_(b)">x</a>')).toBe(
      '[x](https://other.example/a_%28b%29)',
    );
    expect(
      await markdown('<a href="javascript:x()">a</a> <a href="#b">b</a> <a name=c>c</a> <a href="//[">d</a>'),
    ).toBe('a b c d');
    expect(await markdown('<a href="/x"><h3>Title</h3><p>Text</p></a>')).toBe('[Title Text](https://example.org/x)');
    expect(await markdown('<a href=/a>a<a href=/b>b')).toBe('[a](https://example.org/a)[b](https://example.org/b)');
  });

  test('a picture with a description is replaced by the description', async () => {
    expect(await markdown('<img src=a.png alt="A  cat"><img src=b.png><img src="data:image/png;base64,x" alt=c>')).toBe(
      '![A cat](https://example.org/folder/a.png)c',
    );
  });

  test('a data table stays a table; a layout table does not', async () => {
    expect(await markdown('<table><caption>T</caption><tr><th>a<th>b<tr><td>1|2<td><p>3<p>4</table>')).toBe(
      'T\n\n| a | b |\n| --- | --- |\n| 1\\|2 | 3 4 |',
    );
    expect(await markdown('<table><tr><td><h2>Head</h2><td><table><tr><td>in</table></table>')).toBe('## Head\n\nin');
  });
});

describe('parts of a page that are shown', () => {
  const around = '<header>H</header><nav>N</nav><aside>A</aside><form>F</form><menu>M</menu>';

  test('the element main is preferred to article, and article to the role', async () => {
    const role = '<div role=main>role</div>';
    const article = `<article><header>head</header>one</article><article>two</article>`;
    expect(await markdown(`${around}${role}${article}<main><nav>n</nav>main</main>`)).toBe('n\n\nmain');
    expect(await markdown(`${around}${role}${article}`)).toBe('head\n\none\n\ntwo');
    expect(await markdown(`${around}x${role}`)).toBe('role');
  });

  test('a page without a main part loses navigation and the like', async () => {
    expect(await markdown(`${around}<p>text</p><footer>f</footer>`)).toBe('text');
  });

  test('scripts, styles and the like are never shown', async () => {
    const dropped =
      '<title>t</title><script>a</script><STYLE>b</STYLE><noscript><p>c</p></noscript><iframe>d</iframe><svg><text>e</text></svg>';
    expect(await markdown(`<main>x${dropped}<!-- c --><svg/>y</main>${dropped}`)).toBe('xy');
    expect(await markdown(`${'<div>'.repeat(200)}x<script>no</script>y`)).toBe('xy');
    expect(await markdown('<script>if (a < b) document.write("</p>")</script>after')).toBe('after');
  });

  test('an end tag of another element does not end the main part', async () => {
    expect(await markdown('<b><main><p>a</b>b</p><table><tr><td>c</div></td></tr></table>d</main>e')).toBe(
      'ab\n\nc\n\nd',
    );
  });
});

describe('F76: a page of 100 kB', () => {
  const fill = (part: string): string => part.repeat(Math.ceil(100_000 / part.length));
  test.each([
    ['nested elements', fill('<div>'), ''],
    ['nested elements with ends', `${fill('<div>')}x${fill('</div>')}`, 'x'],
    ['nothing but <', fill('<'), fill('<')],
    ['unclosed comments', fill('<!--'), ''],
    ['unclosed scripts', fill('<script>'), ''],
    ['an unclosed attribute', `<a href="${fill('x')}`, ''],
    ['nested emphasis', fill('<b>'), ''],
    ['ends of what is not open', `${'<div>'.repeat(60)}${fill('</p></b></li>')}x`, 'x'],
    ['blanks in preformatted text', `<pre>x${fill(' ')}&nbsp;y</pre>`, `\`\`\`\nx${fill(' ')}\u00a0y\n\`\`\``],
    ['a long code', `<code> ${fill('a')}</code>`, `\`${fill('a')}\``],
  ])('F76: %s: linear time', async (_name, html, expected) => {
    expect(await markdown(html)).toBe(expected);
  });

  test('F76: lists, quotations and links grow by a bounded factor', async () => {
    for (const html of [
      fill('<ol><li>x'),
      `${'<ul>'.repeat(60)}${fill('<li>x<br>y')}`,
      `${'<blockquote>'.repeat(60)}${fill('a<br>')}`,
      `<base href="https://x.example/${'y'.repeat(2_000)}/">${fill('<a href=x>y</a>')}`,
      `<table><tr>${fill('<td>x')}${fill('<tr><td>y<td>z')}</table>`,
    ]) {
      expect((await markdown(html)).length).toBeLessThan(html.length * 5);
    }
  });
});
