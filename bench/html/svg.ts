/** Draws plots as SVG text when the page is written, so that its reader needs no script. */
import { type PlotOptions, plot } from '@observablehq/plot';
import { parseHTML } from 'linkedom';

const { document } = parseHTML('<html><body></body></html>');

/** A plot as the text of one `<svg>`. `title` describes it to screen readers. Throws if the library drew none. */
export function svgOf(title: string, options: PlotOptions): string {
  const drawn: unknown = plot({
    document,
    style: { fontSize: '11px', background: 'none', overflow: 'visible' },
    ariaLabel: title,
    ...options,
  });
  const text: unknown = typeof drawn === 'object' && drawn !== null ? Reflect.get(drawn, 'outerHTML') : undefined;
  if (typeof text !== 'string' || !text.startsWith('<svg')) throw new Error(`${title}: no plot was drawn`);
  return text.replace('<svg ', '<svg role="img" ').replaceAll(/(\d\.\d\d)\d+/g, '$1');
}
