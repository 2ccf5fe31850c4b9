#include "ps/tables/served_lookup.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "core/host_vector.h"
#include "core/thread_pool.h"
#include "embedding/cpu/gather_pool.h"
#include "ps/tables/unique_keys.h"

namespace emblem {
namespace {

constexpr int64_t kFindKeys = 2048;         // keys whose rows one piece of work finds
constexpr int64_t kKeysInFlight = 32;       // whose cache misses overlap
constexpr int64_t kSmallBatch = 128;        // keys whose rows may all be on their way at once
constexpr int64_t kBlockBytes = 128 << 10;  // of output that one piece of work fills

class ServedLookup : public Lookup {
 public:
  explicit ServedLookup(std::span<const ServedFeature> features) {
    for (const ServedFeature& feature : features) {
      EMBLEM_REQUIRE(feature.table != nullptr, "lookup: feature ", features_.size(),
                     " has no table");
      features_.push_back({feature.table, feature.table->in_place(), feature.pooling, width_});
      width_ += feature.table->dim();
      const MemoryTable* memory = features_.back().memory;
      if (memory == nullptr) continue;
      if (std::find(gates_.begin(), gates_.end(), &memory->gate()) == gates_.end()) {
        gates_.push_back(&memory->gate());
      }
    }
    readers_.resize(gates_.size());
    gathers_.resize(features_.size());
  }

  int64_t width() const override { return width_; }

  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView any_out) override {
    const View<float> out = any_out.floats();
    EMBLEM_REQUIRE(phase == Phase::kEval, "lookup: served tables cannot be trained");
    EMBLEM_REQUIRE(context.device == Device::kCpu && out.device == Device::kCpu,
                   "lookup: tables served from the CPU give no rows to a GPU");
    check(features, out);
    cpu_ = static_cast<unsigned>(sched_getcpu());
    for (Feature& feature : features_) feature.missing = 0;
    fetch_remote(features);
    const Inside inside(*this);
    find_in_memory(context, features);
    gather(context, features, out);
    for (size_t f = 0; f < features_.size(); ++f) {
      features_[f].counts.values += features[f].keys.size();
      features_[f].counts.missing += static_cast<int64_t>(features_[f].missing);
    }
  }

  std::vector<LookupCounts> take_counts(const Context&) override {
    std::vector<LookupCounts> counts;
    for (Feature& feature : features_) counts.push_back(std::exchange(feature.counts, {}));
    return counts;
  }

  double squared_gradient_norm(const Context&, ConstAnyView) override { refuse(); }
  void backward(const Context&, ConstAnyView, float, float, int64_t) override { refuse(); }

 private:
  struct Feature {
    ServedTable* table;
    const MemoryTable* memory;  // null: rows must be fetched
    Pooling pooling;
    int64_t column;
    HostVector<const float*> rows{};  // a key's row; null: no tier has it
    HostVector<float> fetched{};      // rows that had to be copied out of a tier
    uint64_t missing = 0;             // keys of the last batch that no tier has
    LookupCounts counts{};
  };

  // Inside the gates of all tables in memory, for as long as their rows are read.
  class Inside {
   public:
    explicit Inside(ServedLookup& lookup) : lookup_(lookup) {
      for (size_t i = 0; i < lookup.gates_.size(); ++i)
        lookup.readers_[i] = lookup.gates_[i]->enter();
    }
    ~Inside() {
      for (ReadGate::Reader& reader : lookup_.readers_) reader.leave();
    }

   private:
    ServedLookup& lookup_;
  };

  [[noreturn]] static void refuse() {
    throw Error(ErrorCode::kInvalidArgument, "lookup: served tables cannot be trained");
  }

  void check(std::span<const FeatureKeys> features, View<float> out) const {
    EMBLEM_REQUIRE(features.size() == features_.size(), "lookup: keys of ", features.size(),
                   " features were given, but there are ", features_.size());
    EMBLEM_REQUIRE(out.cols == width_, "lookup: output rows have ", out.cols, " floats, but need ",
                   width_);
    for (size_t f = 0; f < features.size(); ++f) {
      const auto& [keys, offsets, weights] = features[f];
      const std::string& table = features_[f].table->settings().name;
      EMBLEM_REQUIRE(weights.size() == 0 || weights.size() == keys.size(), "lookup: feature ", f,
                     " (table ", table, ") has ", weights.size(), " weights for ", keys.size(),
                     " keys");
      if (offsets.size() == 0) {
        EMBLEM_REQUIRE(keys.size() == out.rows, "lookup: feature ", f, " (table ", table, ") has ",
                       keys.size(), " keys for ", out.rows, " bags and no offsets");
        continue;
      }
      EMBLEM_REQUIRE(offsets.size() == out.rows + 1, "lookup: feature ", f, " (table ", table,
                     ") has ", offsets.size(), " offsets, but ", out.rows, " bags need ",
                     out.rows + 1);
      EMBLEM_REQUIRE(offsets.data[0] == 0 && offsets.data[out.rows] == keys.size() &&
                         std::is_sorted(offsets.data, offsets.data + out.rows + 1),
                     "lookup: the offsets of feature ", f, " (table ", table,
                     ") do not rise from 0 to its ", keys.size(), " keys");
    }
  }

  // Tables whose L2 is not in this process's memory, or that have none.
  void fetch_remote(std::span<const FeatureKeys> features) {
    for (size_t f = 0; f < features_.size(); ++f) {
      Feature& feature = features_[f];
      if (feature.memory != nullptr) continue;
      const std::span keys(features[f].keys.data, static_cast<size_t>(features[f].keys.size()));
      feature.rows.resize(keys.size());
      std::fill(feature.rows.begin(), feature.rows.end(), nullptr);
      fetch_unique(
          feature, keys,
          [&](std::span<const int64_t> unique, std::span<float> rows, std::span<uint8_t> found) {
            feature.table->fetch(unique, rows, found, missing_);
          });
    }
  }

  // Sets the rows that are null so far, by one `fetch` of their different keys.
  template <class Fetch>
  void fetch_unique(Feature& feature, std::span<const int64_t> keys, Fetch&& fetch) {
    unique_.clear(keys.size());
    numbers_.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (feature.rows[i] == nullptr) numbers_[i] = unique_.add(keys[i]);
    }
    const std::span<const int64_t> unique = unique_.keys();
    const auto dim = static_cast<size_t>(feature.table->dim());
    feature.fetched.resize(unique.size() * dim);
    found_.resize(unique.size());
    if (!unique.empty()) fetch(unique, feature.fetched, found_);
    uint64_t missing = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (feature.rows[i] != nullptr) continue;
      if (found_[numbers_[i]] != 0) {
        feature.rows[i] = feature.fetched.data() + numbers_[i] * dim;
      } else {
        ++missing;
      }
    }
    count_missing(feature, missing);
  }

  void count_missing(Feature& feature, uint64_t missing) {
    feature.missing = missing;
    feature.table->count_missing(cpu_, missing);
  }

  void find_in_memory(const Context& context, std::span<const FeatureKeys> features) {
    int64_t total = 0;
    for (size_t f = 0; f < features_.size(); ++f) {
      if (features_[f].memory == nullptr) continue;
      features_[f].rows.resize(static_cast<size_t>(features[f].keys.size()));
      total += features[f].keys.size();
    }
    if (total == 0) return;
    const auto begin = std::chrono::steady_clock::now();
    if (total <= kSmallBatch) {
      find_all_at_once(features);
    } else {
      find_in_pieces(context, features);
    }
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    for (size_t f = 0; f < features_.size(); ++f) {
      if (features_[f].memory != nullptr) {
        finish_in_memory(features_[f], features[f], took.count() * features[f].keys.size() / total);
      }
    }
  }

  // A small batch waits for memory once for all slots and once for all rows, whatever the number of
  // features.
  void find_all_at_once(std::span<const FeatureKeys> features) {
    hashes_.clear();
    for (size_t f = 0; f < features_.size(); ++f) {
      if (features_[f].memory == nullptr) continue;
      const View<const int64_t>& keys = features[f].keys;
      for (int64_t i = 0; i < keys.size(); ++i) {
        hashes_.push_back(MemoryTable::hash(keys.data[i]));
        features_[f].memory->prefetch(hashes_.back());
      }
    }
    size_t next = 0;
    for (size_t f = 0; f < features_.size(); ++f) {
      Feature& feature = features_[f];
      if (feature.memory == nullptr) continue;
      const View<const int64_t>& keys = features[f].keys;
      const int64_t row_bytes = feature.table->dim() * 4;
      for (int64_t i = 0; i < keys.size(); ++i) {
        const float* row = feature.memory->find(hashes_[next++], keys.data[i]);
        feature.rows[static_cast<size_t>(i)] = row;
        if (row == nullptr) continue;
        for (int64_t at = 0; at < row_bytes; at += 64) {
          __builtin_prefetch(reinterpret_cast<const char*>(row) + at);
        }
      }
    }
  }

  void find_in_pieces(const Context& context, std::span<const FeatureKeys> features) {
    pieces_.clear();
    for (size_t f = 0; f < features_.size(); ++f) {
      if (features_[f].memory == nullptr) continue;
      for (int64_t at = 0; at < features[f].keys.size(); at += kFindKeys)
        pieces_.push_back({f, at});
    }
    parallel_for(context, static_cast<int64_t>(pieces_.size()), 1, [&](int64_t piece, int64_t) {
      const auto [f, begin] = pieces_[static_cast<size_t>(piece)];
      const int64_t end = std::min(begin + kFindKeys, features[f].keys.size());
      find_piece(*features_[f].memory, features[f].keys.data, features_[f].rows.data(), begin, end);
    });
  }

  static void find_piece(const MemoryTable& memory, const int64_t* keys, const float** rows,
                         int64_t begin, int64_t end) {
    uint64_t hashes[kKeysInFlight];
    for (int64_t block = begin; block < end; block += kKeysInFlight) {
      const int64_t count = std::min(kKeysInFlight, end - block);
      for (int64_t i = 0; i < count; ++i) {
        memory.prefetch(hashes[i] = MemoryTable::hash(keys[block + i]));
      }
      for (int64_t i = 0; i < count; ++i) rows[block + i] = memory.find(hashes[i], keys[block + i]);
    }
  }

  // Counts, and gets from L3 what is not in memory.
  void finish_in_memory(Feature& feature, const FeatureKeys& features, int64_t nanoseconds) {
    const auto misses = std::count(feature.rows.begin(), feature.rows.end(), nullptr);
    feature.table->count_l2(cpu_, {.hits = feature.rows.size() - static_cast<uint64_t>(misses),
                                   .misses = static_cast<uint64_t>(misses),
                                   .nanoseconds = static_cast<uint64_t>(nanoseconds)});
    if (misses == 0) return;
    if (feature.table->l3() == nullptr)
      return count_missing(feature, static_cast<uint64_t>(misses));
    const std::span keys(features.keys.data, static_cast<size_t>(features.keys.size()));
    fetch_unique(
        feature, keys,
        [&](std::span<const int64_t> unique, std::span<float> rows, std::span<uint8_t> found) {
          feature.table->fetch_from_l3(unique, rows, found);
        });
  }

  void gather(const Context& context, std::span<const FeatureKeys> features, View<float> out) {
    for (size_t f = 0; f < features_.size(); ++f) {
      const Feature& feature = features_[f];
      const FeatureKeys& keys = features[f];
      const ServedTableSettings& settings = feature.table->settings();
      gathers_[f] = {.rows = {.dim = settings.dim, .dtype = DType::kF32},
                     .keys = keys.keys.data,
                     .row_addresses = feature.rows.data(),
                     .offsets = keys.offsets.size() != 0 ? keys.offsets.data : nullptr,
                     .weights = keys.weights.size() != 0 ? keys.weights.data : nullptr,
                     .bags = out.rows,
                     .pooling = feature.pooling,
                     .absent = settings.missing,
                     .seed = settings.seed,
                     .out = out.data + feature.column,
                     .out_stride = width_};
    }
    const int64_t block = std::clamp<int64_t>(kBlockBytes / (width_ * 4 + 1), 16, 256);
    parallel_for(context, out.rows, block, [&](int64_t begin, int64_t end) {
      for (const GatherPool& op : gathers_) cpu::gather_pool(op, begin, end);
    });
  }

  std::vector<Feature> features_;
  std::vector<const ReadGate*> gates_;  // each once
  std::vector<ReadGate::Reader> readers_;
  std::vector<GatherPool> gathers_;
  int64_t width_ = 0;

  unsigned cpu_ = 0;
  std::vector<uint64_t> hashes_;
  struct Piece {
    size_t feature;
    int64_t begin;
  };
  std::vector<Piece> pieces_;
  UniqueKeys unique_;
  HostVector<uint32_t> numbers_;  // of keys among the different ones
  HostVector<uint8_t> found_;
  ServedTable::Missing missing_;
};

}  // namespace

std::unique_ptr<Lookup> make_served_lookup(std::span<const ServedFeature> features) {
  return std::make_unique<ServedLookup>(features);
}

}  // namespace emblem
