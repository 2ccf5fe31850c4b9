#!/usr/bin/env bash
# Trains the shipped pipelines and compares them with bench/baselines. If interrupted, it continues on the next call.
#   tools/bench.sh EMBLEM FOLDER [further options of `emblem bench suite`]
# Criteo-shaped data is synthesized; the Frappe pipelines run if data/frappe exists.
set -euo pipefail

emblem=$1
out=$2
shift 2
data=$out/criteo  # bench/baselines/pipelines.json names it

if [ ! -f "$data/metadata.json" ]; then
  rm -rf "$data"
  "$emblem" synth --preset criteo --rows 1M --test-rows 200k --scale 0.05 --format tsv --out "$data"
fi
if [ -f "$out/suite/suite.json" ]; then rm -rf "$out/suite"; fi # finished: start a new one
exec "$emblem" bench suite --config configs --baseline bench/baselines/pipelines.json --out "$out/suite" \
  --history "$out/history.jsonl" "$@"
