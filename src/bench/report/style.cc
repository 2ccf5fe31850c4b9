#include "bench/report/html_parts.h"

namespace emblem {

const char kReportStyle[] = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1b2230; --soft: #5c6675; --rule: #dfe3e9; --track: #eceff3; --good: #14733f; --bad: #b3261e;
  --c0: #2563c9; --c1: #d9730d; --c2: #12907f; --c3: #a8449a; --c4: #8a7a12; --c5: #c43d4f; --c6: #64748b; --c7: #4f8f2c; --c8: #7c4a21;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12151b; --card: #1b2028; --ink: #e6e9ee; --soft: #9aa5b5; --rule: #303744; --track: #2a313c; --good: #5fd08f; --bad: #ff8a80;
    --c0: #6ea3ff; --c1: #ffa552; --c2: #4fd1bd; --c3: #e08ad4; --c4: #d6c354; --c5: #ff8593; --c6: #a3b1c6; --c7: #97d06f; --c8: #c79a6b;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 48px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; }
h2 { font-size: 18px; margin: 36px 0 12px; }
h3 { font-size: 15px; margin: 0 0 8px; overflow-wrap: anywhere; }
p { margin: 0 0 10px; }
a { color: var(--c0); }
.soft { color: var(--soft); }
.small { font-size: 13px; }
.panel { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 16px; }
.panel + .panel { margin-top: 14px; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(200px, 1fr)); gap: 14px; margin-top: 22px; }
.cards .panel { margin: 0; }
.card-name { font-size: 13px; color: var(--soft); overflow-wrap: anywhere; }
.card-value { font-size: 25px; font-weight: 650; line-height: 1.25; font-variant-numeric: tabular-nums; }
.card-unit { font-size: 14px; font-weight: 500; color: var(--soft); white-space: nowrap; }
.card-note { font-size: 13px; color: var(--soft); }
.below { margin-top: 12px; }
.good { color: var(--good); font-weight: 650; }
.bad { color: var(--bad); font-weight: 650; }
.verdict { border: 1px solid currentColor; border-radius: 6px; padding: 0 8px; font-size: 13px; font-weight: 650; align-self: flex-start; }
.failures { margin: 0 0 10px; padding-left: 20px; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 14px; }
.charts .panel { margin: 0; max-width: 640px; }
figcaption { font-weight: 600; margin-bottom: 6px; }
.chart { display: block; width: 100%; height: auto; overflow: visible; }
.chart text { font-size: 12.5px; fill: var(--soft); font-variant-numeric: tabular-nums; }
.grid { stroke: var(--rule); stroke-width: 1; }
.base { stroke: var(--soft); stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.faint { stroke-width: 1; opacity: 0.28; }
.limit { stroke: var(--ink); stroke-width: 1.4; stroke-dasharray: 5 4; }
.cell { fill: var(--c0); }
.cell.best { stroke: var(--ink); stroke-width: 2; }
.chart .in-cell { fill: var(--ink); }
.chart .on-cell { fill: var(--card); font-weight: 600; }
.roof { display: flex; justify-content: space-between; margin-top: 6px; font-size: 12.5px; color: var(--soft); }
.chart .limit-name { fill: var(--ink); font-weight: 600; }
.line.s0 { stroke: var(--c0); } .line.s1 { stroke: var(--c1); } .line.s2 { stroke: var(--c2); } .line.s3 { stroke: var(--c3); }
.line.s4 { stroke: var(--c4); } .line.s5 { stroke: var(--c5); } .line.s6 { stroke: var(--c6); } .line.s7 { stroke: var(--c7); }
.line.s8 { stroke: var(--c8); }
.dot.s0, .fill.s0 { fill: var(--c0); } .dot.s1, .fill.s1 { fill: var(--c1); } .dot.s2, .fill.s2 { fill: var(--c2); }
.dot.s3, .fill.s3 { fill: var(--c3); } .dot.s4, .fill.s4 { fill: var(--c4); } .dot.s5, .fill.s5 { fill: var(--c5); }
.dot.s6, .fill.s6 { fill: var(--c6); } .dot.s7, .fill.s7 { fill: var(--c7); } .dot.s8, .fill.s8 { fill: var(--c8); }
.swatch { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
.swatch.s0 { background: var(--c0); } .swatch.s1 { background: var(--c1); } .swatch.s2 { background: var(--c2); }
.swatch.s3 { background: var(--c3); } .swatch.s4 { background: var(--c4); } .swatch.s5 { background: var(--c5); }
.swatch.s6 { background: var(--c6); } .swatch.s7 { background: var(--c7); } .swatch.s8 { background: var(--c8); }
.bar { display: block; width: 100%; height: 16px; border-radius: 3px; }
.track { fill: var(--track); }
.cell-bar { width: 170px; }
.cell-bar .bar { height: 9px; }
.bar-row { margin-top: 12px; }
.bar-head { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 16px; margin-bottom: 3px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 5px 0 0; padding: 0; list-style: none; font-size: 13px; }
.legend b { font-weight: 600; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px; }
th, td { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--rule); vertical-align: middle; }
tbody tr:last-child td { border-bottom: 0; }
td.number, th.number { text-align: right; white-space: nowrap; }
th.number { white-space: normal; vertical-align: bottom; }
.wide, .wide th { font-size: 12px; }
.wide td.number { white-space: normal; }
.wide th, .wide td { padding-right: 8px; }
td.number:last-child, th.number:last-child { padding-right: 0; }
td.name { overflow-wrap: anywhere; min-width: 130px; }
td.program { white-space: nowrap; }
td.group { vertical-align: top; font-weight: 600; }
td.last { border-bottom: 0; }
tr.inner td:not(.group) { border-bottom: 0; padding-bottom: 2px; }
details { border-top: 1px solid var(--rule); padding: 8px 0; }
details:first-child { border-top: 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 16px; margin: 10px 0 4px; font-size: 14px; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 560px) {
  main { padding: 20px 14px 36px; }
  h1 { font-size: 22px; }
  .panel { padding: 13px; }
  .cards { grid-template-columns: repeat(2, 1fr); gap: 10px; }
  .card-value { font-size: 20px; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 6px; }
  .chart text { font-size: 16px; }
  .cell-bar { display: none; }
  table { font-size: 13px; }
  .wraps th, .wraps td { padding-right: 6px; font-size: 12px; }
  .wraps td.number { white-space: normal; }
  .wraps td.name { min-width: 76px; }
}
@media print {
  :root { --page: #fff; --card: #fff; --ink: #000; --soft: #444; --rule: #ccc; --track: #eee; --good: #14733f; --bad: #b3261e;
    --c0: #2563c9; --c1: #d9730d; --c2: #12907f; --c3: #a8449a; --c4: #8a7a12; --c5: #c43d4f; --c6: #64748b; --c7: #4f8f2c; --c8: #7c4a21; }
  body { font-size: 11px; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  .scroll { overflow: visible; }
  table { font-size: 9px; }
  th { font-size: 9px; }
  th, td { padding: 3px 5px 3px 0; }
  td.number { white-space: normal; }
  td.name { min-width: 0; }
  figure, tr, .bar-row { break-inside: avoid; }
  h2 { break-after: avoid; }
}
)css";

}  // namespace emblem
