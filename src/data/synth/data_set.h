// data/synth/data_set.h - how synthetic data sets are written: rows drawn on several threads, in
// the same bytes with any number of them; train/, test/ and metadata.json.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/device/context.h"
#include "core/files/file.h"
#include "core/system/progress.h"
#include "core/threads/thread_pool.h"
#include "data/format/output_folder.h"

namespace emblem {

// A tenth of the training rows where `test_rows` is negative.
inline int64_t test_rows_of(int64_t test_rows, int64_t rows) {
  return test_rows < 0 ? std::max<int64_t>(1, rows / 10) : test_rows;
}

// Calls fill(chunk, begin, end) for chunks of `chunk_rows` rows, concurrently, and take(chunk) for
// each in their order. `rows_before` were written before.
template <class Chunk, class Fill, class Take>
void write_chunks(const Context& context, int64_t rows, int64_t chunk_rows, Progress& progress,
                  int64_t rows_before, const Fill& fill, const Take& take) {
  constexpr int64_t kAtOnce = 16;
  std::vector<Chunk> chunks(kAtOnce);
  for (int64_t begin = 0; begin < rows; begin += kAtOnce * chunk_rows) {
    const int64_t count = std::min(rows - begin, kAtOnce * chunk_rows);
    parallel_for(context, count, chunk_rows, [&](int64_t from, int64_t to) {
      fill(chunks[static_cast<size_t>(from / chunk_rows)], begin + from, begin + to);
    });
    for (int64_t from = 0; from < count; from += chunk_rows)
      take(chunks[static_cast<size_t>(from / chunk_rows)]);
    progress.update(rows_before + begin + count);
  }
}

// Adds the metadata to a folder whose splits are written, and puts it in its place.
inline void finish_data_set(OutputFolder& folder, const std::string& metadata, Progress& progress) {
  FileWriter file(folder.path() + "/metadata.json");
  file.write(metadata);
  file.finish();
  folder.commit();
  progress.finish();
}

}  // namespace emblem
