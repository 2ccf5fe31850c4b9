#!/usr/bin/env bash
# Trains the shipped pipelines and compares them with bench/baselines. If interrupted, it continues on the next call.
#   tools/bench.sh EMBLEM FOLDER [further options of `emblem bench suite`]
# Data of the shapes of Criteo, Taobao and Ali-CCP is synthesized; the pipelines of Frappe and census-income run if data/frappe
# and data/census exist.
set -euo pipefail

emblem=$1
out=$2
shift 2

# bench/baselines/pipelines.json names the folders
synth() { # NAME OPTIONS...
  local data=$out/$1
  if [ -f "$data/metadata.json" ]; then return; fi
  rm -rf "$data"
  "$emblem" synth --preset "$1" --out "$data" "${@:2}"
}
synth criteo --rows 1M --test-rows 200k --scale 0.05 --format tsv
synth taobao --rows 500k --test-rows 100k --divide-tables 100 --format csv
synth ccp --rows 500k --test-rows 100k --divide-tables 100 --format csv
if [ -f "$out/suite/suite.json" ]; then rm -rf "$out/suite"; fi # finished: start a new one
exec "$emblem" bench suite --config configs --baseline bench/baselines/pipelines.json --out "$out/suite" \
  --history "$out/history.jsonl" "$@"
