#include "ps/tables/served_lookup.h"

#include <algorithm>
#include <vector>

#include "core/threads/thread_pool.h"
#include "embedding/cpu/gather_pool.h"
#include "ps/tables/row_finder.h"

namespace emblem {
namespace {

constexpr int64_t kBlockBytes = 128 << 10;  // bytes of output that one piece of work fills

std::vector<ServedTable*> tables_of(std::span<const ServedFeature> features) {
  std::vector<ServedTable*> tables;
  for (const ServedFeature& feature : features) tables.push_back(feature.table);
  return tables;
}

class ServedLookup : public Lookup {
 public:
  explicit ServedLookup(std::span<const ServedFeature> features)
      : features_(features.begin(), features.end()),
        finder_(tables_of(features)),
        keys_(features.size()),
        counts_(features.size()),
        gathers_(features.size()) {
    for (const ServedFeature& feature : features) {
      columns_.push_back(width_);
      width_ += feature.table->dim();
    }
  }

  int64_t width() const override { return width_; }

  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView any_out) override {
    const View<float> out = any_out.floats();
    EMBLEM_REQUIRE(phase == Phase::kEval, "lookup: served tables cannot be trained");
    EMBLEM_REQUIRE(context.device == Device::kCpu && out.device == Device::kCpu,
                   "lookup: tables served from the CPU give no rows to a GPU");
    check_features(features, out);
    for (size_t f = 0; f < features.size(); ++f) keys_[f] = features[f].keys;
    const RowFinder::Reading reading = finder_.find(context, keys_);
    gather(context, features, out);
    for (size_t f = 0; f < features.size(); ++f) {
      counts_[f].values += features[f].keys.size();
      counts_[f].missing += finder_.missing(f);
    }
  }

  std::vector<LookupCounts> take_counts(const Context&) override {
    return std::exchange(counts_, std::vector<LookupCounts>(features_.size()));
  }

  double squared_gradient_norm(const Context&, ConstAnyView) override { refuse(); }
  void backward(const Context&, ConstAnyView, float, float, int64_t) override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw Error(ErrorCode::kInvalidArgument, "lookup: served tables cannot be trained");
  }

  void check_features(std::span<const FeatureKeys> features, View<float> out) const {
    EMBLEM_REQUIRE(features.size() == features_.size(), "lookup: keys of ", features.size(),
                   " features were given, but there are ", features_.size());
    EMBLEM_REQUIRE(out.cols == width_, "lookup: output rows have ", out.cols, " floats, but need ",
                   width_);
    for (size_t f = 0; f < features.size(); ++f) {
      const View<const int64_t>& keys = features[f].keys;
      const View<const int32_t>& offsets = features[f].offsets;
      const View<const float>& weights = features[f].weights;
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

  void gather(const Context& context, std::span<const FeatureKeys> features, View<float> out) {
    for (size_t f = 0; f < features_.size(); ++f) {
      const FeatureKeys& keys = features[f];
      const ServedTableSettings& settings = features_[f].table->settings();
      gathers_[f] = {.rows = {.dim = settings.dim, .dtype = finder_.format(f).type},
                     .keys = keys.keys.data,
                     .stored_rows = finder_.rows(f),
                     .offsets = keys.offsets.size() != 0 ? keys.offsets.data : nullptr,
                     .weights = keys.weights.size() != 0 ? keys.weights.data : nullptr,
                     .bags = out.rows,
                     .pooling = features_[f].pooling,
                     .absent = settings.missing,
                     .seed = settings.seed,
                     .out = out.data + columns_[f],
                     .out_stride = width_};
    }
    const int64_t block = std::clamp<int64_t>(kBlockBytes / (width_ * 4 + 1), 16, 256);
    parallel_for(context, out.rows, block, [&](int64_t begin, int64_t end) {
      for (const GatherPool& op : gathers_) cpu::gather_pool(op, begin, end);
    });
  }

  const std::vector<ServedFeature> features_;
  RowFinder finder_;
  std::vector<int64_t> columns_;  // column of each feature in the output
  int64_t width_ = 0;
  std::vector<View<const int64_t>> keys_;
  std::vector<LookupCounts> counts_;
  std::vector<GatherPool> gathers_;
};

}  // namespace

std::unique_ptr<Lookup> make_served_lookup(std::span<const ServedFeature> features) {
  return std::make_unique<ServedLookup>(features);
}

}  // namespace emblem
