// retrieval/index.h - items that can be searched by their vectors, and changed meanwhile.
//
//   const auto index = Index::build(context, {.dim = 64}, {ids, vectors});
//   const auto found = index->search(context, queries, {.k = 100});
//   for (const ScoredItem& item : found[0]) ...
//   index->add(context, {new_ids, new_vectors});
//   index->save("index");
//
// A context of a GPU keeps the items in its memory: all calls are given one of the same device.
// kind ivf_flat is for CPUs.
//
// Thread-safe, with a thread pool of its own in the context of each thread. A search sees the items
// as they were when it began; changes are made one after the other, each as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "retrieval/search.h"

namespace emblem {

// kFlat: searches are exact. kIvfFlat: items are in lists around centroids, and a search looks at
// those of the nearest lists; of the items that it looks at it returns exactly the best.
enum class IndexKind { kFlat, kIvfFlat };

constexpr const char* name_of(IndexKind kind) {
  return kind == IndexKind::kFlat ? "flat" : "ivf_flat";
}

struct IndexSettings {
  int64_t dim = 0;
  Similarity similarity = Similarity::kInnerProduct;
  DType dtype = DType::kF32;  // of the stored vectors, which scores are those of
  IndexKind kind = IndexKind::kFlat;
  int64_t lists = 0;                    // ivf_flat; 0: twice the root of the number of items
  std::vector<std::string> attributes;  // names, at most 64
  uint64_t seed = 1;                    // of the lists
  // Type of the products that scans begin with, fp32 or bf16; absent: the faster one of this CPU.
  // Results do not depend on it, memory does: 4 or 2 bytes an element besides the vectors.
  std::optional<DType> scan;
};

// Items to add: vectors [ids.size(), dim], row-major; attributes has a bit for each name in the
// settings, or is empty. A vector of cosine is not all zeros.
struct Items {
  std::span<const int64_t> ids;
  View<const float> vectors;
  std::span<const uint64_t> attributes = {};
};

enum class Existing { kRefuse, kReplace };

struct SearchOptions {
  int64_t k = 10;
  int64_t probes = 16;  // lists of an ivf_flat that are searched
  // Ids that are not found, for each query; empty: none.
  std::vector<std::vector<int64_t>> exclude = {};
  std::vector<std::string> allow = {};  // attributes that items must have, all of them
};

class Index {
 public:
  // Without items. Those that are added are searched exactly until rebuild().
  Index(const IndexSettings& settings);
  static std::unique_ptr<Index> build(const Context& context, const IndexSettings& settings,
                                      const Items& items);

  const IndexSettings& settings() const { return settings_; }
  // Computes the first products of searches on a CPU.
  const cpu::TileKernel& kernel() const { return *kernel_; }
  int64_t count() const;
  int64_t memory_bytes() const;

  // The best k for each row of `queries`, in the order of scores (descending) and ids (ascending):
  // fewer where fewer can be found.
  std::vector<std::vector<ScoredItem>> search(const Context& context, View<const float> queries,
                                              const SearchOptions& options) const;

  // Errors change nothing: a duplicate id, an id that is there (kRefuse), a vector with NaN.
  void add(const Context& context, const Items& items, Existing existing = Existing::kRefuse);
  // Throws kNotFound, and removes nothing, when one of the items is not there.
  void remove(std::span<const int64_t> ids);
  // Makes one segment, and new lists, of all items.
  void rebuild(const Context& context);

  // Writes a folder (docs/formats.md), which must not exist. It appears whole or not at all.
  void save(const std::string& folder) const;
  // Throws Error that names the file: kNotFound without a manifest, kCorruption for damage,
  // kInvalidArgument for a folder of something else, one of a newer format, or a kind that the
  // device of `context` does not search.
  static std::unique_ptr<Index> load(const Context& context, const std::string& folder);

 private:
  struct Part {
    std::shared_ptr<const ItemSegment> segment;
    std::shared_ptr<const std::vector<uint64_t>> removed;  // null: none
    int64_t live = 0;

    bool is_live(int64_t row) const {
      return removed == nullptr || ((*removed)[row / 64] >> (row % 64) & 1) == 0;
    }
  };
  // What searches see. With centroids, the first part has their lists.
  struct State {
    std::vector<Part> parts;
    std::shared_ptr<const ItemSegment> centroids;
  };
  struct Found {
    size_t part;
    int64_t row;
  };

  std::shared_ptr<const State> state() const;
  void set_state(State state);
  void require_device(const Context& context) const;
  static std::optional<Found> find(const State& state, int64_t id);
  static void remove_rows(State& state, std::span<const Found> rows);
  ItemTable table_of(const Items& items) const;
  Part part_of(const Context& context, ItemTable items, std::vector<int64_t> lists) const;
  static void append_live(const Part& part, int64_t begin, int64_t end, ItemTable& to);
  void merge_parts(const Context& context, State& state) const;
  State built(const Context& context, ItemTable items) const;
  uint64_t attribute_bits(const std::vector<std::string>& names) const;

  IndexSettings settings_;
  const cpu::TileKernel* kernel_;
  std::mutex writer_;  // held by the thread that changes the items
  mutable std::mutex state_mutex_;
  std::shared_ptr<const State> state_;
};

// Adds what another vector of the same user has found: an item has the better of its scores, and
// the best k stay.
void add_found(std::vector<ScoredItem> more, int64_t k, std::vector<ScoredItem>& all);

}  // namespace emblem
