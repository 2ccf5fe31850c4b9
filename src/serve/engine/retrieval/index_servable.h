// serve/engine/retrieval/index_servable.h - versions with an index of items, which `emblem index`
// writes: requests have features of users, or their vectors, and get the best items.
//
// The version's manifest has the sizes and checksums of the files of both, so that the tower and
// the index of one version are loaded together or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "serve/engine/model_options.h"
#include "serve/engine/servable.h"

namespace emblem {

// The index in the folder of a version. Columns that are stored with its items are beside it
// (serve/engine/retrieval/stored_columns.h).
inline constexpr const char* kIndexFolder = "index";

// Whether the version in `folder` has an index. Throws kCorruption for one that its manifest does
// not list.
bool has_index(const std::string& folder);

// Searches the index of the version in `folder` with the vectors of `tower`, as `options` say: on
// the GPU if the tower runs there and the index can be searched there, else on threads of the CPU;
// `tower` itself where the version has no index. Throws kCorruption for an index that is damaged or
// of another version.
std::unique_ptr<Servable> with_index(std::unique_ptr<Servable> tower, int64_t version,
                                     const std::string& folder, const ModelOptions& options);

// The servable of a version without tables, parameters and items, which is all that a model
// configuration needs.
std::unique_ptr<Servable> describe_version(const std::string& folder);

}  // namespace emblem
