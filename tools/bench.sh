#!/usr/bin/env bash
# Trains the shipped pipelines and judges them by bench/baselines. Interrupted, it goes on where it stopped.
#   tools/bench.sh EMBLEM FOLDER [more options of `emblem bench suite`]
# The Criteo-shaped data is synthesized with a planted truth; Frappe is used where data/frappe holds it.
set -euo pipefail

emblem=$1
out=$2
shift 2
data=$out/criteo  # bench/baselines/pipelines.json names it

if [ ! -f "$data/metadata.json" ]; then
  rm -rf "$data"
  "$emblem" synth --preset criteo --rows 1M --test-rows 200k --scale 0.05 --format tsv --out "$data"
fi
if [ -f "$out/suite/suite.json" ]; then rm -rf "$out/suite"; fi # a finished one
exec "$emblem" bench suite --config configs --baseline bench/baselines/pipelines.json --out "$out/suite" \
  --history "$out/history.jsonl" "$@"
