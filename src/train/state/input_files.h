// train/state/input_files.h - which files a run reads: a run that stopped within an epoch continues
// at its place in them.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/manifest.h"
#include "config/proto/pipeline.pb.h"
#include "data/source/storage.h"

namespace emblem {

// Of the first and the last 64 KiB: files of another day may have the same size, but hardly the
// same ends. Bytes that cannot be read count for nothing.
uint64_t checksum_of_ends(const std::string& path, uint64_t bytes);

// None for streams and rows in memory. The content is that of the ends of the files; not known of
// objects in remote stores.
std::optional<InputFiles> input_files_of(const config::PipelineConfig& config,
                                         const Storage& storage);
// What data_config.negative_sampler reads, all of it; none without a sampler.
std::optional<InputFiles> sampler_files_of(const config::PipelineConfig& config);

// Whether they differ in what is known of both.
bool are_other_files(const InputFiles& then, const InputFiles& now);

// "2 files with 1234 bytes"
std::string to_text(const InputFiles& files);

}  // namespace emblem
