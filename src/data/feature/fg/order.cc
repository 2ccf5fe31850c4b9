#include <algorithm>
#include <unordered_map>

#include "core/text/text.h"
#include "data/feature/fg/operator.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kMostShown = 10;  // features of a cycle that are shown

// Depth first: a feature is placed after all that it reads.
class FeatureOrder {
 public:
  explicit FeatureOrder(std::span<const FeatureSpec> features)
      : features_(features), states_(features.size(), State::kNew) {
    for (size_t i = 0; i < features.size(); ++i) positions_[features[i].name] = i;
  }

  std::vector<size_t> take() {
    for (size_t i = 0; i < features_.size(); ++i) visit(i);
    return std::move(order_);
  }

 private:
  enum class State : uint8_t { kNew, kOpen, kPlaced };

  // path_ leads from a feature to one that it reads, and so on; a stack, as paths may be long.
  void visit(size_t first) {
    open(first);
    while (!path_.empty()) {
      const size_t at = path_.back();
      if (const FeatureInput* input = next_input(at)) {
        open(position_of(input->name, at));
        continue;
      }
      states_[at] = State::kPlaced;
      order_.push_back(at);
      path_.pop_back();
      inputs_read_.pop_back();
    }
  }

  void open(size_t at) {
    if (states_[at] == State::kPlaced) return;
    path_.push_back(at);
    EMBLEM_REQUIRE(states_[at] == State::kNew, "features read each other: ", cycle(),
                   "; let one of them read a column");
    states_[at] = State::kOpen;
    inputs_read_.push_back(0);
  }

  // The next feature that the last one of path_ reads; null: it has read all.
  const FeatureInput* next_input(size_t at) {
    const std::vector<FeatureInput>& inputs = features_[at].inputs;
    for (size_t& i = inputs_read_.back(); i < inputs.size();) {
      const FeatureInput& input = inputs[i++];
      if (input.source == FeatureInput::Source::kFeature) return &input;
    }
    return nullptr;
  }

  size_t position_of(const std::string& name, size_t reader) const {
    const auto found = positions_.find(name);
    if (found != positions_.end()) return found->second;
    std::vector<std::string> names;
    for (const FeatureSpec& feature : features_) names.push_back(feature.name);
    const auto nearest = nearest_name(name, names);
    throw Error(
        ErrorCode::kInvalidArgument,
        cat("feature \"", features_[reader].name, "\" reads the feature \"", name,
            "\", which does not exist", nearest ? cat("; did you mean \"", *nearest, "\"?") : ""));
  }

  // "a -> b -> a": path_ ends with the feature that is on it twice.
  std::string cycle() const {
    size_t begin = 0;
    while (path_[begin] != path_.back()) ++begin;
    std::string text = features_[path_[begin]].name;
    const size_t last = std::min(path_.size(), begin + kMostShown);
    for (size_t i = begin + 1; i < last; ++i) text += " -> " + features_[path_[i]].name;
    if (last < path_.size())
      text += cat(" -> (", path_.size() - 1 - last, " more) -> ", features_[path_.back()].name);
    return text;
  }

  std::span<const FeatureSpec> features_;
  std::unordered_map<std::string, size_t> positions_;
  std::vector<State> states_;
  std::vector<size_t> path_;
  std::vector<size_t> inputs_read_;  // inputs read so far of each feature of path_
  std::vector<size_t> order_;
};

}  // namespace

std::vector<size_t> order_of_features(std::span<const FeatureSpec> features) {
  return FeatureOrder(features).take();
}

}  // namespace emblem
