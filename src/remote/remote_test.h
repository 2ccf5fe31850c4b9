// remote/remote_test.h - stores, caches and units for the tests of this module.
#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "data/source/objects/memory_store_test.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"
#include "remote/store_lock.h"

namespace emblem {

inline constexpr const char* kTestFolder = "s3://b/runs/1";

class RemoteFolderTest : public testing::Test {
 protected:
  void SetUp() override { ::setenv("EMBLEM_TEST_RETRY_MS", "0", 1); }

  // As a process on the machine `name` has it.
  std::unique_ptr<RemoteStorage> storage(const std::string& name = "cache",
                                         int64_t cache_bytes = int64_t{1} << 30) {
    RemoteOptions options;
    options.cache_dir = folder_.path(name);
    options.cache_bytes = cache_bytes;
    options.download_threads = threads_;
    options.part_bytes = 65536;
    return std::make_unique<RemoteStorage>(options, memory_stores(all_));
  }

  // A unit whose files and manifest have `content`.
  static void write_unit(const std::string& at, const std::string& content) {
    std::filesystem::create_directories(at + "/tables");
    write_text_file_atomically(at + "/dense", "dense " + content);
    write_text_file_atomically(at + "/tables/a", "a " + content);
    write_text_file_atomically(at + "/manifest.json", "{\"content\": \"" + content + "\"}");
  }
  void put_unit(const std::string& unit, const std::string& content) {
    const std::string at = std::string(kTestFolder) + "/" + unit;
    all_.put(at + "/dense", "dense " + content);
    all_.put(at + "/tables/a", "a " + content);
    all_.put(at + "/manifest.json", "{\"content\": \"" + content + "\"}");
  }
  // The content of a unit in the store, "" if it has no manifest; fails where it is not whole.
  std::string stored(const std::string& unit) {
    const std::string at = std::string(kTestFolder) + "/" + unit;
    const std::lock_guard lock(all_.mutex);
    const auto text = [&](const std::string& name) {
      const auto found = all_.objects.find(at + name);
      return found == all_.objects.end() ? "" : found->second.content;
    };
    const std::string manifest = text("/manifest.json");
    if (manifest.empty()) return "";
    const std::string content = manifest.substr(13, manifest.size() - 15);
    EXPECT_EQ(text("/dense"), "dense " + content) << unit;
    EXPECT_EQ(text("/tables/a"), "a " + content) << unit;
    return content;
  }

  // Options of a lock whose clock is `now_`.
  StoreLockOptions lock_by_clock() {
    StoreLockOptions options;
    options.now = [this] { return now_.load(); };
    options.wait = [this](double seconds) { now_ += seconds; };
    return options;
  }
  // This process was suspended until another one had the lock of `folder`.
  void take_over(const std::string& folder) {
    now_ += 100;
    {
      const std::lock_guard lock(all_.mutex);
      std::erase_if(all_.objects,
                    [&](const auto& entry) { return entry.first.starts_with(folder + "/.lock/"); });
    }
    all_.put(folder + "/.lock/other.json", "{}");
  }
  // Calls both once for each request of `write` that writes to `folder`. The lock is lost during
  // that request, which succeeds, or fails in a way that may pass: no other one may follow.
  void expect_no_write_without_lock(const std::string& folder, const std::function<void()>& prepare,
                                    const std::function<void()>& write) {
    threads_ = 1;  // others may have asked just before
    for (const bool fails : {false, true}) {
      bool is_last = false;
      for (int number = 1; !is_last && number < 100; ++number) {
        SCOPED_TRACE(cat("request ", number, fails ? " fails" : ""));
        prepare();
        int seen = 0;
        all_.before = [&](const std::string& request) {
          const bool writes = request.starts_with("PUT") || request.starts_with("DELETE");
          if (!writes || request.find("/.lock/") != request.npos || ++seen != number) return;
          take_over(folder);
          if (fails) throw Error(ErrorCode::kUnavailable, "HTTP status 503");
        };
        std::string problem;
        try {
          write();
        } catch (const Error& error) {
          problem = error.what();
        }
        all_.before = nullptr;
        is_last = seen < number;
        if (is_last) {
          EXPECT_EQ(problem, "");
          EXPECT_GT(number, 2);
        } else if (!problem.empty()) {
          EXPECT_THAT(problem, testing::HasSubstr("took over"));
        }
        ASSERT_LE(seen, number);
      }
      EXPECT_TRUE(is_last);
    }
  }

  TempFolder folder_;
  MemoryObjects all_;
  int threads_ = 2;
  std::atomic<double> now_{1e9};
};

// Makes the requests from number `first` on fail, `count` of them.
class RequestFaults {
 public:
  // kSwallowed: writes and removals are answered as if they were done. kPage: listings are answered
  // by nothing.
  enum class Kind { kBusy, kAnswerLost, kDenied, kSwallowed, kPage };
  RequestFaults(MemoryObjects& all, Kind kind, int first, int count) : all_(all) {
    const auto fail = [this, first, count, kind](const std::string& request) {
      if (!may_fail(kind, request)) return;
      const int number = seen_++;
      if (number < first || number >= first + count) return;
      ++failed_;
      if (kind == Kind::kSwallowed) throw SkippedRequest();
      if (kind == Kind::kPage) throw EmptyListing();
      if (kind == Kind::kDenied)
        throw Error(ErrorCode::kPermissionDenied, request + ": HTTP status 403");
      throw Error(ErrorCode::kUnavailable, request + ": HTTP status 503");
    };
    (kind == Kind::kAnswerLost ? all.after : all.before) = fail;
  }
  ~RequestFaults() { all_.before = all_.after = nullptr; }
  int failed() const { return failed_; }

 private:
  static bool may_fail(Kind kind, const std::string& request) {
    if (kind == Kind::kPage) return request.starts_with("LIST");
    return kind != Kind::kSwallowed || request.starts_with("PUT") || request.starts_with("DELETE");
  }

  MemoryObjects& all_;
  std::atomic<int> seen_{0}, failed_{0};
};

}  // namespace emblem
