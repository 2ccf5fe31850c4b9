#include "store/redis_uses.h"

#ifdef EMBLEM_WITH_REDIS

#include <algorithm>
#include <charconv>
#include <cstring>

namespace emblem {
namespace {

int64_t parse_count(std::string_view text) {
  int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

}  // namespace

RedisUses::RedisUses(std::vector<RedisHash> hashes, const RedisSettings& settings)
    : hashes_(std::move(hashes)),
      settings_(settings),
      encoding_{settings.key_bytes},
      policy_(settings.overflow.policy),
      kept_(settings.overflow.limited() && policy_ != OverflowPolicy::kEvictRandom) {}

void RedisUses::read(size_t part, std::span<const int64_t> keys, std::span<const uint32_t> numbers,
                     std::span<int64_t> counts, std::vector<RedisTask>& tasks) const {
  if (!kept_ || policy_ != OverflowPolicy::kEvictLeastUsed) return;
  RedisTask& task = tasks.emplace_back(
      hashes_[part].get(numbers.size(), [numbers, counts](size_t i, const RedisItem& item) {
        counts[numbers[i]] = item.kind == RedisItem::Kind::kText ? parse_count(item.text) : 0;
      }));
  for (const uint32_t i : numbers) append_word(task.command, encoding_.bytes(keys[i]));
}

void RedisUses::write(size_t part, std::span<const int64_t> keys, std::span<const uint32_t> numbers,
                      std::span<const int64_t> counts, std::vector<RedisTask>& tasks) const {
  if (!kept_ || numbers.empty()) return;
  const int64_t now = settings_.unix_seconds();
  RedisTask& task = tasks.emplace_back(hashes_[part].begin("HSET", 2 * numbers.size()));
  for (const uint32_t i : numbers) {
    append_word(task.command, encoding_.bytes(keys[i]));
    if (policy_ == OverflowPolicy::kEvictOldest) {
      append_word(task.command, {reinterpret_cast<const char*>(&now), sizeof(now)});
    } else {
      append_word(task.command, std::to_string(counts[i] + 1));
    }
  }
}

int64_t RedisUses::rank(std::string_view use) const {
  if (policy_ != OverflowPolicy::kEvictOldest) return parse_count(use);
  int64_t seconds = 0;
  std::memcpy(&seconds, use.data(), std::min(use.size(), sizeof(seconds)));
  return seconds;
}

}  // namespace emblem

#endif
