#include "remote/dataset_upload.h"

#include <gmock/gmock.h>

#include "data/source/data_set_manifest.h"
#include "remote/remote_test.h"
#include "remote/work_folder.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

class DatasetUploadTest : public RemoteFolderTest {
 protected:
  static void write(const std::string& folder, const std::string& rows) {
    std::filesystem::create_directories(folder + "/train");
    for (int i = 0; i < 3; ++i)
      write_text_file_atomically(cat(folder, "/train/part-", i, ".csv"), rows);
    write_text_file_atomically(folder + "/metadata.json", "{}");
  }
  void upload(RemoteStorage& storage, const std::string& rows, Overwrite overwrite) {
    write_to_store(
        storage, "s3://b/set", overwrite, [&](const std::string& folder) { write(folder, rows); },
        lock_by_clock());
  }
  // Addresses of all objects with their contents.
  std::map<std::string, std::string> contents() {
    std::map<std::string, std::string> contents;
    for (const auto& [uri, object] : all_.objects) contents[uri] = object.content;
    return contents;
  }
  // Removes the claims of the lock: those of this process do not expire while it runs.
  void unlock() {
    std::erase_if(all_.objects, [](const auto& entry) {
      return entry.first.find("/.lock/") != entry.first.npos;
    });
  }
  // What a reader gets of it: the contents of all parts, or that it is refused.
  std::set<std::string> read(RemoteStorage& storage, const std::string& uri) {
    try {
      std::set<std::string> rows;
      const auto found = storage.expand(uri);
      EXPECT_THAT(found, SizeIs(3));
      for (const ObjectInfo& object : found) rows.insert(all_.get(object.uri));
      return rows;
    } catch (const Error& error) {
      const bool is_refused = std::string(error.what()).find("is not whole") != std::string::npos;
      return {is_refused ? "refused" : "none"};
    }
  }
};

TEST_F(DatasetUploadTest, AnUploadThatFailsAtAnyRequestIsNotReadAsWhole) {
  for (const auto kind : {RequestFaults::Kind::kDenied, RequestFaults::Kind::kAnswerLost,
                          RequestFaults::Kind::kSwallowed, RequestFaults::Kind::kPage}) {
    bool reached_end = false;
    for (int first = 0; !reached_end && first < 200; ++first) {
      SCOPED_TRACE(first);
      all_.objects.clear();
      const auto one = storage();
      upload(*one, "old", Overwrite::kRefuse);
      bool is_uploaded = false;
      {
        const RequestFaults faults(all_, kind, first, 8);
        try {
          upload(*one, "new", Overwrite::kReplace);
          is_uploaded = true;
        } catch (const Error&) {
        }
        reached_end = faults.failed() == 0;
      }
      for (const char* uri : {"s3://b/set/train/", "s3://b/set/train/part-*.csv", "s3://b/set/tr*"})
        EXPECT_THAT((std::set<std::set<std::string>>{{"old"}, {"new"}, {"refused"}}),
                    testing::Contains(read(*one, uri)))
            << uri;
      EXPECT_TRUE(is_uploaded || !reached_end);
      if (is_uploaded) {
        EXPECT_EQ(read(*one, "s3://b/set/train/"), std::set<std::string>{"new"});
      }
      unlock();
      upload(*one, "mended", Overwrite::kReplace);
      EXPECT_EQ(read(*one, "s3://b/set/train/"), std::set<std::string>{"mended"});
      if (HasFailure()) return;
    }
    EXPECT_TRUE(reached_end);
  }
}

// Where a page is in the place of listings, nothing seems to be there.
TEST_F(DatasetUploadTest, ADataSetThatIsNotListedIsNotReplaced) {
  const auto store = storage();
  upload(*store, "old", Overwrite::kRefuse);
  int listings = 0;
  all_.before = [&](const std::string& request) {
    if (request == "LIST s3://b/set/") {
      ++listings;
      throw EmptyListing();
    }
  };
  EXPECT_THAT([&] { upload(*store, "new", Overwrite::kRefuse); },
              ThrowsMessage<Error>(HasSubstr("does not have what was written to it")));
  EXPECT_GT(listings, 1);
  all_.before = nullptr;
  EXPECT_EQ(read(*store, "s3://b/set/train"), std::set<std::string>{"old"});
}

TEST_F(DatasetUploadTest, WhatTheStoreOnlySaysToHaveIsNotWhole) {
  const auto store = storage();
  all_.before = [](const std::string& request) {
    if (request.starts_with("PUT") && request.ends_with("part-1.csv")) throw SkippedRequest();
  };
  EXPECT_THAT([&] { upload(*store, "rows", Overwrite::kRefuse); },
              ThrowsMessage<Error>(AllOf(HasSubstr("part-1.csv is not what was uploaded"),
                                         HasSubstr("does not list it"))));
  all_.before = nullptr;
  EXPECT_EQ(read(*store, "s3://b/set/train"), std::set<std::string>{"refused"});
}

TEST_F(DatasetUploadTest, WhatAKilledWriterLeftInTheCacheIsRemovedByTheNextOne) {
  const auto one = storage();
  const std::string copies = folder_.path("cache/models/");
  upload(*one, "rows", Overwrite::kRefuse);
  for (const char* name : {"write-1-0", "write-999999999-3", "view-7-0"})
    write(copies + name + "/data", "rows of a killed process");
  const WorkFolder used(*one, "s3://b/other");
  write_text_file_atomically(used.path() + "/part-0", "rows of another one");
  upload(*one, "rows", Overwrite::kReplace);
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(copies))
    if (entry.is_directory()) left.insert(entry.path());
  EXPECT_EQ(left, (std::set<std::string>{used.path(), copies + "view-7-0"}));
  EXPECT_EQ(read_text_file(used.path() + "/part-0"), "rows of another one");
}

TEST_F(DatasetUploadTest, AMissingOrCutObjectIsNamed) {
  const auto one = storage();
  upload(*one, "rows", Overwrite::kRefuse);
  all_.put("s3://b/set/train/part-1.csv", "ro");
  EXPECT_THAT([&] { one->expand("s3://b/set/train/"); },
              ThrowsMessage<Error>(HasSubstr("part-1.csv has 2 bytes, but 4 were written")));
  all_.remove("s3://b/set/train/part-1.csv");
  EXPECT_THAT([&] { one->expand("s3://b/set/train/"); },
              ThrowsMessage<Error>(HasSubstr("part-1.csv is missing")));
  all_.remove(std::string("s3://b/set/train/") + kDataSetManifest);
  EXPECT_THAT(one->expand("s3://b/set/train/"), SizeIs(2));  // as any other folder
}

// As multipart uploads that put parts in another order, or a store that loses a bit.
TEST_F(DatasetUploadTest, AnObjectWithOtherContentOfTheSameSizeIsNamed) {
  const std::string rows = test_content(150000);  // three parts
  for (const size_t bytes : {rows.size(), size_t{1000}}) {
    SCOPED_TRACE(bytes);
    all_.objects.clear();
    const auto one = storage(cat("cache-", bytes));
    upload(*one, rows.substr(0, bytes), Overwrite::kRefuse);
    std::string damaged = rows.substr(0, bytes);
    damaged[bytes / 2] ^= 1;
    all_.put("s3://b/set/train/part-1.csv", damaged);
    const auto content = [&](const std::string& uri) {
      std::string content(bytes, ' ');
      one->open(uri)->read(0, static_cast<int64_t>(bytes), content.data());
      return content;
    };
    ASSERT_THAT(one->expand("s3://b/set/train/"), SizeIs(3));
    EXPECT_EQ(content("s3://b/set/train/part-0.csv"), rows.substr(0, bytes));
    EXPECT_THAT([&] { content("s3://b/set/train/part-1.csv"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("part-1.csv is damaged"),
                                           HasSubstr("was written; start again"))));
  }
}

TEST_F(DatasetUploadTest, AManifestWithoutChecksumsIsRead) {
  all_.put("s3://b/set/train/part-1.csv", "rows");
  all_.put("s3://b/set/train/.dataset.json",
           R"({"format": 1, "state": "complete", "files": [{"name": "part-1.csv", "bytes": 4}]})");
  const auto one = storage();
  ASSERT_THAT(one->expand("s3://b/set/train/"), SizeIs(1));
  std::string content(4, ' ');
  one->open("s3://b/set/train/part-1.csv")->read(0, 4, content.data());
  EXPECT_EQ(content, "rows");
}

TEST_F(DatasetUploadTest, ObjectsOfOthersAreNotReplacedUnasked) {
  all_.put("s3://b/set/x", "x");
  const auto one = storage();
  EXPECT_THAT([&] { upload(*one, "rows", Overwrite::kRefuse); },
              ThrowsMessage<Error>(HasSubstr("has 1 objects already")));
  EXPECT_THAT(all_.objects, SizeIs(1));
}

TEST_F(DatasetUploadTest, ObjectsThatAreNotOfADataSetAreNeverRemoved) {
  for (const char* other : {"s3://b/set/report.csv", "s3://b/set/runs/1/model.ckpt-5/manifest.json",
                            "s3://b/set/model.bin", "s3://b/set/train/notes.txt",
                            "s3://b/set/train/old/part-0.csv", "s3://b/set/test"}) {
    SCOPED_TRACE(other);
    all_.objects.clear();
    const auto one = storage();
    upload(*one, "old", Overwrite::kRefuse);
    all_.put(other, "other");
    const auto before = contents();
    std::atomic<int> changes{0};
    all_.before = [&](const std::string& request) {
      changes += request.starts_with("PUT") || request.starts_with("DELETE");
    };
    EXPECT_THAT([&] { upload(*one, "new", Overwrite::kReplace); },
                ThrowsMessage<Error>(HasSubstr("which is not part of a data set")));
    all_.before = nullptr;
    EXPECT_EQ(changes, 0);
    EXPECT_EQ(contents(), before);
  }
}

TEST_F(DatasetUploadTest, AWholeBucketIsNotReplaced) {
  const auto one = storage();
  for (const char* to : {"s3://b", "s3://b/"})
    EXPECT_THAT([&] { write_to_store(*one, to, Overwrite::kReplace, [](const std::string&) {}); },
                ThrowsMessage<Error>(HasSubstr("names a bucket without a path")));
}

TEST_F(DatasetUploadTest, ADataSetOfAnyLayoutIsReplaced) {
  const auto one = storage();
  for (const char* name :
       {"train/part-00000.csv", "test/part-00000.parquet", "part-1.bin", "label.bin", "dense.bin",
        "category.bin", "train/category_12.bin", "metadata.json", ".index.json", ".dataset.json"})
    all_.put(cat("s3://b/set/", name), "x");
  upload(*one, "new", Overwrite::kReplace);
  EXPECT_EQ(read(*one, "s3://b/set/train/"), std::set<std::string>{"new"});
  EXPECT_THAT(all_.objects, SizeIs(6));
}

// As clients of S3 make them for folders, also for those of locks.
TEST_F(DatasetUploadTest, EmptyObjectsOfFoldersAreNoDataSet) {
  const auto one = storage();
  for (const char* name : {"", "train/", ".lock/"}) all_.put(cat("s3://b/set/", name), "");
  upload(*one, "new", Overwrite::kRefuse);
  EXPECT_EQ(read(*one, "s3://b/set/train/"), std::set<std::string>{"new"});
}

TEST_F(DatasetUploadTest, ASecondWriterIsRefused) {
  const auto one = storage();
  bool is_refused = false;
  write_to_store(*one, "s3://b/set", Overwrite::kReplace, [&](const std::string& folder) {
    write(folder, "first");
    EXPECT_THAT([&] { upload(*one, "second", Overwrite::kReplace); },
                ThrowsMessage<Error>(HasSubstr("s3://b/set is in use by another program")));
    is_refused = true;
  });
  EXPECT_TRUE(is_refused);
  EXPECT_EQ(read(*one, "s3://b/set/train/"), std::set<std::string>{"first"});
  EXPECT_THAT(all_.objects, SizeIs(6));  // the lock is gone
}

TEST_F(DatasetUploadTest, AWriterThatLostItsLockStops) {
  const auto one = storage();
  upload(*one, "old", Overwrite::kRefuse);
  const auto begin = [&] {
    write_to_store(
        *one, "s3://b/set", Overwrite::kReplace,
        [&](const std::string& folder) {
          write(folder, "new");
          take_over("s3://b/set");
        },
        lock_by_clock());
  };
  EXPECT_THAT(begin, ThrowsMessage<Error>(
                         HasSubstr("another program that writes it took over s3://b/set")));
  EXPECT_EQ(read(*one, "s3://b/set/train/"), std::set<std::string>{"old"});
}

TEST_F(DatasetUploadTest, EveryRequestThatWritesNeedsTheLock) {
  std::unique_ptr<RemoteStorage> one;
  const auto prepare = [&] {
    all_.objects.clear();
    one = storage();
    upload(*one, "old", Overwrite::kRefuse);
  };
  expect_no_write_without_lock("s3://b/set", prepare,
                               [&] { upload(*one, "new", Overwrite::kReplace); });
}

}  // namespace
}  // namespace emblem
