#include "data/source/remote_storage.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/files/temp_folder_test.h"
#include "core/threads/becomes_true_test.h"
#include "data/source/objects/memory_store_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Remote : public testing::Test {
 protected:
  void SetUp() override { ::setenv("EMBLEM_TEST_RETRY_MS", "1", 1); }

  std::unique_ptr<RemoteStorage> storage(int64_t cache_bytes = int64_t{1} << 30, int threads = 4) {
    RemoteOptions options;
    options.cache_dir = folder_.path("cache");
    options.cache_bytes = cache_bytes;
    options.download_threads = threads;
    options.part_bytes = 65536;
    return std::make_unique<RemoteStorage>(options, memory_stores(all_));
  }

  static std::string read(ObjectFile& file, int64_t offset, int64_t bytes) {
    std::string content(static_cast<size_t>(bytes), '\0');
    file.read(offset, bytes, content.data());
    return content;
  }

  std::vector<std::string> expand(const std::string& uri) {
    std::vector<std::string> found;
    for (const ObjectInfo& info : storage()->expand(uri)) found.push_back(info.uri);
    return found;
  }

  size_t cached() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path("cache/objects")))
      count += entry.path().extension() == ".json";
    return count;
  }

  TempFolder folder_;
  MemoryObjects all_;
};

TEST_F(Remote, PrefixesPatternsAndObjects) {
  for (const char* name : {"day=1/a.csv", "day=1/b.csv", "day=2/a.csv", "day=2/_SUCCESS",
                           "day=2/.x", "other/a.csv", "day=1/empty"})
    all_.put(std::string("s3://b/") + name, std::string(name).ends_with("empty") ? "" : "x");
  EXPECT_THAT(expand("s3://b/day=1/a.csv"), ElementsAre("s3://b/day=1/a.csv"));
  EXPECT_THAT(expand("s3://b/day=2/"), ElementsAre("s3://b/day=2/a.csv"));
  EXPECT_THAT(expand("s3://b/day=1"), ElementsAre("s3://b/day=1/a.csv", "s3://b/day=1/b.csv"));
  EXPECT_THAT(expand("s3://b/day=*/a.csv"),
              ElementsAre("s3://b/day=1/a.csv", "s3://b/day=2/a.csv"));
  EXPECT_THAT(expand("s3://b/day=1/[b-c].csv"), ElementsAre("s3://b/day=1/b.csv"));
  EXPECT_THAT(expand("s3://b/oth*"), ElementsAre("s3://b/other/a.csv"));
  EXPECT_THAT([&] { expand("s3://b/none"); },
              ThrowsMessage<Error>(HasSubstr("cannot read s3://b/none: there is no such object")));
  EXPECT_THAT([&] { expand("s3://b/no*"); }, ThrowsMessage<Error>("no object matches s3://b/no*"));
}

TEST_F(Remote, ReadsAreThoseOfTheObjectAndTheNextProcessFindsItInTheCache) {
  const std::string content = test_content(1000000);
  all_.put("s3://b/x", content);
  {
    const auto first = storage();
    const auto file = first->open("s3://b/x");
    EXPECT_EQ(read(*file, 65000, 1000), content.substr(65000, 1000));
    EXPECT_EQ(read(*file, 0, 1000000), content);
    EXPECT_TRUE(becomes_true([&] { return cached() == 1; }));
    EXPECT_EQ(read(*file, 123, 777777), content.substr(123, 777777));
  }
  const int reads = all_.reads;
  const auto second = storage();
  EXPECT_EQ(read(*second->open("s3://b/x"), 0, 1000000), content);
  EXPECT_EQ(all_.reads, reads);
  EXPECT_EQ(second->statistics().cached_bytes, 1000000);
}

TEST_F(Remote, ManyThreadsReadManyObjectsWithFaults) {
  constexpr int kObjects = 12;
  std::vector<std::string> contents;
  for (int i = 0; i < kObjects; ++i) {
    contents.push_back(
        test_content(static_cast<size_t>(40000 + 50000 * i), static_cast<uint64_t>(i + 1)));
    all_.put(cat("s3://b/", i), contents.back());
  }
  all_.failures = 6;
  all_.short_reads = 20;
  for (const int64_t cache_bytes :
       {int64_t{1} << 30, int64_t{400000}}) {  // all fit; some are read through memory
    fs::remove_all(folder_.path("cache"));
    const auto shared = storage(cache_bytes);
    std::vector<std::shared_ptr<ObjectFile>> files;
    for (int i = 0; i < kObjects; ++i) files.push_back(shared->open(cat("s3://b/", i)));
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int reader = 0; reader < 6; ++reader)
      readers.emplace_back([&, reader] {
        for (int round = 0; round < 40; ++round) {
          const auto i = static_cast<size_t>((reader * 7 + round * 5) % kObjects);
          const int64_t bytes = files[i]->bytes();
          const int64_t offset = (round * 7919) % bytes;
          const int64_t count = std::min<int64_t>(bytes - offset, 100000);
          files[i]->prefetch(offset, count);
          wrong += read(*files[i], offset, count) !=
                   contents[i].substr(static_cast<size_t>(offset), static_cast<size_t>(count));
        }
      });
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(shared->statistics().memory_objects > 0, cache_bytes < 1000000);
  }
}

TEST_F(Remote, ObjectsThatChangeOrVanishAreErrors) {
  const std::string content = test_content(300000);
  for (const char* name : {"size", "time", "etag", "gone"})
    all_.put(std::string("s3://b/") + name, content);
  const auto shared = storage(int64_t{1} << 30, 1);
  const auto opened = [&](const std::string& name) {
    auto file = shared->open("s3://b/" + name);
    read(*file, 0, 100);  // the first part is here, of the old version
    return file;
  };
  const auto size = opened("size"), time = opened("time");
  all_.put("s3://b/size", test_content(300001));
  all_.put("s3://b/time", content, 2000);
  const auto fails_with = [&](ObjectFile& file, const char* text) {
    EXPECT_THAT([&] { read(file, 0, 300000); }, ThrowsMessage<Error>(HasSubstr(text)));
    EXPECT_THAT([&] { read(file, 0, 300000); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  // What was fetched before the change may be whole already.
  const auto is_whole = [&](const std::string& uri) {
    for (const CacheContent& one : shared->cache().list())
      if (one.uri == uri) return true;
    return false;
  };
  if (!is_whole("s3://b/size")) fails_with(*size, "has changed since the data set was opened");
  if (!is_whole("s3://b/time")) fails_with(*time, "has changed since the data set was opened");
  const auto unread = shared->open("s3://b/gone");
  all_.remove("s3://b/gone");
  fails_with(*unread, "no longer exists");
  const auto etag = shared->open("s3://b/etag");
  all_.put("s3://b/etag", test_content(299999));
  fails_with(*etag, "has changed since");
}

TEST_F(Remote, AnObjectThatWasWrittenAgainInTheSameSecondIsFetchedAgain) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  all_.put("s3://b/x", "first!", now);
  EXPECT_EQ(read(*storage()->open("s3://b/x"), 0, 6), "first!");
  all_.put("s3://b/x", "second", now);
  const auto next = storage();
  next->expand("s3://b/x");
  next->list("s3://b/", ListDepth::kAll);
  EXPECT_EQ(read(*next->open("s3://b/x"), 0, 6), "second");
}

TEST_F(Remote, AnObjectIsInTheCacheHoweverItWasNamed) {
  all_.put("s3://b/dir/x", "content");
  EXPECT_EQ(read(*storage()->open("s3://b/dir/x"), 0, 7), "content");  // asked for its etag
  const int reads = all_.reads;
  const auto next = storage();
  next->expand("s3://b/dir/");  // a listing, without etags
  EXPECT_EQ(read(*next->open("s3://b/dir/x"), 0, 7), "content");
  EXPECT_EQ(all_.reads, reads);
}

TEST_F(Remote, ErrorsReachTheReaderAndTheNextTrySucceeds) {
  all_.put("s3://b/x", test_content(100));
  const auto shared = storage();
  const auto file = shared->open("s3://b/x");
  all_.failures = 8;
  EXPECT_THAT([&] { read(*file, 0, 100); }, ThrowsMessage<Error>(HasSubstr("8 attempts")));
  EXPECT_EQ(read(*file, 0, 100), test_content(100));
}

TEST_F(Remote, AProcessThatEndsDoesNotTryAgain) {
  const auto one = storage();
  std::atomic<int> requests{0};
  all_.before = [&](const std::string&) {
    if (++requests == 2) one->stop_trying_again();
    throw Error(ErrorCode::kUnavailable, "HTTP status 503");
  };
  EXPECT_THAT([&] { one->list("s3://b/", ListDepth::kAll); },
              ThrowsMessage<Error>(HasSubstr("503")));
  EXPECT_EQ(requests, 2);
}

TEST_F(Remote, WhatDoesNotFitIsReadThroughMemory) {
  const std::string content = test_content(3000000);
  all_.put("s3://b/x", content);
  const auto shared = storage(100000);
  const auto file = shared->open("s3://b/x");
  EXPECT_EQ(read(*file, 0, 3000000), content);
  EXPECT_EQ(shared->statistics().memory_objects, 1);
  EXPECT_EQ(cached(), 0u);
}

TEST_F(Remote, TheEndsOfLargeObjectsAreReadAlone) {
  const std::string content = test_content(3000000);
  all_.put("s3://b/x", content);
  const auto shared = storage();
  const auto file = shared->open("s3://b/x");
  EXPECT_EQ(read(*file, 0, 100), content.substr(0, 100));
  EXPECT_EQ(read(*file, 2999000, 1000), content.substr(2999000));
  EXPECT_EQ(all_.reads, 2);
  EXPECT_LE(shared->statistics().downloaded_bytes, 2 * 65536);
}

TEST_F(Remote, TwoStoragesOfOneCacheDownloadOnce) {
  const std::string content = test_content(2000000);
  all_.put("s3://b/x", content);
  const auto one = storage(), two = storage();
  std::string first, second;
  std::thread other([&] { first = read(*one->open("s3://b/x"), 0, 2000000); });
  second = read(*two->open("s3://b/x"), 0, 2000000);
  other.join();
  EXPECT_EQ(first, content);
  EXPECT_EQ(second, content);
  EXPECT_EQ(all_.reads, 31);
}

TEST_F(Remote, ListsOfInputsMayHoldBoth) {
  EXPECT_EQ(absolute_inputs("s3://b/x/, /data/a"), "s3://b/x/,/data/a");
  EXPECT_EQ(absolute_inputs("kafka://a:1,b:2/topic"), "kafka://a:1,b:2/topic");
}

}  // namespace
}  // namespace emblem
