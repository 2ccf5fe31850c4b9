// init/value_samples.h - what is kept of the values of a column: some of its numbers and its
// words. Both depend on the values and their order alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

// Numbers at equal distances, up to 20,000 of them.
class NumberSample {
 public:
  void add(double value);
  // Of both, as if they were of one column.
  void add(const NumberSample& other);
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
  int64_t stride_ = 1, seen_ = 0;
};

// Distinct texts with their counts, as long as they are few.
class WordCounts {
 public:
  static constexpr size_t kMost = 1000;

  void add(std::string_view text);
  bool is_complete() const { return is_complete_; }  // no text was too many
  const std::map<std::string, int64_t, std::less<>>& counts() const { return counts_; }
  // The most frequent first.
  std::vector<std::string> by_frequency() const;

 private:
  std::map<std::string, int64_t, std::less<>> counts_;
  bool is_complete_ = true;
};

}  // namespace emblem
