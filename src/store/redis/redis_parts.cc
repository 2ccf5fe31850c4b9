#include "store/redis/redis_parts.h"

#ifdef EMBLEM_WITH_REDIS

#include <numeric>

namespace emblem {
namespace {

constexpr std::string_view kInsert = R"(
local marked = redis.call('HEXISTS', KEYS[1], '#rows') == 1
local added = redis.call('HSET', KEYS[1], unpack(ARGV))
if marked and added > 0 then redis.call('HINCRBY', KEYS[1], '#rows', added) end
return redis.call('HLEN', KEYS[1]) - (marked and 2 or 0))";

constexpr std::string_view kInsertMissing = R"(
local marked = redis.call('HEXISTS', KEYS[1], '#rows') == 1
local added = 0
for i = 1, #ARGV, 2 do added = added + redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
if marked and added > 0 then redis.call('HINCRBY', KEYS[1], '#rows', added) end
return redis.call('HLEN', KEYS[1]) - (marked and 2 or 0))";

constexpr std::string_view kErase = R"(
local removed = redis.call('HDEL', KEYS[1], unpack(ARGV))
if removed > 0 and redis.call('HEXISTS', KEYS[1], '#rows') == 1 then
  redis.call('HINCRBY', KEYS[1], '#rows', -removed) end
return removed)";

constexpr std::string_view kCheck = R"(
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 0 end
local mark = redis.call('HMGET', KEYS[1], '#generation', '#rows')
if mark[1] ~= ARGV[1] then return 0 end
if redis.call('HLEN', KEYS[1]) - 2 >= tonumber(mark[2] or '-1') and mark[2] then return 1 end
redis.call('HMSET', KEYS[1], '#generation', 'lost')
return 0)";

constexpr std::string_view kNoteDamage = R"(
if redis.call('HGET', KEYS[1], '#generation') == ARGV[1] then
  redis.call('HMSET', KEYS[1], '#generation', 'damaged') end
return 0)";

constexpr std::string_view kStart = R"(
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end
redis.call('HDEL', KEYS[1], '#generation', '#rows')
local rows = redis.call('HLEN', KEYS[1])
redis.call('HMSET', KEYS[1], '#generation', 'filling ' .. ARGV[1], '#rows', rows)
return rows)";

constexpr std::string_view kFinish = R"(
local mark = redis.call('HMGET', KEYS[1], '#generation', '#rows')
if mark[1] ~= 'filling ' .. ARGV[1] then return 0 end
local rows = redis.call('HLEN', KEYS[1]) - 2
if rows < tonumber(mark[2]) + tonumber(ARGV[2]) then return 0 end
redis.call('HMSET', KEYS[1], '#generation', ARGV[1], '#rows', rows)
return 1)";

constexpr std::string_view kAdopt = R"(
if redis.call('HEXISTS', KEYS[1], '#generation') == 1 then return 0 end
redis.call('HDEL', KEYS[1], '#rows')
redis.call('HMSET', KEYS[1], '#generation', ARGV[1], '#rows', redis.call('HLEN', KEYS[1]))
return 1)";

constexpr std::string_view kRows = R"(
return redis.call('HLEN', KEYS[1]) - redis.call('HEXISTS', KEYS[1], '#generation') -
  redis.call('HEXISTS', KEYS[1], '#rows'))";

}  // namespace

RedisTask RedisParts::insert(size_t part, size_t words, int64_t* rows) const {
  return hashes_[part].eval(kInsert, words, rows);
}

RedisTask RedisParts::insert_missing(size_t part, size_t words, int64_t* rows) const {
  return hashes_[part].eval(kInsertMissing, words, rows);
}

RedisTask RedisParts::erase(size_t part, size_t words) const {
  return hashes_[part].eval(kErase, words, nullptr);
}

RedisTask RedisParts::check(size_t part, const std::string& generation, bool* whole) const {
  RedisTask task = hashes_[part].eval(kCheck, 1, nullptr);
  append_word(task.command, generation);
  task.take = [whole](const RedisItem& item, RedisConnection&, Deadline) {
    *whole = item.kind == RedisItem::Kind::kInteger && item.number == 1;
  };
  return task;
}

RedisTask RedisParts::note_damage(size_t part, const std::string& generation) const {
  RedisTask task = hashes_[part].eval(kNoteDamage, 1, nullptr);
  append_word(task.command, generation);
  return task;
}

std::vector<size_t> RedisParts::lost(const std::string& generation) const {
  const auto whole = std::make_unique<bool[]>(size());
  std::vector<RedisTask> tasks;
  for (size_t part = 0; part < size(); ++part)
    tasks.push_back(check(part, generation, &whole[part]));
  cluster_->run(tasks);
  std::vector<size_t> lost;
  for (size_t part = 0; part < size(); ++part)
    if (!whole[part]) lost.push_back(part);
  return lost;
}

void RedisParts::start(std::span<const size_t> parts, const std::string& generation) const {
  std::vector<RedisTask> tasks;
  for (const size_t part : parts) {
    tasks.push_back(hashes_[part].eval(kStart, 1, nullptr));
    append_word(tasks.back().command, generation);
  }
  cluster_->run(tasks);
}

void RedisParts::finish(std::span<const size_t> parts, const std::string& generation,
                        std::span<const int64_t> added) const {
  std::vector<RedisTask> tasks;
  for (const size_t part : parts) {
    tasks.push_back(hashes_[part].eval(kFinish, 2, nullptr));
    append_word(tasks.back().command, generation);
    append_word(tasks.back().command, std::to_string(added[part]));
  }
  cluster_->run(tasks);
}

void RedisParts::adopt(const std::string& generation) const {
  std::vector<RedisTask> tasks;
  for (const RedisHash& hash : hashes_) {
    tasks.push_back(hash.eval(kAdopt, 1, nullptr));
    append_word(tasks.back().command, generation);
  }
  cluster_->run(tasks);
}

int64_t RedisParts::rows() const {
  std::vector<int64_t> rows(size());
  std::vector<RedisTask> tasks;
  for (size_t part = 0; part < size(); ++part)
    tasks.push_back(hashes_[part].eval(kRows, 0, &rows[part]));
  cluster_->run(tasks);
  return std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

}  // namespace emblem

#endif
