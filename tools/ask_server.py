#!/usr/bin/env python3
"""Starts `emblem serve`, requests predictions for the first rows of a Criteo TSV file over HTTP, and prints them with the
predictions of `emblem predict`.

  tools/ask_server.py EMBLEM REPOSITORY MODEL ROWS.tsv PREDICTIONS.csv
"""
import json, re, struct, subprocess, sys, urllib.request

ROWS = 3
MISSING = -2**63

def read_rows(path):
    numbers, ids = [], []
    with open(path) as file:
        for line, _ in zip(file, range(ROWS)):
            fields = line.rstrip("\n").split("\t")
            numbers.append([float(f or "nan") for f in fields[1:14]])
            ids.append([int(f, 16) if f else MISSING for f in fields[14:40]])
    return numbers, ids

def ask(address, model, numbers, ids):
    """Uses the binary tensor extension: a JSON header, then the tensors."""
    packed_ids = b"".join(struct.pack("<26q", *row) for row in ids)
    packed_numbers = b"".join(struct.pack("<13f", *row) for row in numbers)
    header = json.dumps({"inputs": [
        {"name": "categorical_features", "datatype": "INT64", "shape": [len(ids), 26],
         "parameters": {"binary_data_size": len(packed_ids)}},
        {"name": "numerical_features", "datatype": "FP32", "shape": [len(ids), 13],
         "parameters": {"binary_data_size": len(packed_numbers)}}]}).encode()
    request = urllib.request.Request(f"{address}/v2/models/{model}/infer", header + packed_ids + packed_numbers,
                                     {"Inference-Header-Content-Length": str(len(header))})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)["outputs"][0]["data"]

def main():
    emblem, repository, model, rows, predictions = sys.argv[1:]
    server = subprocess.Popen([emblem, "serve", "--models", repository, "--address", "127.0.0.1", "--http-port", "0",
                               "--grpc-port", "0", "--metrics-port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        address = None
        for line in server.stdout:
            print("  " + line, end="")
            address = address or next(iter(re.findall(r"^http\s+(\S+)", line)), None)
            if line.startswith("ready"):
                break
        answers = ask(address, model, *read_rows(rows))
    finally:
        server.terminate()
        server.wait()
    with open(predictions) as file:
        expected = [line.strip() for line, _ in zip(file, range(ROWS + 1))][1:]
    for row, (answer, prediction) in enumerate(zip(answers, expected)):
        print(f"row {row}: served {answer:.9g}, predicted {float(prediction):.9g}")

if __name__ == "__main__":
    main()
