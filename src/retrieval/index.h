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
#include <thread>
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
  int64_t lists = 0;    // ivf_flat; 0: twice the root of the number of items
  int64_t probes = 16;  // ivf_flat: lists that are searched unless a search says
  // ivf_flat: the share of the best items that searches of `probes` lists find, where it was
  // measured (Index::measure_recall).
  std::optional<double> recall;
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

// Lists of items that are given in their order: how many items each has, and its centroid
// [lengths.size(), dim], in fp32.
struct ItemLists {
  std::span<const int64_t> lengths;
  View<const float> centroids;
};

enum class Existing { kRefuse, kReplace };

struct SearchOptions {
  int64_t k = 10;
  std::optional<int64_t> probes = {};  // lists of an ivf_flat; absent: those of IndexSettings
  // Ids that are not found, for each query; empty: none.
  std::vector<std::vector<int64_t>> exclude = {};
  std::vector<std::string> allow = {};  // attributes that items must have, all of them
  // The only ids that may be found, for each query: these items are scored, exactly with any kind
  // of index, and no others. Ids that are not there are passed over. Empty: all items.
  std::vector<std::vector<int64_t>> only = {};
};

class Index {
 public:
  static constexpr int64_t kRecallItems = 1000, kRecallK = 100;

  // Without items. Those that are added are searched exactly until rebuild().
  Index(const IndexSettings& settings);
  static std::unique_ptr<Index> build(const Context& context, const IndexSettings& settings,
                                      const Items& items);
  // With lists that are given, of kind ivf_flat.
  static std::unique_ptr<Index> build(const Context& context, const IndexSettings& settings,
                                      const Items& items, const ItemLists& lists);
  ~Index();  // waits for a merge of segments, if one is under way

  const IndexSettings& settings() const { return settings_; }
  // Computes the first products of searches on a CPU.
  const cpu::TileKernel& kernel() const { return *kernel_; }
  int64_t count() const;
  int64_t lists() const;  // of an ivf_flat with items; else 0
  int64_t memory_bytes() const;

  // The best k for each row of `queries`, in the order of scores (descending) and ids (ascending):
  // fewer where fewer can be found. `change`, unless null: the number of the last change that the
  // search has seen.
  std::vector<std::vector<ScoredItem>> search(const Context& context, View<const float> queries,
                                              const SearchOptions& options,
                                              int64_t* change = nullptr) const;

  // Measures which share of the best kRecallK items searches of the settings' probes find, with
  // kRecallItems items, drawn evenly, as queries that do not find themselves; or chooses the least
  // probes that reach a share. Settings say which. Called before other threads use the index.
  void measure_recall(const Context& context);
  void choose_probes(const Context& context, double recall);

  // Changes are seen by searches that begin after the call, and return their number: 1 for the
  // first. On a CPU a thread of the index merges large segments later.
  // Errors change nothing: a duplicate id, an id that is there (kRefuse), a vector with NaN.
  int64_t add(const Context& context, const Items& items, Existing existing = Existing::kRefuse);
  // Throws kNotFound, and removes nothing, when one of the items is not there.
  int64_t remove(std::span<const int64_t> ids);
  int64_t changes() const { return state()->changes; }
  // Makes one segment, and new lists, of all items.
  void rebuild(const Context& context);

  // What it holds: items in the order of lists, then those that were added since and are in none.
  struct Contents {
    ItemTable items;
    std::vector<int64_t> lists;  // items of each; empty: there are no lists
    ItemRows centroids;
  };
  Contents contents() const;

  // Writes a folder (docs/formats.md), which must not exist. It appears whole or not at all.
  void save(const std::string& folder) const;
  // Throws Error that names the file: kNotFound without a manifest, kCorruption for damage,
  // kInvalidArgument for a folder of something else, one of a newer format, or a kind that the
  // device of `context` does not search.
  static std::unique_ptr<Index> load(const Context& context, const std::string& folder);
  // Whether a saved index can be loaded with a context of a GPU. Throws as load() does.
  static bool is_for_gpu(const std::string& folder);

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
    std::shared_ptr<const ListBounds> bounds;
    int64_t changes = 0;
  };
  struct Found {
    size_t part;
    int64_t row;
  };
  using Results = std::vector<std::vector<ScoredItem>>;

  std::shared_ptr<const State> state() const;
  void set_state(State state);
  void require_device(const Context& context) const;
  static std::optional<Found> find(const State& state, int64_t id);
  static void remove_rows(State& state, std::span<const Found> rows);
  ItemTable table_of(const Items& items) const;
  Part part_of(const Context& context, ItemTable items, std::vector<int64_t> lists) const;
  static void append_live(const Part& part, int64_t begin, int64_t end, ItemTable& to);
  Part merged(const Context& context, const Part& first, const Part& second) const;
  static std::optional<size_t> part_to_merge(const State& state);
  void merge_parts(const Context& context, State& state, int64_t most) const;
  void merge_later();
  void merge_large_parts();
  void replace_merged(const Part& first, const Part& second, Part part);
  Results search_only(const Context& context, const State& state, View<const float> queries,
                      int64_t k, const ItemFilter& filter,
                      std::span<const std::vector<int64_t>> only) const;
  Results search_all(const Context& context, const State& state, View<const float> queries,
                     int64_t k, const ItemFilter& filter, int64_t probes) const;
  struct RecallSample;
  RecallSample draw_recall_sample(const Context& context) const;
  double recall_of(const Context& context, const RecallSample& sample, int64_t probes) const;
  State built(const Context& context, ItemTable items) const;
  State state_of(const Context& context, Contents contents) const;
  uint64_t attribute_bits(const std::vector<std::string>& names) const;

  IndexSettings settings_;
  const cpu::TileKernel* kernel_;
  std::mutex writer_;  // held by the thread that changes the items
  std::thread merger_;
  bool is_merging_ = false, is_ending_ = false;  // guarded by writer_
  mutable std::mutex state_mutex_;
  std::shared_ptr<const State> state_;
};

// Adds what another vector of the same user has found: an item has the better of its scores, and
// the best k stay.
void add_found(std::vector<ScoredItem> more, int64_t k, std::vector<ScoredItem>& all);

}  // namespace emblem
