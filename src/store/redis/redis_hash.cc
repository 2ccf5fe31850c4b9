#include "store/redis/redis_hash.h"

#ifdef EMBLEM_WITH_REDIS

namespace emblem {

void expect_redis_item(const RedisItem& item, RedisItem::Kind kind, std::string_view command) {
  if (item.kind == kind) return;
  throw Error(ErrorCode::kCorruption, cat("redis: the reply to ", command, " is of another kind"));
}

RedisTask RedisHash::begin(std::string_view command, size_t words) const {
  RedisTask task{
      .slot = slot, .command = {}, .take = [](const RedisItem&, RedisConnection&, Deadline) {}};
  append_command_size(task.command, 2 + words);
  append_word(task.command, command);
  append_word(task.command, key);
  return task;
}

RedisTask RedisHash::eval(std::string_view script, size_t words, int64_t* result) const {
  RedisTask task{.slot = slot,
                 .command = {},
                 .take = [result](const RedisItem& item, RedisConnection&, Deadline) {
                   expect_redis_item(item, RedisItem::Kind::kInteger, "EVAL");
                   if (result != nullptr) *result = item.number;
                 }};
  append_command_size(task.command, 4 + words);
  for (const std::string_view word : {std::string_view("EVAL"), script, std::string_view("1")})
    append_word(task.command, word);
  append_word(task.command, key);
  return task;
}

RedisTask RedisHash::get(size_t fields, std::function<void(size_t, const RedisItem&)> take) const {
  RedisTask task = begin("HMGET", fields);
  task.take = [fields, take = std::move(take)](const RedisItem& first, RedisConnection& rest,
                                               Deadline deadline) {
    expect_redis_item(first, RedisItem::Kind::kArray, "HMGET");
    if (first.number != static_cast<int64_t>(fields)) {
      throw Error(ErrorCode::kCorruption,
                  cat("redis: HMGET of ", fields, " fields gave ", first.number));
    }
    for (size_t i = 0; i < fields; ++i) take(i, rest.next(deadline));
  };
  return task;
}

std::string RedisHash::scan(RedisCluster& cluster, const std::string& cursor, int64_t count,
                            const TakeField& take) const {
  RedisReply page;
  std::vector<RedisTask> tasks = {begin("HSCAN", 3)};
  append_word(tasks[0].command, cursor);
  append_word(tasks[0].command, "COUNT");
  append_word(tasks[0].command, std::to_string(count));
  tasks[0].take = [&](const RedisItem& first, RedisConnection& rest, Deadline deadline) {
    expect_redis_item(first, RedisItem::Kind::kArray, "HSCAN");
    page = {};
    for (int64_t i = 0; i < first.number; ++i) page.items.push_back(rest.reply(deadline));
  };
  cluster.run(tasks);
  if (page.items.size() != 2) {
    throw Error(ErrorCode::kCorruption, "redis: the reply to HSCAN is of an unknown form");
  }
  const std::vector<RedisReply>& fields = page.items[1].items;
  for (size_t i = 0; i + 1 < fields.size(); i += 2) take(fields[i].text, fields[i + 1].text);
  return page.items[0].text;
}

void RedisHash::scan_all(RedisCluster& cluster, int64_t count, const TakeField& take) const {
  std::string cursor = "0";
  do {
    cursor = scan(cluster, cursor, count, take);
  } while (cursor != "0");
}

}  // namespace emblem

#endif
