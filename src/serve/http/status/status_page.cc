#include "serve/http/status/status_page.h"

namespace emblem {
namespace {

constexpr std::string_view kPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Emblem</title>
<link rel="icon" href="data:,">
<style>
:root { --page:#f6f7f9; --card:#fff; --text:#16181d; --soft:#5d6471; --line:#e1e4ea; --a:#2a78d6; --b:#d9602b;
  --good:#1a7f37; --bad:#c2352b; --busy:#9a6700; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --page:#101216; --card:#191c22; --text:#e8eaee; --soft:#98a0ad;
  --line:#2b2f38; --a:#5aa0f2; --b:#f0895a; --good:#4cc26a; --bad:#ff7b72; --busy:#e3b341; } }
* { box-sizing:border-box; }
body { margin:0; background:var(--page); color:var(--text); font:15px/1.45 system-ui,sans-serif; }
main { max-width:1180px; margin:0 auto; padding:16px; display:grid; gap:12px; grid-template-columns:repeat(12,1fr); }
header { grid-column:1/-1; display:flex; flex-wrap:wrap; gap:4px 16px; align-items:baseline; }
h1 { font-size:22px; margin:0; } h2 { font-size:13px; margin:0 0 8px; color:var(--soft); font-weight:600; }
.soft { color:var(--soft); } .card { background:var(--card); border:1px solid var(--line); border-radius:10px; padding:14px; min-width:0; }
.tile { grid-column:span 2; } .tile b { display:block; font-size:24px; font-weight:600; font-variant-numeric:tabular-nums; }
.tile span { color:var(--soft); font-size:13px; } .half { grid-column:span 6; } .full { grid-column:1/-1; }
.state { font-weight:600; } .state .soft { font-weight:400; } .READY { color:var(--good); } .UNAVAILABLE { color:var(--bad); } .LOADING,.UNLOADING { color:var(--busy); }
.scroll { overflow-x:auto; } table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; }
th { text-align:right; color:var(--soft); font-weight:600; font-size:13px; } td { text-align:right; }
th,td { padding:6px 10px; border-bottom:1px solid var(--line); white-space:nowrap; }
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2) { text-align:left; padding-left:0; }
td.name,td.labels { white-space:normal; overflow-wrap:anywhere; min-width:96px; } tr:last-child td { border-bottom:0; }
svg { display:block; width:100%; height:150px; } svg text { fill:var(--soft); font-size:11px; }
.grid { stroke:var(--line); stroke-width:1; } .series { fill:none; stroke-width:2; stroke-linejoin:round; }
.key { float:right; font-weight:400; } .key i { display:inline-block; width:10px; height:3px; margin:0 4px 3px 10px; }
.bar { display:grid; grid-template-columns:minmax(80px,30%) 1fr 64px; gap:10px; align-items:center; margin:5px 0; font-size:14px; }
.bar div { background:var(--line); border-radius:4px; height:10px; overflow:hidden; } .bar div i { display:block; height:100%; background:var(--a); }
.bar b { text-align:right; font-weight:500; font-variant-numeric:tabular-nums; } .bar span { overflow-wrap:anywhere; }
#problem { grid-column:1/-1; color:var(--bad); } #problem:empty { display:none; }
input { font:inherit; padding:4px 8px; } details summary { cursor:pointer; } details summary.soft { font-weight:400; }
td details { display:inline-block; vertical-align:top; max-width:420px; } td details p { margin:4px 0; white-space:normal; overflow-wrap:anywhere; font-weight:400; }
summary h2 { display:inline; } .card details > .scroll { margin-top:8px; }
@media (max-width:760px) { .tile { grid-column:span 6; } .half { grid-column:1/-1; } main { padding:10px; gap:8px; } }
</style>
</head>
<body>
<main>
<header><h1>Emblem</h1><span id="version" class="soft"></span><span id="ready" class="state"></span><span id="machine" class="soft"></span></header>
<div id="problem" role="status"></div>
<section class="card tile"><span>requests per second</span><b id="rate">&ndash;</b></section>
<section class="card tile"><span>rows per second</span><b id="rows">&ndash;</b></section>
<section class="card tile"><span>latency, median</span><b id="p50">&ndash;</b></section>
<section class="card tile"><span>latency, 99 %</span><b id="p99">&ndash;</b></section>
<section class="card tile"><span>rows per batch</span><b id="batch">&ndash;</b></section>
<section class="card tile"><span>waiting / failed per s</span><b id="fails">&ndash;</b></section>
<section class="card half"><h2>Requests per second</h2><svg id="rates" role="img" aria-label="Requests per second"></svg></section>
<section class="card half"><h2>Latency <span class="key"><i style="background:var(--a)"></i>median<i style="background:var(--b)"></i>99 %</span></h2><svg id="latencies" role="img" aria-label="Latency"></svg></section>
<section class="card half"><h2>Failed requests per second</h2><svg id="failures" role="img" aria-label="Failed requests per second"></svg></section>
<section class="card half"><h2>Memory of the server</h2><svg id="memory" role="img" aria-label="Memory of the server"></svg></section>
<section class="card full"><h2>Models</h2><div class="scroll"><table><thead><tr><th>Model</th><th>State</th><th>Requests/s</th><th>Median</th><th>99 %</th><th>Rows/batch</th><th>Waiting</th><th>Answered</th><th>Failed</th></tr></thead><tbody id="models"></tbody></table></div></section>
<section class="card half"><h2>Where the time goes, per request</h2><div id="times"></div></section>
<section class="card half"><h2>Batches by size</h2><div id="batches"></div></section>
<section class="card full" id="tables_card"><details id="tables_fold"><summary><h2>Tables</h2> <span id="tables_count" class="soft"></span></summary><div class="scroll"><table><thead><tr><th>Model</th><th>Table</th><th>L1 hits</th><th>L2 hits</th><th>L3 hits</th><th>Missing keys</th><th>Rows updated</th></tr></thead><tbody id="tables"></tbody></table></div></details></section>
<section class="card full" id="metrics_card"><details><summary><h2>More metrics</h2> <span id="metrics_count" class="soft"></span></summary><div class="scroll"><table><tbody id="metrics"></tbody></table></div></details></section>
</main>
<script>
'use strict';
const KEPT = 30, WINDOW = 10;                        // snapshots of one second each
const HOUR = 3600, STEP = 10;                        // seconds that charts show, and between their points
const history = [];                                  // snapshots
let points = [];                                     // {t, rate, p50, p99, failed, memory}, of the server and then our own
let token = sessionStorage.getItem('token') || '';
const $ = id => document.getElementById(id);
const make = (tag, text, cls) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; };
const number = x => !isFinite(x) ? '–' : x >= 1e6 ? (x / 1e6).toFixed(2) + ' M' : x >= 1e4 ? (x / 1e3).toFixed(1) + ' k' : x >= 100 || x === Math.round(x) ? x.toFixed(0) : x.toPrecision(2);
const micros = x => !(x > 0) ? '–' : x < 1000 ? x.toFixed(0) + ' µs' : x < 1e6 ? (x / 1e3).toPrecision(3) + ' ms' : (x / 1e6).toPrecision(3) + ' s';
const bytes = x => (x / 2 ** 30).toFixed(2) + ' GiB';
const span = s => s < 90 ? s.toFixed(0) + ' s' : s < 5400 ? (s / 60).toFixed(0) + ' min' : s < 172800 ? (s / 3600).toFixed(1) + ' h' : (s / 86400).toFixed(1) + ' days';
const id = m => m.name + '\n' + m.version;
const natural = new Intl.Collator('en', { numeric: true }).compare;   // t2 before t10
const percent = x => (x * 100).toFixed(1) + ' %';

// One child of `parent` for each item, in their order. Children of items that stay are changed and not replaced: what a
// reader has unfolded or selected stays so.
function keep(parent, items, key, create, change) {
  const old = new Map([...parent.children].map(e => [e.dataset.key, e]));
  let at = parent.firstElementChild;
  for (const item of items) {
    let e = old.get(key(item));
    if (e) old.delete(key(item)); else { e = create(item); e.dataset.key = key(item); }
    if (e === at) at = at.nextElementSibling; else parent.insertBefore(e, at);
    change(e, item);
  }
  for (const e of old.values()) e.remove();
}
const cells = (row, texts) => texts.forEach((text, i) => { if (row.cells[i].textContent !== text) row.cells[i].textContent = text; });
const row_of = classes => () => { const row = make('tr'); classes.forEach(c => row.append(make('td', '', c))); return row; };

// What model `m` did since the snapshot `past`; since its loading when it was not there.
function since(past, m) {
  const old = (past && past.models.find(o => id(o) === id(m) && (o.success || 0) <= (m.success || 0))) || {};
  const d = { buckets: new Map() };
  for (const k of ['success', 'fail', 'rows', 'executions', 'success_ns', 'queue_ns', 'compute_input_ns', 'compute_infer_ns', 'compute_output_ns', 'compute_infer'])
    d[k] = (m[k] || 0) - (old[k] || 0);
  for (const [b, n] of m.latency || []) d.buckets.set(b, n);
  for (const [b, n] of old.latency || []) d.buckets.set(b, (d.buckets.get(b) || 0) - n);
  return d;
}
function add(list) {
  const sum = { buckets: new Map() };
  for (const d of list) for (const k in d)
    if (k === 'buckets') for (const [b, n] of d.buckets) sum.buckets.set(b, (sum.buckets.get(b) || 0) + n);
    else sum[k] = (sum[k] || 0) + d[k];
  return sum;
}
// In microseconds; bucket b begins at 2^(b/4).
function quantile(d, q) {
  const sorted = [...d.buckets].filter(x => x[1] > 0).sort((x, y) => x[0] - y[0]);
  const wanted = q * sorted.reduce((s, x) => s + x[1], 0);
  let before = 0;
  for (const [b, n] of sorted) { if (before + n >= wanted) return 2 ** ((b + (wanted - before) / n) / 4); before += n; }
  return NaN;
}
function chart(svg, names, format, now) {
  const w = svg.clientWidth || 500, h = 150, left = 60, bottom = 18, top = 8, ns = 'http://www.w3.org/2000/svg';
  const put = (tag, attributes, text) => { const e = document.createElementNS(ns, tag); for (const k in attributes) e.setAttribute(k, attributes[k]); if (text) e.textContent = text; svg.append(e); };
  svg.replaceChildren(); svg.setAttribute('viewBox', `0 0 ${w} ${h}`);
  const highest = Math.max(...points.flatMap(p => names.map(n => p[n]).filter(isFinite)), 0) || 1, unit = 10 ** Math.floor(Math.log10(highest));
  const most = unit * [1, 2, 4, 6, 8, 10].find(n => n * unit >= highest * .999);
  const x = t => left + (w - left - 4) * (1 - (now - t) / HOUR), y = v => h - bottom - (h - bottom - top) * v / most;
  for (const part of [0, .5, 1]) {
    put('line', { x1: left, x2: w, y1: y(most * part), y2: y(most * part), class: 'grid' });
    put('text', { x: left - 6, y: y(most * part) + 4, 'text-anchor': 'end' }, part ? format(most * part) : '0');
  }
  put('text', { x: left, y: h - 3 }, '1 h ago'); put('text', { x: w - 4, y: h - 3, 'text-anchor': 'end' }, 'now');
  names.forEach((name, i) => {
    let d = '', last = -Infinity;
    for (const p of points) {
      if (!isFinite(p[name]) || p.t < now - HOUR) { last = -Infinity; continue; }
      d += (p.t - last > 3 * STEP ? 'M' : 'L') + x(p.t).toFixed(1) + ' ' + y(p[name]).toFixed(1); last = p.t;
    }
    put('path', { d, class: 'series', style: `stroke:var(--${'ab'[i]})` });
  });
}
function bars(box, items) {
  box.replaceChildren(...(items.length ? items.map(([name, share, text]) => {
    const row = make('div', undefined, 'bar'), track = make('div'), fill = make('i');
    fill.style.width = Math.max(0, Math.min(100, share * 100)) + '%'; track.append(fill);
    row.append(make('span', name), track, make('b', text)); return row;
  }) : [make('span', 'nothing yet', 'soft')]));
}
function show(now) {
  const past = history[Math.max(0, history.length - 1 - WINDOW)];
  const seconds = now.uptime_s - past.uptime_s;
  const recent = add(now.models.map(m => since(past, m)));
  const t = now.time_s, live = points[points.length - 1];
  const point = { t, rate: recent.success / seconds, p50: quantile(recent, .5), p99: quantile(recent, .99), failed: recent.fail / seconds, memory: now.resident };
  if (seconds > 0) { if (!live || t - live.t >= STEP) points.push(point); points = points.filter(p => p.t > t - HOUR - STEP); }
  $('version').textContent = now.version; $('ready').textContent = now.ready ? 'ready' : 'not ready'; $('ready').className = 'state ' + (now.ready ? 'READY' : 'UNAVAILABLE');
  $('machine').textContent = `up ${span(now.uptime_s)} · processors ${(now.cpu * 100).toFixed(0)} % · memory ${bytes(now.resident)}, machine ${bytes(now.memory_used)} of ${bytes(now.memory_total)}`;
  $('rate').textContent = number(recent.success / seconds); $('rows').textContent = number(recent.rows / seconds);
  $('p50').textContent = micros(quantile(recent, .5)); $('p99').textContent = micros(quantile(recent, .99));
  $('batch').textContent = number(recent.rows / recent.executions);
  $('fails').textContent = number(now.models.reduce((s, m) => s + (m.pending || 0), 0)) + ' / ' + number(recent.fail / seconds);
  chart($('rates'), ['rate'], number, t); chart($('latencies'), ['p50', 'p99'], micros, t);
  chart($('failures'), ['failed'], number, t); chart($('memory'), ['memory'], bytes, t);
  const models = [...now.models].sort((x, y) => natural(id(x), id(y)));
  keep($('models'), models, id, m => {
    const row = row_of(['name', '', '', '', '', '', '', '', ''])(), fold = make('details');
    fold.append(make('summary', '', 'soft'), make('p', '', 'soft')); row.cells[1].append(make('span'), ' ', fold);
    return row;
  }, (row, m) => {
    const d = since(past, m), state = row.cells[1], fold = state.querySelector('details'), reason = m.reason || '';
    state.className = 'state ' + m.state; state.firstChild.textContent = m.state; fold.hidden = !reason;
    fold.firstChild.textContent = reason.length > 60 ? reason.slice(0, 60) + '…' : reason; fold.lastChild.textContent = reason;
    const texts = [`${m.name} ${m.version}`, number(d.success / seconds), micros(quantile(d, .5)), micros(quantile(d, .99)), number(d.rows / d.executions), number(m.pending || 0), number(m.success || 0), number(m.fail || 0)];
    texts.forEach((text, i) => { row.cells[i ? i + 1 : 0].textContent = text; });
  });
  const parts = [['queue', 'queue_ns'], ['input', 'compute_input_ns'], ['compute', 'compute_infer_ns'], ['output', 'compute_output_ns']];
  const whole = parts.reduce((s, p) => s + recent[p[1]], 0);
  bars($('times'), recent.success ? parts.map(([name, k]) => [name, recent[k] / whole, micros(recent[k] / recent.success / 1000)]) : []);
  const sizes = new Map();
  for (const m of now.models) for (const [size, n] of m.batches || []) sizes.set(size, (sizes.get(size) || 0) + n);
  const most = Math.max(...sizes.values());
  bars($('batches'), [...sizes].sort((x, y) => y[1] - x[1]).slice(0, 12).sort((x, y) => x[0] - y[0]).map(([size, n]) => [size + (size === 1 ? ' row' : ' rows'), n / most, number(n)]));
  show_tables(now.metrics.filter(m => m.labels.table !== undefined));
  show_metrics(now.metrics.filter(m => m.labels.table === undefined));
}
// A row for each table of each model.
function show_tables(metrics) {
  const tables = new Map();
  for (const m of metrics) {
    const key = [m.labels.model, m.labels.version, m.labels.table].join('\n');
    if (!tables.has(key)) tables.set(key, { key, model: `${m.labels.model || ''} ${m.labels.version || ''}`, name: m.labels.table, values: {} });
    tables.get(key).values[m.name + (m.labels.tier || '')] = +m.value;
  }
  const rate = (v, tier) => v['emblem_tier_hit_rate' + tier] === undefined ? '–' : percent(v['emblem_tier_hit_rate' + tier]);
  $('tables_card').hidden = !tables.size; $('tables_count').textContent = tables.size;
  keep($('tables'), [...tables.values()].sort((x, y) => natural(x.key, y.key)), t => t.key, row_of(['name', 'name', '', '', '', '', '']),
    (row, t) => cells(row, [t.model, t.name, rate(t.values, 'L1'), rate(t.values, 'L2'), rate(t.values, 'L3'), number(t.values.emblem_missing_keys_total ?? NaN), number(t.values.emblem_rows_updated_total ?? NaN)]));
}
function show_metrics(metrics) {
  const label = m => Object.values(m.labels).join(' · '), key = m => m.name + '\n' + label(m);
  $('metrics_card').hidden = !metrics.length; $('metrics_count').textContent = metrics.length;
  keep($('metrics'), [...metrics].sort((x, y) => natural(key(x), key(y))), key, row_of(['name', 'labels', '']), (row, m) => cells(row, [m.name, label(m), number(+m.value)]));
}
function ask_token() {
  const box = make('input'); box.type = 'password'; box.placeholder = 'token of the server';
  box.onchange = () => { token = box.value; sessionStorage.setItem('token', token); poll(); };
  $('problem').replaceChildren('This server needs its token: ', box); box.focus();
}
async function ask(path) {
  const answer = await fetch(path, { cache: 'no-store', headers: token ? { Authorization: 'Bearer ' + token } : {} });
  if (answer.status === 401) { ask_token(); return null; }
  if (!answer.ok) throw new Error('the server answers ' + answer.status);
  return answer.json();
}
// What the server did in the hour before the page was opened.
async function load_history() {
  const past = await ask('history.json');
  if (past) points = past.samples.map(([t, rate, p50, p99, failed, memory]) => ({ t, rate, p50: p50 || NaN, p99: p99 || NaN, failed, memory }));
  return past !== null;
}
async function poll() {
  try {
    if (!history.length && !await load_history()) return;
    const now = await ask('status.json');
    if (!now) return;
    if (history.length && now.uptime_s < history[history.length - 1].uptime_s) { history.length = 0; points.length = 0; }
    history.push(now); if (history.length > KEPT) history.shift();
    $('problem').replaceChildren(); show(now);
  } catch (error) { $('problem').textContent = 'No news from the server: ' + error.message; }
  setTimeout(poll, 1000);
}
poll();
</script>
</body>
</html>
)html";

}  // namespace

std::string_view status_page() { return kPage; }

}  // namespace emblem
