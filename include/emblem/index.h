// emblem/index.h - items that are searched by their vectors: the best ones for a user's vector, or
// those that are most like another item.
//
//   Index index({.dim = 64, .similarity = "cosine"});
//   index.add({.ids = ids, .vectors = vectors});         // [ids, 64]
//   const FoundItems found = index.search(users, {.k = 10});
//   found.ids[row * found.width]                         // the best item of a row
//
// Results depend on the items and the options alone: not on the number of threads, on the queries
// of the same call, or on the order in which items came. Equal scores are in the order of the ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emblem/api.h"

namespace emblem {
EMBLEM_PUBLIC {
  struct IndexOptions {
    int64_t dim = 0;                           // floats per vector, 1 to 65536
    std::string similarity = "inner_product";  // or "cosine"
    std::string value_type = "fp32";  // of vectors in memory: "fp32", "fp16", "bf16" or "int8"
    // "flat": searches are exact. "ivf_flat", on a CPU: once rebuild() has been called, they look
    // at the items of the lists whose centroids are nearest.
    std::string kind = "flat";
    int64_t lists = 0;    // of ivf_flat; 0: twice the root of the number of items
    int64_t probes = 16;  // of ivf_flat: lists that a search looks at, unless it says how many
    uint64_t seed = 1;    // of the lists
    std::vector<std::string> attributes = {};  // that searches filter items by; at most 64

    std::string device = "cpu";  // or "cuda", with the items in its memory
    int threads = 0;             // compute threads; 0: one per CPU
  };

  struct IndexedItems {
    std::span<const int64_t> ids;    // each once
    std::span<const float> vectors;  // [ids, dim]; with "cosine" none is all zeros
    // A number for each item, whose bit i says whether it has attribute i; empty: none has any.
    std::span<const uint64_t> attributes = {};
  };

  struct IndexSearch {
    int64_t k = 10;
    std::optional<int64_t> probes = {};  // lists of an ivf_flat; absent: those of IndexOptions
    // Ids that are not found: a list for each query; empty: none.
    std::vector<std::vector<int64_t>> exclude = {};
    std::vector<std::string> filter = {};  // attributes that items must have, all of them
    // The only ids that may be found: a list for each query; empty: all items. These are scored
    // exactly with any kind of index. Ids that are not there are passed over.
    std::vector<std::vector<int64_t>> allow = {};
  };

  // Best first. A row of which fewer are found ends with ids of -1 and scores of NaN.
  struct FoundItems {
    int64_t width = 0;           // k, or all items where there are fewer
    std::vector<int64_t> ids;    // [queries, width]
    std::vector<float> scores;   // likewise
    std::vector<int64_t> count;  // found for each query
  };

  // Thread-safe: calls wait for each other. Functions throw Error, with one line, and then have
  // changed nothing; std::bad_alloc where memory ends. Spans are not kept.
  class EMBLEM_API Index {
   public:
    // Without items.
    explicit Index(const IndexOptions& options);
    // The folder of save(), or the folder "index" in a version that `emblem index` has written. Of
    // `options` device and threads are used.
    static Index load(const std::string& folder, const IndexOptions& options = {});
    ~Index();
    Index(Index&&) noexcept;
    Index& operator=(Index&&) noexcept;

    const IndexOptions& options() const;
    int64_t size() const;   // items
    int64_t bytes() const;  // memory held by them, of host and GPU

    // Throws for an id that is there.
    void add(const IndexedItems& items);
    // The same, but items that are there get the new vector and attributes.
    void replace(const IndexedItems& items);
    // Throws kNotFound for an id that is not there.
    void remove(std::span<const int64_t> ids);
    // Makes searches fast again after many changes, and the lists of an ivf_flat: call it once the
    // items have been added. Items that come later are searched exactly.
    void rebuild();

    // `queries` is [rows, dim].
    FoundItems search(std::span<const float> queries, const IndexSearch& search = {}) const;

    // Writes a new folder; it appears whole or not at all.
    void save(const std::string& folder) const;

   private:
    struct State;
    explicit Index(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };

}  // namespace api
}  // namespace emblem
