#include "data/source/objects/object_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <utime.h>

#include <filesystem>
#include <fstream>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "data/source/objects/memory_store_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPart = 1000;

class Cache : public testing::Test {
 protected:
  static ObjectInfo info(const std::string& name, int64_t bytes) {
    return {"s3://b/" + name, bytes, 77, ""};
  }

  void add(ObjectCache& cache, const ObjectInfo& object, const std::string& content) {
    ASSERT_TRUE(cache.make_room(object.bytes));
    const auto lock = cache.try_lock(object);
    ASSERT_NE(lock, nullptr);
    const auto partial = cache.begin(object, kPart);
    for (int64_t part = 0; part < partial->parts(); ++part) {
      const std::string piece = content.substr(static_cast<size_t>(part * kPart), kPart);
      partial->write_part(part, piece.data(), static_cast<int64_t>(piece.size()));
    }
    cache.commit(*partial, "etag");
  }

  std::string content_of(ObjectCache& cache, const ObjectInfo& object) {
    const auto found = cache.find(object);
    if (!found) return "absent";
    const FileDescriptor data(found->descriptor);
    std::string content(static_cast<size_t>(object.bytes), '\0');
    EXPECT_EQ(::pread(data.get(), content.data(), content.size(), 0), object.bytes);
    return content;
  }

  std::string data_path(const ObjectInfo& object) const {
    return folder_.path("cache/objects/" + cache_name(object) + ".data");
  }
  std::string entry_path(const ObjectInfo& object) const {
    return folder_.path("cache/objects/" + cache_name(object) + ".json");
  }

  TempFolder folder_;
};

TEST_F(Cache, AnObjectIsThereWholeOrNotAtAll) {
  ObjectCache cache(folder_.path("cache"), 1 << 20);
  const std::string content = test_content(2500);
  const ObjectInfo object = info("x", 2500);
  EXPECT_EQ(content_of(cache, object), "absent");
  {
    const auto partial = cache.begin(object, kPart);
    partial->write_part(1, content.data() + kPart, kPart);
  }
  EXPECT_EQ(content_of(cache, object), "absent");
  EXPECT_TRUE(cache.begin(object, kPart)->was_done(1));
  EXPECT_FALSE(cache.begin(object, kPart)->was_done(0));
  add(cache, object, content);
  EXPECT_EQ(content_of(cache, object), content);
  EXPECT_EQ(cache.find(object)->entry.object.etag, "etag");
  ObjectInfo changed = object;
  changed.modified = 78;
  EXPECT_EQ(content_of(cache, changed), "absent");
}

TEST_F(Cache, OnlyOneDownloadsAnObject) {
  ObjectCache cache(folder_.path("cache"), 1 << 20);
  auto lock = cache.try_lock(info("x", 1));
  EXPECT_NE(lock, nullptr);
  EXPECT_EQ(cache.try_lock(info("x", 1)), nullptr);
  EXPECT_NE(cache.try_lock(info("y", 1)), nullptr);
  lock.reset();
  EXPECT_NE(cache.try_lock(info("x", 1)), nullptr);
}

TEST_F(Cache, LeastRecentlyUsedObjectsLeave) {
  ObjectCache cache(folder_.path("cache"), 40 << 10);
  const std::string content = test_content(8 << 10);
  for (const char* name : {"a", "b", "c", "d"}) {
    add(cache, info(name, 8 << 10), content);
    const utimbuf time{1000 + name[0], 1000 + name[0]};  // used in this order
    ::utime(entry_path(info(name, 8 << 10)).c_str(), &time);
  }
  const auto open = cache.find(info("b", 8 << 10));  // in use, and used last
  const FileDescriptor held(open->descriptor);
  const utimbuf time{1, 1};
  ::utime(entry_path(info("b", 8 << 10)).c_str(), &time);
  EXPECT_TRUE(cache.make_room(16 << 10));
  EXPECT_EQ(cache.evictions(), 1);
  EXPECT_EQ(content_of(cache, info("a", 8 << 10)), "absent");
  EXPECT_EQ(content_of(cache, info("b", 8 << 10)), content);
  EXPECT_FALSE(cache.make_room(41 << 10));
}

TEST_F(Cache, DamagedDataAreNoticedOnceTheFileHasChanged) {
  ObjectCache cache(folder_.path("cache"), 1 << 20);
  const std::string content = test_content(2500);
  for (const char* name : {"flipped", "shorter", "longer", "gone"})
    add(cache, info(name, 2500), content);
  std::string flipped = content;
  flipped[2400] = static_cast<char>(flipped[2400] ^ 1);
  std::ofstream(data_path(info("flipped", 2500))) << flipped;
  fs::resize_file(data_path(info("shorter", 2500)), 2499);
  fs::resize_file(data_path(info("longer", 2500)), 2501);
  fs::remove(data_path(info("gone", 2500)));
  for (const char* name : {"flipped", "shorter", "longer", "gone"})
    EXPECT_EQ(content_of(cache, info(name, 2500)), "absent") << name;
  EXPECT_EQ(cache.verify().size(), 0u);
}

TEST_F(Cache, DamagedDataAreNoticedThoughTheirTimeIsAsBefore) {
  ObjectCache cache(folder_.path("cache"), 1 << 20);
  const std::string content = test_content(2500);
  const ObjectInfo object = info("x", 2500);
  add(cache, object, content);
  struct stat before {};
  ASSERT_EQ(::stat(data_path(object).c_str(), &before), 0);
  std::ofstream(data_path(object)) << std::string(2500, 'x');
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, data_path(object).c_str(), times, 0), 0);
  EXPECT_EQ(content_of(cache, object), "absent");
}

TEST_F(Cache, DataOfAnEarlierBootAreComparedOnce) {
  ObjectCache cache(folder_.path("cache"), 1 << 20);
  const std::string content = test_content(2500);
  const ObjectInfo object = info("x", 2500);
  add(cache, object, content);
  CacheEntry entry = *parse_cache_entry(read_text_file(entry_path(object)));
  entry.boot = "another";
  write_text_file_atomically(entry_path(object), cache_entry_text(entry));
  EXPECT_EQ(content_of(cache, object), content);
  EXPECT_EQ(parse_cache_entry(read_text_file(entry_path(object)))->boot, boot_id());
}

TEST_F(Cache, VerifyAndClear) {
  ObjectCache cache(folder_.path("cache"), 1 << 20);
  const std::string content = test_content(2500);
  for (const char* name : {"a", "b"}) add(cache, info(name, 2500), content);
  EXPECT_EQ(cache.list().size(), 2u);
  EXPECT_EQ(cache.list()[0].uri, "s3://b/a");
  std::string damaged = content;
  damaged[0] = static_cast<char>(damaged[0] ^ 1);
  std::ofstream(data_path(info("a", 2500))) << damaged;
  const auto found = cache.verify();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].uri, "s3://b/a");
  EXPECT_GT(cache.clear().bytes, 0);
  EXPECT_TRUE(cache.list().empty());
}

TEST_F(Cache, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(folder_.path("file")) << "x";
  EXPECT_THAT([&] { ObjectCache(folder_.path("file"), 1); },
              testing::ThrowsMessage<Error>(testing::AllOf(testing::HasSubstr(folder_.path("file")),
                                                           testing::HasSubstr("--cache-dir"))));
}

// Every text that differs from what was written is no entry, whatever is at the place of a byte.
TEST_F(Cache, ChangedEntriesAreRefused) {
  CacheEntry entry;
  entry.object = {"s3://b/x", 2500, 77, "etag"};
  entry.part_bytes = kPart;
  entry.checksums = {1, 2, 3};
  entry.boot = boot_id();
  const std::string text = cache_entry_text(entry);
  ASSERT_TRUE(parse_cache_entry(text));
  EXPECT_EQ(parse_cache_entry(text)->checksums, entry.checksums);
  uint64_t seed = 5;
  for (size_t at = 0; at < text.size(); ++at) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    std::string changed = text;
    changed[at] = static_cast<char>(seed >> 56);
    const auto parsed = parse_cache_entry(changed);
    // Spaces may differ.
    EXPECT_TRUE(!parsed || cache_entry_text(*parsed) == text) << at;
    EXPECT_FALSE(parse_cache_entry(text.substr(0, at)) && at + 1 < text.size()) << at;
  }
  for (const char* other : {"", "{}", "[]", "null", "7", "{\"seal\": 3}", "\xff\xfe"})
    EXPECT_FALSE(parse_cache_entry(other));
}

// Whatever became of the records of a download, no part counts as done that is not what was
// written.
TEST_F(Cache, ChangedRecordsOfDownloadsAreSurvived) {
  ObjectCache cache(folder_.path("cache"), 1 << 20);
  const std::string content = test_content(4500);
  const ObjectInfo object = info("x", 4500);
  PartialPaths paths;
  {
    const auto partial = cache.begin(object, kPart);
    paths = partial->paths();
    for (const int64_t part : {0, 2, 4})
      partial->write_part(part, content.data() + part * kPart,
                          std::min<int64_t>(kPart, 4500 - part * kPart));
  }
  const std::string records = read_text_file(paths.parts), data = read_text_file(paths.data);
  uint64_t seed = 9;
  for (int round = 0; round < 400; ++round) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    std::string changed_records = records, changed_data = data;
    std::string& hit = round % 2 == 0 ? changed_records : changed_data;
    if (round % 5 == 0) hit.resize(seed % hit.size());
    if (!hit.empty()) hit[(seed >> 20) % hit.size()] = static_cast<char>(seed >> 56);
    std::ofstream(paths.parts, std::ios::binary) << changed_records;
    std::ofstream(paths.data, std::ios::binary) << changed_data;
    const auto partial = cache.begin(object, kPart);
    for (int64_t part = 0; part < partial->parts(); ++part) {
      if (!partial->was_done(part)) continue;
      std::string stored(static_cast<size_t>(std::min<int64_t>(kPart, 4500 - part * kPart)), '\0');
      ASSERT_EQ(::pread(partial->descriptor(), stored.data(), stored.size(), part * kPart),
                static_cast<ssize_t>(stored.size()));
      ASSERT_EQ(stored, content.substr(static_cast<size_t>(part * kPart), kPart)) << round;
    }
  }
}

}  // namespace
}  // namespace emblem
