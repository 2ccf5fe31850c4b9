// config/check/semantics.h - what a pipeline means where versions of Emblem differ.
//
// A trained model keeps its meaning: the pipeline.config of a checkpoint or an exported model
// records semantics_version and fg_mode, and whatever reads it follows the record. A
// pipeline.config without the record was written by Emblem 0.1 and is version 1. A pipeline file of
// a user without it is of the current version.
#pragma once

#include <cstdint>
#include <string>

#include "config/proto/pipeline.pb.h"

namespace emblem {

inline constexpr uint32_t kOldestSemantics = 1;
inline constexpr uint32_t kCurrentSemantics = 2;

// The decisions that versions take differently. Defaults are those of the current version, which
// follows TorchEasyRec.
struct Semantics {
  config::FgMode fg_mode = config::FG_NONE;  // version 1: always as FG_NORMAL
  // hash_bucket_size and texts in dynamic tables: fg_hash. Version 1: mix64 of integers,
  // hash_string of text.
  bool fg_hash = true;
  // A raw feature's default_value is its final value. Version 1: it is normalized.
  bool default_after_normalizer = true;
  // dcn_v1 and dcn_v2 read the first feature group, dcn_v2's deep network reads the group itself,
  // and the last layer has no bias. Version 1: the group "deep" or the only one, the backbone's
  // output, a bias.
  bool torcheasyrec_dcn = true;
  // Settings that would have no effect are refused. Version 1: accepted, as they were when the
  // model was trained.
  bool strict_checks = true;

  bool operator==(const Semantics&) const = default;
};

// Throws Error when semantics_version is one that this program does not know.
Semantics semantics_of(const config::PipelineConfig& config);

// Writes down what `config` means, for a file that has to keep its meaning.
void record_semantics(config::PipelineConfig* config);

// Lets `config`, which a user gave, mean what the checkpoint's `stored` pipeline means, with tables
// of as many rows (divide_tables) and ids of the same types (column_types). Throws Error when it
// asks for something else.
void adopt_semantics(const config::PipelineConfig& stored, const std::string& checkpoint,
                     config::PipelineConfig* config);

}  // namespace emblem
