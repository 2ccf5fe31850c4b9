// Runs the script of the status page (its file is the argument) on a document of plain objects, with 26 tables.
'use strict';
const fs = require('fs'), vm = require('vm');
class E {
  constructor(tag) { this.tag = tag; this.childNodes = []; this.dataset = {}; this.style = {}; this.attributes = {}; this._text = ''; this.hidden = false; this.parent = null; this.made = ++E.count; }
  get children() { return this.childNodes.filter(c => c instanceof E && !c.isText); }
  get firstElementChild() { return this.children[0] || null; }
  get firstChild() { return this.childNodes[0] || null; } get lastChild() { return this.childNodes[this.childNodes.length - 1] || null; }
  get nextElementSibling() { const s = this.parent.children; return s[s.indexOf(this) + 1] || null; }
  get cells() { return this.children; }
  append(...list) { for (let c of list) { if (!(c instanceof E)) { const t = new E('#text'); t.isText = true; t._text = String(c); c = t; } if (c.parent) c.remove(); c.parent = this; this.childNodes.push(c); } }
  insertBefore(e, at) { if (e.parent) e.remove(); e.parent = this; const i = at ? this.childNodes.indexOf(at) : this.childNodes.length; this.childNodes.splice(i, 0, e); }
  remove() { const l = this.parent.childNodes; l.splice(l.indexOf(this), 1); this.parent = null; }
  replaceChildren(...l) { for (const c of this.childNodes) c.parent = null; this.childNodes = []; this.append(...l); }
  setAttribute(k, v) { this.attributes[k] = v; }
  querySelector(tag) { for (const c of this.children) { if (c.tag === tag) return c; const f = c.querySelector(tag); if (f) return f; } return null; }
  get textContent() { return this.childNodes.length ? this.childNodes.map(c => c.textContent).join('') : this._text; }
  set textContent(t) { this.replaceChildren(); this._text = t; }
  focus() {}
}
E.count = 0;
const ids = {};
const document = { getElementById: id => ids[id] || (ids[id] = new E(id)), createElement: t => new E(t), createElementNS: (n, t) => new E(t) };
let uptime = 100, polls = [];
function status() {
  uptime += 1;
  const metrics = [];
  for (let i = 26; i >= 1; --i) { metrics.push({ name: 'emblem_tier_hit_rate', labels: { model: 'm', version: '1', table: 't' + i, tier: 'L2' }, value: '0.5' }); metrics.push({ name: 'emblem_missing_keys_total', labels: { model: 'm', version: '1', table: 't' + i }, value: String(uptime) }); }
  metrics.push({ name: 'emblem_update_sequence', labels: { model: 'm' }, value: '3' });
  return { server: 'emblem', version: '1', ready: true, uptime_s: uptime, time_s: 1e9 + uptime, cpu: .5, memory_used: 1e9, memory_total: 4e9, resident: 1e8,
    models: [{ name: 'm10', version: '1', state: 'UNAVAILABLE', reason: 'x'.repeat(200) }, { name: 'm2', version: '1', state: 'READY', reason: '', success: uptime * 10, fail: uptime, rows: uptime * 20, executions: uptime, success_ns: 1e9, latency: [[40, uptime * 10]], batches: [[2, uptime]] }], metrics };
}
const answers = { 'history.json': () => ({ step_s: 10, samples: [[1e9 + 10, 5, 100, 900, 0, 1e8], [1e9 + 20, 6, 0, 0, 1, 2e8]] }), 'status.json': status };
const context = { document, sessionStorage: { getItem: () => null, setItem() {} }, setTimeout: f => polls.push(f), Intl, Map, Math, console,
  fetch: async p => ({ status: 200, ok: true, json: async () => JSON.parse(JSON.stringify(answers[p]())) }) };
vm.createContext(context);
vm.runInContext(fs.readFileSync(process.argv[2], 'utf8'), context);
(async () => {
  const tick = () => new Promise(r => setImmediate(r));
  for (let i = 0; i < 20; ++i) await tick();
  const must = (ok, what) => { if (!ok) { console.log('FAILED', what); process.exitCode = 1; } };
  must(ids.problem.textContent === '', ids.problem.textContent);
  const rows = ids.tables.children.map(r => r.cells[1].textContent);
  must(rows.join() === Array.from({ length: 26 }, (_, i) => 't' + (i + 1)).join(), 'order ' + rows);
  const models = ids.models.children.map(r => r.cells[0].textContent);
  must(models.join() === 'm2 1,m10 1', models);
  const before = [...ids.tables.children, ...ids.models.children];
  ids.models.children[1].querySelector('details').open = true;
  for (let n = 0; n < 15; ++n) { polls.shift()(); for (let i = 0; i < 20; ++i) await tick(); }
  must([...ids.tables.children, ...ids.models.children].every((e, i) => e === before[i]), 'rows were replaced');
  must(ids.models.children[1].querySelector('details').open, 'folded again');
  must(ids.models.children[0].querySelector('details').hidden, 'no reason, but shown');
  must(ids.rate.textContent === '10', 'rate ' + ids.rate.textContent);
  must(ids.tables.children[0].cells[5].textContent === String(uptime), ids.tables.children[0].textContent);
  must(ids.tables.children[0].cells[3].textContent === '50.0 %', ids.tables.children[0].textContent);
  const path = ids.rates.children.find(e => e.tag === 'path').attributes.d;
  must(/^M/.test(path) && path.split(/[ML]/).length > 3, path);
  must(ids.metrics.children.length === 1, 'metrics');
  console.log('page', process.exitCode ? 'failed' : 'ok', path);
})();
