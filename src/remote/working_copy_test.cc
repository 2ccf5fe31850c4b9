#include "remote/working_copy.h"

#include <gmock/gmock.h>

#include "data/source/folder_copies.h"
#include "remote/remote_test.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class WorkingCopyTest : public RemoteFolderTest {
 protected:
  static std::unique_ptr<WorkingCopy> open(RemoteStorage& storage) {
    return std::make_unique<WorkingCopy>(storage, kTestFolder, 1);
  }
  static bool is_replaced(const std::string&) { return true; }
  static void upload_all(WorkingCopy& copy) {
    for (const std::string& unit : copy.pending_units()) copy.upload(unit);
    copy.upload_loose_files();
  }
};

TEST_F(WorkingCopyTest, WhatWasNotUploadedIsPendingForTheNextProcess) {
  const auto first = storage();
  std::string local;
  {
    const auto copy = open(*first);
    local = copy->local();
    write_unit(local + "/model.ckpt-10", "ten");
    write_text_file_atomically(local + "/log", "a line");
  }
  EXPECT_TRUE(list_copies(folder_.path("cache")).at(0).is_pending);
  {
    const auto copy = open(*first);
    copy->compare();
    copy->remove_what_is_gone(is_replaced);
    EXPECT_THAT(copy->pending_units(), ElementsAre("model.ckpt-10"));
    EXPECT_THAT(copy->pending_files(), ElementsAre("log"));
    upload_all(*copy);
    EXPECT_FALSE(copy->has_pending());
  }
  EXPECT_EQ(stored("model.ckpt-10"), "ten");
  EXPECT_EQ(all_.get("s3://b/runs/1/log"), "a line");
  EXPECT_FALSE(list_copies(folder_.path("cache")).at(0).is_pending);
  EXPECT_THAT(all_.objects, testing::SizeIs(4));  // no lock is left
}

TEST_F(WorkingCopyTest, UnitsThatTheStoreHasAreNotSentAgain) {
  put_unit("model.ckpt-10", "ten");
  const auto first = storage();
  const auto copy = open(*first);
  write_unit(copy->local() + "/model.ckpt-10", "ten");  // its journal was lost
  EXPECT_THAT(copy->pending_units(), ElementsAre("model.ckpt-10"));
  EXPECT_THAT(copy->compare(), IsEmpty());
  EXPECT_FALSE(copy->has_pending());
}

TEST_F(WorkingCopyTest, AnotherUnitOfTheSameNameIsNeitherReplacedNorLost) {
  put_unit("model.ckpt-10", "of another machine");
  const auto first = storage();
  const auto copy = open(*first);
  write_unit(copy->local() + "/model.ckpt-10", "of this one");
  EXPECT_THAT([&] { copy->upload("model.ckpt-10"); },
              ThrowsMessage<Error>(HasSubstr("exists already")));
  EXPECT_THAT(copy->compare(), ElementsAre("model.ckpt-10"));
  EXPECT_EQ(stored("model.ckpt-10"), "of another machine");
  std::vector<std::string> kept;
  for (const auto& entry : fs::recursive_directory_iterator(copy->local() + "/.kept"))
    if (entry.path().filename() == "dense") kept.push_back(read_text_file(entry.path()));
  EXPECT_THAT(kept, ElementsAre("dense of this one"));
  copy->fetch("model.ckpt-10");
  EXPECT_EQ(read_text_file(copy->local() + "/model.ckpt-10/dense"), "dense of another machine");
}

TEST_F(WorkingCopyTest, AReplacedManifestIsSentAlone) {
  const auto first = storage();
  const auto copy = open(*first);
  const std::string unit = copy->local() + "/model.ckpt-10";
  write_unit(unit, "ten");
  upload_all(*copy);
  write_text_file_atomically(unit + "/manifest.json", "{\"content\": \"ten\" }");
  std::vector<std::string> puts;
  all_.before = [&](const std::string& request) {
    if (!request.starts_with("GET") && !request.starts_with("LIST") &&
        !request.starts_with("HEAD") && request.find("/.lock/") == std::string::npos)
      puts.push_back(request);
  };
  upload_all(*copy);
  all_.before = nullptr;
  EXPECT_THAT(puts, ElementsAre("PUT s3://b/runs/1/model.ckpt-10/manifest.json"));
}

TEST_F(WorkingCopyTest, OnlyWhatTheStoreHadIsRemovedWithIt) {
  const auto first = storage();
  {
    const auto copy = open(*first);
    write_unit(copy->local() + "/model.ckpt-10", "ten");
    upload_all(*copy);
    write_unit(copy->local() + "/model.ckpt-20", "twenty");
  }
  all_.objects.clear();  // the folder is removed by its owner
  const auto copy = open(*first);
  copy->compare();
  copy->remove_what_is_gone(is_replaced);
  EXPECT_THAT(copy->local_units(), ElementsAre("model.ckpt-20"));
}

TEST_F(WorkingCopyTest, WhatTheStoreLostIsKept) {
  const auto first = storage();
  {
    const auto copy = open(*first);
    write_unit(copy->local() + "/model.ckpt-10", "ten");
    write_unit(copy->local() + "/model.ckpt-20", "twenty");
    write_text_file_atomically(copy->local() + "/log", "a line");
    upload_all(*copy);
  }
  all_.objects.clear();
  std::string local;
  {
    const auto copy = open(*first);
    local = copy->local();
    copy->remove_what_is_gone([](const std::string& name) { return name == "model.ckpt-10"; });
    EXPECT_THAT(copy->local_units(), IsEmpty());
  }
  std::vector<std::string> kept;
  for (const auto& entry : fs::recursive_directory_iterator(local + "/.kept"))
    if (entry.is_regular_file()) kept.push_back(read_text_file(entry.path()));
  EXPECT_THAT(kept, testing::UnorderedElementsAre("dense twenty", "a twenty",
                                                  "{\"content\": \"twenty\"}", "a line"));
  EXPECT_TRUE(list_copies(folder_.path("cache")).at(0).is_pending);  // "cache clear" leaves it
}

TEST_F(WorkingCopyTest, AnOldListingRemovesNothing) {
  const auto first = storage();
  {
    const auto copy = open(*first);
    write_unit(copy->local() + "/model.ckpt-10", "ten");
    upload_all(*copy);
  }
  MemoryObjects::Object unseen;
  const std::string manifest = "s3://b/runs/1/model.ckpt-10/manifest.json";
  all_.before = [&](const std::string& request) {
    if (request != "LIST s3://b/runs/1/") return;
    const std::lock_guard lock(all_.mutex);
    unseen = all_.objects.at(manifest);
    all_.objects.erase(manifest);
  };
  all_.after = [&](const std::string& request) {
    if (request != "LIST s3://b/runs/1/") return;
    const std::lock_guard lock(all_.mutex);
    all_.objects[manifest] = unseen;
  };
  const auto copy = open(*first);
  EXPECT_THAT([&] { copy->remove_what_is_gone(is_replaced); },
              ThrowsMessage<Error>(HasSubstr("does not have its manifest")));
  all_.before = all_.after = nullptr;
  EXPECT_THAT(copy->local_units(), ElementsAre("model.ckpt-10"));
}

TEST_F(WorkingCopyTest, ASecondProcessIsRefusedBeforeItChangesAnything) {
  const auto first = storage(), second = storage(), elsewhere = storage("other");
  const auto copy = open(*first);
  write_unit(copy->local() + "/model.ckpt-10", "ten");
  const auto objects = all_.objects.size();
  EXPECT_THAT([&] { open(*second); },
              ThrowsMessage<Error>(AllOf(HasSubstr("s3://b/runs/1 is in use by another training"),
                                         HasSubstr(cat("process ", ::getpid())))));
  EXPECT_THAT([&] { open(*elsewhere); }, ThrowsMessage<Error>(HasSubstr("is in use by another")));
  EXPECT_EQ(all_.objects.size(), objects);
  EXPECT_TRUE(fs::exists(copy->local() + "/model.ckpt-10/manifest.json"));
}

TEST_F(WorkingCopyTest, AUnitThatIsRemovedDuringItsUploadStillArrives) {
  const auto first = storage();
  const auto copy = open(*first);
  const std::string unit = copy->local() + "/model.ckpt-10";
  write_unit(unit, "ten");
  all_.before = [&](const std::string& request) {
    std::error_code ignored;  // error when two threads do it at the same time
    if (request.starts_with("PUT") && request.find("/.lock/") == std::string::npos)
      fs::remove_all(unit, ignored);  // by the owner
  };
  copy->upload("model.ckpt-10");
  all_.before = nullptr;
  EXPECT_EQ(stored("model.ckpt-10"), "ten");
}

TEST_F(WorkingCopyTest, TheFilesOfAUnitStayWhileItsManifestIsNotRemoved) {
  const auto first = storage();
  const auto copy = open(*first);
  write_unit(copy->local() + "/model.ckpt-10", "ten");
  upload_all(*copy);
  all_.before = [](const std::string& request) {  // "there is no such object", which is not true
    if (request == "DELETE s3://b/runs/1/model.ckpt-10/manifest.json") throw SkippedRequest{};
  };
  EXPECT_THROW(copy->remove("model.ckpt-10"), Error);
  all_.before = nullptr;
  EXPECT_EQ(stored("model.ckpt-10"), "ten");
}

// A store, or what is between, that answers a PUT and does not keep its object.
TEST_F(WorkingCopyTest, WhatTheStoreOnlySaysToHaveGetsNoManifest) {
  const auto first = storage();
  const auto copy = open(*first);
  write_unit(copy->local() + "/model.ckpt-10", "ten");
  all_.before = [](const std::string& request) {
    if (request.starts_with("PUT") && request.ends_with("/dense")) throw SkippedRequest();
  };
  EXPECT_THAT([&] { copy->upload("model.ckpt-10"); },
              ThrowsMessage<Error>(HasSubstr("model.ckpt-10 is not what was uploaded")));
  EXPECT_EQ(stored("model.ckpt-10"), "");
  all_.before = nullptr;
  upload_all(*copy);
  EXPECT_EQ(stored("model.ckpt-10"), "ten");
}

TEST_F(WorkingCopyTest, NoFurtherFileIsTriedAfterOneThatFails) {
  const auto first = storage();
  const auto copy = open(*first);
  const std::string unit = copy->local() + "/model.ckpt-10";
  write_unit(unit, "ten");
  for (int i = 0; i < 200; ++i) write_text_file_atomically(cat(unit, "/tables/t", i), "rows");
  std::atomic<int> writes{0};
  all_.before = [&](const std::string& request) {
    if (!request.starts_with("PUT") || request.find("/.lock/") != request.npos) return;
    ++writes;
    throw Error(ErrorCode::kUnavailable, "HTTP status 500");
  };
  EXPECT_THAT([&] { copy->upload("model.ckpt-10"); }, ThrowsMessage<Error>(HasSubstr("500")));
  EXPECT_LE(writes, 8 * 16);  // the attempts of the files that were begun at once
}

TEST_F(WorkingCopyTest, FilesThatWereJustUploadedCanBeFetched) {
  all_.put("s3://b/runs/1/log", "old");
  const auto first = storage();
  const auto copy = open(*first);
  write_text_file_atomically(copy->local() + "/log", "longer than before");
  copy->upload_loose_files();
  copy->look();
  copy->fetch_files();
  EXPECT_EQ(read_text_file(copy->local() + "/log"), "longer than before");
}

// A training that saves 10 and 20, removes 10 here and there, and extends its log; `failed` is set
// when a request of it failed for good. Then a process with a healthy store continues.
class FaultsTest : public WorkingCopyTest, public testing::WithParamInterface<RequestFaults::Kind> {
 protected:
  // Whether all requests succeeded.
  bool train(RemoteStorage& storage) {
    try {
      StoreLockOptions lock;
      lock.owner.started = 1;  // a process that has ended when the next one looks
      const auto copy = std::make_unique<WorkingCopy>(storage, kTestFolder, 1, lock);
      copy->compare();
      copy->remove_what_is_gone(is_replaced);
      copy->fetch_files();
      const auto save = [&](int step, const std::string& removed) {
        write_unit(cat(copy->local(), "/model.ckpt-", step), cat("step ", step));
        write_text_file_atomically(copy->local() + "/log", cat("up to ", step));
        saved_ = step;
        if (!removed.empty()) fs::remove_all(copy->local() + "/" + removed);
        upload_all(*copy);
        if (!removed.empty()) copy->remove(removed);
      };
      save(10, "");
      save(20, "model.ckpt-10");
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  int saved_ = 0;
};

TEST_P(FaultsTest, NothingIsLostWhicheverRequestFails) {
  bool reached_end = false;
  for (int first = 0; !reached_end && first < 1000; ++first) {
    SCOPED_TRACE(cat("request ", first));
    all_.objects.clear();
    saved_ = 0;
    const std::string machine = cat("cache-", first);
    const auto machine_storage = storage(machine);
    {
      const RequestFaults faults(all_, GetParam(), first, 8);
      train(*machine_storage);
      reached_end = faults.failed() == 0;
    }
    stored("model.ckpt-10");  // whole or not there
    stored("model.ckpt-20");
    const auto next = storage(machine);
    const auto copy = open(*next);
    EXPECT_THAT(copy->compare(), IsEmpty());
    copy->remove_what_is_gone(is_replaced);
    upload_all(*copy);
    if (saved_ > 0) {
      EXPECT_EQ(stored(cat("model.ckpt-", saved_)), cat("step ", saved_));
      EXPECT_EQ(all_.get("s3://b/runs/1/log"), cat("up to ", saved_));
    }
    EXPECT_FALSE(copy->has_pending());
    if (HasFailure()) return;
  }
  EXPECT_TRUE(reached_end);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FaultsTest,
                         testing::Values(RequestFaults::Kind::kBusy,
                                         RequestFaults::Kind::kAnswerLost,
                                         RequestFaults::Kind::kDenied,
                                         RequestFaults::Kind::kSwallowed,
                                         RequestFaults::Kind::kPage));

}  // namespace
}  // namespace emblem
