/** Writes results as one HTML file: drawings inlined as SVG, no script, nothing from the network. */
import { deviceOf, machineOf, nodeOf } from '../report/report.ts';
import type { ResultsFile, VerdictResult } from '../report/results-file.ts';
import { fanOutPanel } from './fan-out.ts';
import { latencyPanel } from './latencies.ts';
import { type Panel, WIDTHS } from './panel.ts';
import { ratesPanel } from './rates.ts';
import {
  concurrencyPanel,
  historyPanel,
  memoryInFlightPanel,
  memoryInStorePanel,
  storeSizePanel,
  streamCostPanel,
  streamLatencyPanel,
  turnPanel,
} from './sizes.ts';
import { STYLE } from './style.ts';
import { tilesOf } from './tiles.ts';

/** The page. */
export function pageOf(file: ResultsFile): string {
  const panels = [
    ratesPanel(file),
    concurrencyPanel(file),
    turnPanel(file),
    latencyPanel(file),
    streamCostPanel(file),
    streamLatencyPanel(file),
    historyPanel(file),
    storeSizePanel(file),
    memoryInFlightPanel(file),
    memoryInStorePanel(file),
    fanOutPanel(file),
  ];
  const tiles = tilesOf(file).map(
    ({ figure, unit, what }) =>
      `<div><b>${escapeHtml(figure)} <small>${escapeHtml(unit)}</small></b><span class="dim">${escapeHtml(what)}</span></div>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>troupe: drain benchmark</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>troupe: drain benchmark</h1>
<p class="dim">${escapeHtml(subtitle(file))}</p>
${file.head.notes.map((note) => `<p><b>${escapeHtml(note)}</b></p>`).join('')}
<div class="tiles">${tiles.join('')}</div>
<div class="panels">
${panels.map(panelHtml).join('\n')}
</div>
${verdictsHtml(file.verdicts)}
<h2 style="margin-top: 24px">Where and how</h2>
${headHtml(file)}
<p class="dim" style="margin-top: 12px">Figures are the median over rounds of the median over repetitions after a warm-up; cold is the first repetition of a new process. A half-step is one model call and the work that follows from it. Ratios carry over to another machine; figures do not. bench/README.md describes the measurements, bench/results.json has every repetition.</p>
</main>
</body>
</html>
`;
}

function subtitle({ head }: ResultsFile): string {
  return `${head.date.slice(0, 10)}, commit ${head.commit}, Node ${head.node}, ${head.machine}, ${head.cores} cores, load ${head.load.toFixed(1)} at the start`;
}

function panelHtml({ title, reading, legend = [], isFull = false, draw }: Panel): string {
  const classes = isFull ? ' class="full"' : '';
  if (draw === undefined) {
    return `<figure${classes}><h2>${escapeHtml(title)}</h2><p class="missing">not measured in this run</p></figure>`;
  }
  const swatches = legend.map(
    ({ name, color }) => `<span><i style="background: ${escapeHtml(color)}"></i>${escapeHtml(name)}</span>`,
  );
  const key = swatches.length === 0 ? '' : `<div class="legend">${swatches.join('')}</div>`;
  const [wide, narrow] = [draw(isFull ? WIDTHS.full : WIDTHS.wide), draw(WIDTHS.narrow)];
  return `<figure${classes}><h2>${escapeHtml(title)}</h2><figcaption>${escapeHtml(reading)}</figcaption>${key}
<div class="plots wide">${wide.join('')}</div><div class="plots narrow">${narrow.join('')}</div></figure>`;
}

function verdictsHtml(verdicts: readonly VerdictResult[]): string {
  const rows = verdicts.map(
    ({ id, target, measured, outcome, distance }) =>
      `<tr><td>${escapeHtml(id)}</td><td>${escapeHtml(target)}</td><td class="number" data-name="measured">${escapeHtml(measured)}</td><td class="${outcome}">${outcome === 'open' ? 'not measured' : outcome}</td><td class="number" data-name="of the target">${distance === undefined ? '' : `${distance.toFixed(2)} x`}</td></tr>`,
  );
  return `<section><h2>Targets</h2><p class="dim">Of the target: 1.00 x meets it exactly, more is better. A target that this run did not measure names the command that measures it, if there is one.</p>
<table><thead><tr><th></th><th>target</th><th>measured</th><th>outcome</th><th>of the target</th></tr></thead><tbody>
${rows.join('\n')}
</tbody></table></section>`;
}

function headHtml({ head }: ResultsFile): string {
  const items: readonly (readonly [string, string])[] = [
    ['date', `${head.date.slice(0, 16).replace('T', ' ')} UTC`],
    ['commit', head.commit],
    ['Node', nodeOf(head)],
    ['machine', machineOf(head)],
    ['load', `${head.load.toFixed(1)} at the start`],
    ['device', deviceOf(head)],
    ['durability', head.durability],
    ['transport', head.transport],
    ['seed', String(head.seed)],
    ['command', head.command],
    ...head.notes.map((note) => ['note', note] as const),
  ];
  return `<dl>${items.map(([name, text]) => `<dt>${name}</dt><dd>${escapeHtml(text)}</dd>`).join('')}</dl>`;
}

/** Escapes text for HTML, also within an attribute. */
function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
