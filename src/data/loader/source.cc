#include "data/loader/source.h"

#include <algorithm>
#include <new>

#include "core/system/warn_once.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Decoded rows that may wait, whatever prefetch_batches says.
constexpr int64_t kMostPrefetchedBytes = int64_t{128} << 20;

}  // namespace

void Loader::Source::rethrow(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory,
                "out of memory while loading data; lower data_config.batch_size, "
                "prefetch_batches, shuffle_buffer_size or num_workers");
  }
}

// The length of sequences without a limit is a guess.
int64_t Loader::Source::bytes_of_row(const FeatureLayout& features) {
  int64_t bytes = 4 * features.dense_cols + 8 * features.sparse_count +
                  4 * static_cast<int64_t>(features.labels.size());
  for (const SequenceSpec& sequence : features.sequences) {
    const int64_t length = sequence.max_length > 0 ? sequence.max_length : 64;
    bytes +=
        length * (4 * sequence.dense_cols + 8 * static_cast<int64_t>(sequence.features.size()));
  }
  return std::max<int64_t>(bytes, 1);
}

int64_t Loader::Source::rows_to_prefetch(const FeatureLayout& features,
                                         const LoaderOptions& options) {
  const int64_t affordable =
      std::max(kMostPrefetchedBytes / bytes_of_row(features), 2 * options.batch_size);
  return std::min(affordable, std::max(options.prefetch_batches, 1) * options.batch_size);
}

void Loader::Source::warn_of_changes(const std::string& input, const FeatureCounts& counts) {
  const std::string text = changes_text(counts);
  if (!text.empty()) warn_once("changes: " + input, cat(input, ": ", text));
}

}  // namespace emblem
