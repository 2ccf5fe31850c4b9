// checkpoint/manifest.h - what a checkpoint says about itself: the file manifest.json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_facts.h"
#include "data/batch.h"
#include "emblem/api.h"
#include "optim/schedule.h"

namespace emblem {

// Raised when a program that knows only the old number would misread the new files.
inline constexpr int64_t kCheckpointFormat = 2;  // 1: of one rank

struct ManifestParameter {
  std::string name;
  std::vector<int64_t> shape;
};

struct ManifestTable {
  std::string name;
  std::string kind;  // "static" or "dynamic"
  int64_t dim = 0;
  std::string dtype;  // type of the rows in memory; files hold float32
  int64_t rows = 0;
  std::string optimizer;
  std::vector<std::string> files;  // keys of Manifest::files
};

// With it an fp16 run continues with the loss scale it had (train/learner/loss_scaler.h).
struct LossScaleState {
  double scale = 1.0;
  int64_t good_steps = 0;  // since the scale last changed

  bool operator==(const LossScaleState&) const = default;
};

// With it a resumed run stops where an uninterrupted one would.
struct EarlyStoppingState {
  std::string metric;  // that was watched; empty: not known (written by an older program)
  bool has_best = false;
  double best = 0.0;
  int64_t best_step = 0;
  int64_t bad_evaluations = 0;
};

// The files that a run reads.
struct InputFiles {
  int64_t files = 0, bytes = 0;
  uint64_t names = 0;               // a hash of names and sizes
  std::optional<uint64_t> content;  // a hash of checksums; absent: not known

  bool operator==(const InputFiles&) const = default;
};

struct Manifest {
  std::string emblem_version = kVersion;
  int64_t step = 0;                           // steps taken
  int64_t epoch = 0;                          // epoch of the next batch, from 0
  std::string model;                          // "dlrm"
  std::vector<ManifestParameter> parameters;  // in dense.safetensors
  std::vector<ManifestTable> tables;
  DataPosition position;  // position of the next batch
  // On several ranks: of the next batch of each shard. Empty: one stream of data.
  std::vector<DataPosition> positions;
  std::map<std::string, PlateauState> schedules;
  EarlyStoppingState early_stopping;
  std::optional<LossScaleState> loss_scale;  // absent unless the run has computed in fp16
  // The evaluation that is due at this step has not taken place; a resumed run begins with it.
  bool evaluation_due = false;
  // Written for early_stopping.restore_best alone; removed when a better one is written.
  bool only_best = false;
  std::map<std::string, double> metrics;  // metrics of the last evaluation; NaN where undefined
  std::map<std::string, uint64_t> seeds;
  int64_t deltas = 0;  // the number of the last delta (train/state/delta_export.h) before it
  std::optional<InputFiles> input_files;    // absent for streams and rows in memory
  std::optional<InputFiles> sampler_files;  // absent where there is no sampler, and for streams
  std::map<std::string, FileFacts> files;   // all but manifest.json, by path within the checkpoint
};

// JSON with a checksum of itself.
std::string manifest_text(const Manifest& manifest);

// Throws Error naming `path`: kInvalidArgument for JSON of something else or of a newer format,
// kCorruption for anything that manifest_text did not write.
Manifest parse_manifest(const std::string& text, const std::string& path);

}  // namespace emblem
