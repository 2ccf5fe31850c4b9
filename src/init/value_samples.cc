#include "init/value_samples.h"

#include <algorithm>
#include <utility>

namespace emblem {

void NumberSample::add(double value) {
  constexpr size_t kMost = 20000;
  if (seen_++ % stride_ != 0) return;
  values_.push_back(value);
  if (values_.size() < kMost) return;
  for (size_t i = 0; i < kMost / 2; ++i) values_[i] = values_[2 * i];
  values_.resize(kMost / 2);
  stride_ *= 2;
}

void NumberSample::add(const NumberSample& other) {
  for (const double value : other.values_) add(value);
}

void WordCounts::add(std::string_view text) {
  if (const auto found = counts_.find(text); found != counts_.end()) {
    ++found->second;
  } else if (counts_.size() < kMost) {
    counts_.emplace(text, 1);
  } else {
    is_complete_ = false;
  }
}

std::vector<std::string> WordCounts::by_frequency() const {
  std::vector<std::pair<std::string, int64_t>> words(counts_.begin(), counts_.end());
  std::stable_sort(words.begin(), words.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> texts;
  for (auto& [text, count] : words) texts.push_back(std::move(text));
  return texts;
}

}  // namespace emblem
