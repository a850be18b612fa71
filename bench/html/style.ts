/** The style of the page: light or dark by the reader's setting, wide or narrow by the window. It loads nothing. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --text: #1b1f27; --dim: #5b6472; --rule: #dfe3e8;
  --isolated: #1f5fd6; --inline: #c2500a; --loop: #7a4bb3; --kernel: #0b7a6b; --memory: #7d8794; --sdk: #a6266e; --http: #5b6472;
  --queued: #cfd5dd; --waiting: #8fb6f5; --working: #d9690f;
  --holds: #12733c; --fails: #b3261e; --open: #6a7280;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12151a; --card: #1b1f26; --text: #e8ebf0; --dim: #a0a9b6; --rule: #323843;
    --isolated: #7fb0ff; --inline: #ff9d57; --loop: #c5a3f5; --kernel: #55cdb9; --memory: #9aa4b2; --sdk: #f08cc0; --http: #a0a9b6;
    --queued: #3b424e; --waiting: #4a78c4; --working: #ffa04d;
    --holds: #5fd08e; --fails: #ff8a80; --open: #a0a9b6;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1264px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; }
h2 { font-size: 17px; line-height: 1.3; margin: 0 0 4px; }
p { margin: 0; }
.dim, figcaption { color: var(--dim); font-size: 13px; line-height: 1.45; }
section, figure, dl { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; margin: 0; padding: 16px 18px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); gap: 12px; margin: 20px 0; }
.tiles div { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 12px 16px; }
.tiles b { display: block; font-size: 24px; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tiles small { font-size: 14px; font-weight: 500; white-space: nowrap; }
.tiles span { display: block; }
.panels { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; margin: 16px 0; }
.full { grid-column: 1 / -1; }
.plots { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 8px 16px; margin-top: 12px; }
.plots svg { max-width: 100%; height: auto; }
.narrow { display: none; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin-top: 8px; font-size: 13px; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; }
.missing { color: var(--dim); font-style: italic; padding: 28px 0 12px; text-align: center; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; font-size: 14px; }
dt { color: var(--dim); }
dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 14px; margin-top: 10px; }
th { text-align: left; color: var(--dim); font-weight: 500; }
th, td { padding: 5px 14px 5px 0; border-top: 1px solid var(--rule); vertical-align: top; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.holds { color: var(--holds); } .fails { color: var(--fails); font-weight: 700; } .open { color: var(--open); }
@media (max-width: 1000px) {
  .panels { grid-template-columns: repeat(auto-fill, minmax(min(100%, 360px), 1fr)); }
  .full { grid-column: auto; }
  .wide { display: none; } .narrow { display: flex; justify-content: center; }
}
@media (max-width: 560px) {
  main { padding: 16px 10px 32px; }
  section, figure, dl { padding: 12px; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: 8px; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; } .tiles div { padding: 10px 12px; } .tiles b { font-size: 20px; }
  table, tbody, tr, td { display: block; } thead { display: none; }
  tr { border-top: 1px solid var(--rule); padding: 8px 0; } td { border: 0; padding: 0; }
  td:nth-child(-n+2) { display: inline; } td:first-child { color: var(--dim); margin-right: 8px; }
  td.number:empty { display: none; }
  td.number::before { content: attr(data-name) ': '; color: var(--dim); }
}
@media print { .panels figure { break-inside: avoid; } }
`;
