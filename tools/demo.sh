#!/usr/bin/env bash
# Runs every step once: data, training, evaluation, prediction, inspection, serving, a benchmark, a report.
#   tools/demo.sh EMBLEM FOLDER
set -euo pipefail

emblem=$1
out=$2
rm -rf "$out"
mkdir -p "$out"

say() { printf '\n== %s\n' "$*"; }

say "Synthesizing 1 M rows with a known best AUC"
"$emblem" synth --preset criteo --rows 1M --test-rows 200k --scale 0.05 --format tsv --out "$out/data"

say "Training DLRM with dynamic tables"
"$emblem" train --config configs/criteo/dlrm.config --model-dir "$out/model" \
  --set "train_input_path=$out/data/train" --set "eval_input_path=$out/data/test"

say "Evaluating the checkpoint on the test split"
"$emblem" eval --checkpoint "$out/model" --json "$out/eval.json"

say "Predicting"
"$emblem" predict --checkpoint "$out/model" --input "$out/data/test" --out "$out/predictions.csv"
head -n 4 "$out/predictions.csv"

say "Inspecting the checkpoint"
"$emblem" inspect "$out/model"

say "Serving it"
"$emblem" export --checkpoint "$out/model" --out "$out/models/dlrm"
python3 tools/ask_server.py "$emblem" "$out/models" dlrm "$(find "$out/data/test" -type f | head -n 1)" "$out/predictions.csv"

say "Benchmarking a training step"
"$emblem" bench train --preset dlrm-kaggle --batch 2048 --dim 16 --seconds 3 --json "$out/bench_train.json"

# The report includes the results of PyTorch if `make peers` has written them.
peers=()
for file in build/peers/*.json; do [ -f "$file" ] && peers+=("$file"); done
"$emblem" report "$out/model" "$out/bench_train.json" "${peers[@]}" --data "$out/data/metadata.json" \
  --title "Emblem demo" --out "$out/report.html"

say "Result"
python3 - "$out" <<'PY'
import json, sys
out = sys.argv[1]
found = json.load(open(f"{out}/eval.json"))
limit = json.load(open(f"{out}/data/metadata.json"))
print(f"test AUC      {found['auc']:.4f}   best possible {limit['best_auc']:.4f}   gap {limit['best_auc'] - found['auc']:.4f}")
print(f"test log loss {found['log_loss']:.4f}   best possible {limit['best_log_loss']:.4f}")
print(f"open {out}/report.html in a browser")
PY
