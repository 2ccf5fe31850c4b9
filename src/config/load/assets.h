// config/load/assets.h - the files that features read: vocabularies, tokenizers, characters to
// remove.
//
// A checkpoint has a copy of each under a name that follows from its content, so that it means the
// same wherever it is and whatever becomes of the originals.
#pragma once

#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"

namespace emblem {

struct Asset {
  std::string name;  // "assets/0123456789abcdef_words.txt", beside pipeline.config
  std::string content;
};

// Reads every file that the features of `config` name, each once, and puts names in the place of
// paths. Throws Error that names the feature and the file where one cannot be read.
std::vector<Asset> take_assets(config::PipelineConfig* config);

// The other way: the names in a pipeline that a checkpoint or an exported model holds become paths
// of files in `folder`. Other paths stay as they are.
void find_assets(const std::string& folder, config::PipelineConfig* config);

// Checks a pipeline after find_assets, in a folder whose content someone else chose: throws
// kInvalidArgument when a feature reads a file that is not one of these copies.
void require_own_assets(const std::string& folder, config::PipelineConfig config);

}  // namespace emblem
