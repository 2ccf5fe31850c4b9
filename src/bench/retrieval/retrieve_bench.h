// bench/retrieval/retrieve_bench.h - the speed of searches for the best items, compared with the
// limits of products and of memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"
#include "core/device/context.h"
#include "retrieval/index.h"

namespace emblem {

struct RetrieveOptions {
  int64_t items = 1000000;
  int64_t dim = 128;
  std::vector<int64_t> users = {1, 16, 64};  // queries at a time, one result for each
  int64_t top_k = 100;
  DType dtype = DType::kF32;
  Similarity similarity = Similarity::kInnerProduct;
  IndexKind kind = IndexKind::kFlat;
  double filter = 0.0;  // share of the items that an attribute allows; 0: no filter
  int64_t exclude = 0;  // items that are not found for a query: its best and others, half of each
  int64_t lists = 0;    // of ivf_flat; 0: as IndexSettings
  std::vector<int64_t> probes = {16};  // of ivf_flat; one result for each
  // 0: elements are random. Otherwise items and queries lie around this many centers, which are
  // chosen as often as a power law has it.
  int64_t topics = 0;
  double noise = 0.5;  // standard deviation of elements around those of a center, which have 1
  std::optional<DType> scan;
  double seconds = 2.0;  // of timed searches, at least five
  std::string data;  // folder for items.f32 and queries.f32, for programs to compare with; or none
};

// Builds an index of generated items, checks some of its answers against scores of all items
// (flat), or measures the recall against an exact index (ivf_flat), then times searches, with
// `exclude` also those of the same queries without it; `show` is called with each result, one for
// each number of users and, of ivf_flat, of probes. Throws if an answer of a flat index is wrong.
// On a CPU with one thread, times are CPU times, so that other
// work of the machine does not count.
std::vector<BenchResult> bench_retrieve(const Context& context, const RetrieveOptions& options,
                                        const std::function<void(const BenchResult&)>& show);

}  // namespace emblem
