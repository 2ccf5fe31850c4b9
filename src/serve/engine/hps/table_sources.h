// serve/engine/hps/table_sources.h - the tables of an exported model, as the parameter server loads
// them.
#pragma once

#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "ps/remote/row_message.h"
#include "ps/tables/table_source.h"

namespace emblem {

// Sources by name, each once, with the rows of these parts.
std::vector<TableSource> table_sources(const config::PipelineConfig& config,
                                       const FeatureLayout& layout, const Checkpoint& checkpoint,
                                       PartRange parts = {});

// What the version in this folder is to table servers and front ends.
ModelId model_id_of(const std::string& name, int64_t version, const std::string& folder);
// Throws kUnavailable when the folder has another version by now: it was replaced while it was
// read.
void check_unchanged(const ModelId& id, const std::string& folder);

}  // namespace emblem
