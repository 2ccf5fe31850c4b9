#include "remote/unit_copy.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/source/folder_copies.h"
#include "remote/folder_mirror.h"
#include "remote/remote_test.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;
using testing::SizeIs;

class UnitCopyTest : public RemoteFolderTest {
 protected:
  UnitCopy fetch(RemoteStorage& storage, const std::string& unit,
                 const FetchOptions& options = {}) {
    RemoteFolder folder(storage, kTestFolder, 1);
    folder.look();
    return fetch_unit(folder, unit, fingerprint_of(storage, folder.units().at(unit)), options);
  }
};

TEST_F(UnitCopyTest, ACopyOutlivesItsUnitWhileItIsHeld) {
  put_unit("model.ckpt-10", "old");
  const auto one = storage();
  const UnitCopy old = fetch(*one, "model.ckpt-10");
  EXPECT_TRUE(old.path.ends_with("/model.ckpt-10"));
  put_unit("model.ckpt-10", "new");  // same sizes, same second
  const UnitCopy now = fetch(*one, "model.ckpt-10");
  EXPECT_EQ(read_text_file(old.path + "/dense"), "dense old");
  EXPECT_EQ(read_text_file(now.path + "/dense"), "dense new");
  all_.objects.clear();
  one->cache().clear();
  EXPECT_EQ(read_text_file(old.path + "/tables/a"), "a old");
}

TEST_F(UnitCopyTest, ACopyIsFetchedOnceForAllProcesses) {
  put_unit("model.ckpt-10", "ten");
  std::string path;
  {
    const auto one = storage();
    path = fetch(*one, "model.ckpt-10").path;
  }
  const auto another = storage();
  const int reads = all_.reads;
  EXPECT_EQ(fetch(*another, "model.ckpt-10").path, path);
  EXPECT_EQ(all_.reads, reads);
}

// The holder is another process, which is killed.
TEST_F(UnitCopyTest, AnotherProcessDoesNotRemoveWhatOneHolds) {
  put_unit("model.ckpt-10", "ten");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto one = storage();
    const UnitCopy copy = fetch(*one, "model.ckpt-10");
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto one = storage();
  const std::vector<FolderCopy> copies = list_copies(folder_.path("cache"));
  ASSERT_THAT(copies, SizeIs(1));
  EXPECT_TRUE(copies[0].is_used);
  EXPECT_FALSE(remove_copy(copies[0].path));
  const ClearedCache cleared = one->cache().clear();
  EXPECT_THAT(cleared.kept, SizeIs(1));
  EXPECT_TRUE(fs::exists(copies[0].path + "/model.ckpt-10/manifest.json"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(one->cache().clear().kept, IsEmpty());
  EXPECT_FALSE(fs::exists(copies[0].path));
}

TEST_F(UnitCopyTest, AStalledDownloadOfAnotherProcessIsNotWaitedForForever) {
  put_unit("model.ckpt-10", "ten");
  const auto one = storage();
  one->cache();
  RemoteFolder folder(*one, kTestFolder, 1);
  folder.look();
  const std::string fingerprint = fingerprint_of(*one, folder.units().at("model.ckpt-10"));
  const auto stalled =
      FileLock::try_lock(lock_of_copy(copy_path(folder_.path("cache"), "unit-" + fingerprint)));
  ASSERT_NE(stalled, nullptr);
  const UnitCopy copy = fetch(*one, "model.ckpt-10", {.stall_seconds = 0.05});
  EXPECT_EQ(read_text_file(copy.path + "/dense"), "dense ten");
}

void damage(const std::string& file) {
  write_text_file_atomically(file, std::string(read_text_file(file).size(), '?'));
}

TEST_F(UnitCopyTest, ADamagedCopyIsFetchedAgain) {
  put_unit("model.ckpt-10", "ten");
  const auto one = storage();
  const std::string path = fetch(*one, "model.ckpt-10").path;
  damage(path + "/dense");
  fs::resize_file(path + "/tables/a", 0);  // as after a power failure
  const UnitCopy again = fetch(*one, "model.ckpt-10");
  EXPECT_EQ(again.path, path);
  EXPECT_EQ(read_text_file(path + "/dense"), "dense ten");
  EXPECT_EQ(read_text_file(path + "/tables/a"), "a ten");
  damage(path + "/dense");  // while it is held
  const UnitCopy beside = fetch(*one, "model.ckpt-10");
  EXPECT_EQ(read_text_file(beside.path + "/dense"), "dense ten");
  EXPECT_EQ(read_text_file(path + "/dense"), "?????????");
}

TEST_F(UnitCopyTest, VerifyingTheCacheComparesCopies) {
  put_unit("model.ckpt-10", "ten");
  put_unit("model.ckpt-20", "twenty");
  const auto one = storage();
  const std::string path = fetch(*one, "model.ckpt-10").path;
  const std::string intact = fetch(*one, "model.ckpt-20").path;
  EXPECT_THAT(one->cache().verify(), IsEmpty());
  damage(path + "/dense");
  EXPECT_THAT(one->cache().verify(), SizeIs(1));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::exists(intact));
}

TEST_F(UnitCopyTest, AFailedFetchLeavesNothingThatLooksWhole) {
  put_unit("model.ckpt-10", "ten");
  for (int first = 0; first < 100; ++first) {
    const auto one = storage(cat("cache-", first));
    int failed = 0;
    {
      const RequestFaults faults(all_, RequestFaults::Kind::kDenied, first, 1);
      try {
        const UnitCopy copy = fetch(*one, "model.ckpt-10");
      } catch (const Error&) {
      }
      failed = faults.failed();
    }
    const UnitCopy copy = fetch(*one, "model.ckpt-10");
    EXPECT_EQ(read_text_file(copy.path + "/tables/a"), "a ten");
    if (failed == 0) return;
  }
  FAIL() << "the fetch never succeeded";
}

TEST_F(UnitCopyTest, CopiesCountForTheSizeOfTheCacheAndLeaveItUnlessTheyAreHeldOrPending) {
  put_unit("model.ckpt-10", std::string(100000, 'x'));
  const auto one = storage("cache", 500000);
  std::string path = fs::path(fetch(*one, "model.ckpt-10").path).parent_path().string();
  EXPECT_TRUE(one->cache().make_room(100000));
  EXPECT_TRUE(fs::exists(path));  // both fit
  {
    const UnitCopy held = fetch(*one, "model.ckpt-10");
    EXPECT_FALSE(one->cache().make_room(400000));
    EXPECT_TRUE(fs::exists(path));
  }
  mark_copy_pending(path);
  EXPECT_FALSE(one->cache().make_room(400000));
  EXPECT_FALSE(remove_copy(path));
  EXPECT_THAT(one->cache().clear().kept, SizeIs(1));
  mark_copy_uploaded(path);
  EXPECT_TRUE(one->cache().make_room(400000));
  EXPECT_FALSE(fs::exists(path));
}

class FolderMirrorTest : public RemoteFolderTest {};

TEST_F(FolderMirrorTest, IsWhatTheRemoteFolderIs) {
  put_unit("ctr/1", "one");
  all_.put("s3://b/runs/1/ctr/config.pbtxt", "old");
  const auto one = storage();
  FolderMirror mirror(*one, kTestFolder, 2);
  EXPECT_THAT(mirror.pull(), IsEmpty());
  EXPECT_EQ(read_text_file(mirror.local() + "/ctr/1/dense"), "dense one");
  EXPECT_EQ(read_text_file(mirror.local() + "/ctr/config.pbtxt"), "old");
  put_unit("ctr/2", "two");
  all_.put("s3://b/runs/1/ctr/config.pbtxt", "new");  // same size, same second
  EXPECT_THAT(mirror.pull(), IsEmpty());
  EXPECT_EQ(read_text_file(mirror.local() + "/ctr/2/dense"), "dense two");
  EXPECT_EQ(read_text_file(mirror.local() + "/ctr/config.pbtxt"), "new");
  all_.objects.clear();
  EXPECT_THAT(mirror.pull(), IsEmpty());
  EXPECT_FALSE(fs::exists(mirror.local() + "/ctr"));
}

TEST_F(FolderMirrorTest, OneEmptyListingRemovesNothing) {
  put_unit("m/1", "one");
  all_.put("s3://b/runs/1/m/config", "text");
  const auto one = storage();
  FolderMirror mirror(*one, kTestFolder, 2);
  EXPECT_THAT(mirror.pull(), IsEmpty());
  decltype(all_.objects) hidden;
  int listings = 0;
  all_.before = [&](const std::string& request) {  // a proxy's page in the place of the first one
    if (request.starts_with("LIST") && ++listings == 1) hidden.swap(all_.objects);
  };
  all_.after = [&](const std::string& request) {
    if (request.starts_with("LIST") && listings == 1) hidden.swap(all_.objects);
  };
  EXPECT_THAT(mirror.pull(), IsEmpty());
  EXPECT_EQ(listings, 2);
  EXPECT_EQ(read_text_file(mirror.local() + "/m/1/dense"), "dense one");
  EXPECT_EQ(read_text_file(mirror.local() + "/m/config"), "text");
  all_.before = all_.after = nullptr;
  all_.remove("s3://b/runs/1/m/config");
  EXPECT_THAT(mirror.pull(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(mirror.local() + "/m/config"));
}

TEST_F(FolderMirrorTest, WhatIsRemovedByHandIsFetchedAgain) {
  put_unit("ctr/1", "one");
  all_.put("s3://b/runs/1/ctr/config.pbtxt", "text");
  const auto one = storage();
  FolderMirror mirror(*one, kTestFolder, 2);
  for (const std::string& gone :
       {mirror.local(), folder_.path("cache/models"), folder_.path("cache")}) {
    EXPECT_THAT(mirror.pull(), IsEmpty());
    const std::string copy = fs::canonical(mirror.local() + "/ctr/1").string();
    for (const std::string& path : {gone, copy}) {
      fs::remove_all(path);
      EXPECT_THAT(mirror.pull(), IsEmpty()) << path;
      EXPECT_EQ(read_text_file(mirror.local() + "/ctr/1/dense"), "dense one");
      EXPECT_EQ(read_text_file(mirror.local() + "/ctr/config.pbtxt"), "text");
    }
  }
}

TEST_F(FolderMirrorTest, WhatAKilledServerLeftIsRemovedByTheNextOne) {
  const auto one = storage();
  const std::string left = folder_.path("cache/models/view-999999999-0");
  write_unit(left + "/model.ckpt-1", "of a killed process");
  const FolderMirror first(*one, kTestFolder, 2);
  EXPECT_FALSE(std::filesystem::exists(left));
  const FolderMirror second(*one, kTestFolder, 2);
  EXPECT_TRUE(std::filesystem::exists(first.local()));
  EXPECT_NE(first.local(), second.local());
}

TEST_F(FolderMirrorTest, AnUnreadableObjectDoesNotKeepOthersAway) {
  put_unit("a/1", "one");
  put_unit("b/1", "two");
  all_.put("s3://b/runs/1/a/config.pbtxt", "text");
  const auto one = storage();
  FolderMirror mirror(*one, kTestFolder, 2);
  all_.before = [](const std::string& request) {
    if (request.starts_with("GET s3://b/runs/1/a/"))
      throw Error(ErrorCode::kPermissionDenied, "HTTP status 403");
  };
  EXPECT_THAT(mirror.pull(), SizeIs(2));
  EXPECT_TRUE(fs::exists(mirror.local() + "/b/1/manifest.json"));
  EXPECT_FALSE(fs::exists(mirror.local() + "/a/1"));
  all_.before = nullptr;
  EXPECT_THAT(mirror.pull(), IsEmpty());  // what failed is tried again
  EXPECT_TRUE(fs::exists(mirror.local() + "/a/1/manifest.json"));
  EXPECT_EQ(read_text_file(mirror.local() + "/a/config.pbtxt"), "text");
}

TEST_F(FolderMirrorTest, AVersionThatIsReplacedStaysReadableForAWhile) {
  put_unit("a/1", "old");
  const auto one = storage();
  FolderMirror mirror(*one, kTestFolder, 2);
  mirror.pull();
  const std::string read = fs::canonical(mirror.local() + "/a/1").string();
  put_unit("a/1", "new");
  mirror.pull();
  one->cache().clear();
  EXPECT_EQ(read_text_file(read + "/dense"), "dense old");
  EXPECT_EQ(read_text_file(mirror.local() + "/a/1/dense"), "dense new");
}

// The link of the one is not a way into the copy that others share.
TEST_F(FolderMirrorTest, AUnitMayTakeThePlaceOfAnotherOneAboveOrBelowIt) {
  put_unit("ctr/1", "one");
  const auto one = storage();
  FolderMirror mirror(*one, kTestFolder, 2);
  EXPECT_THAT(mirror.pull(), IsEmpty());
  const std::string shared = fs::canonical(mirror.local() + "/ctr/1").string();
  all_.objects.clear();
  put_unit("ctr/1/x", "two");
  EXPECT_THAT(mirror.pull(), IsEmpty());
  EXPECT_FALSE(fs::exists(shared + "/x"));
  EXPECT_EQ(read_text_file(mirror.local() + "/ctr/1/x/dense"), "dense two");
  all_.objects.clear();
  put_unit("ctr", "three");
  EXPECT_THAT(mirror.pull(), IsEmpty());
  EXPECT_EQ(read_text_file(mirror.local() + "/ctr/dense"), "dense three");
  all_.objects.clear();
  EXPECT_THAT(mirror.pull(), IsEmpty());
  EXPECT_FALSE(fs::exists(mirror.local() + "/ctr"));
  EXPECT_TRUE(fs::exists(mirror.local()));
}

TEST_F(FolderMirrorTest, NamesThatLeaveTheFolderAreSkipped) {
  put_unit("a/1", "one");
  all_.put("s3://b/runs/1/a/1/../../../../x", "evil");
  all_.put("s3://b/runs/1/../y", "evil");
  const auto one = storage();
  FolderMirror mirror(*one, kTestFolder, 2);
  EXPECT_THAT(mirror.pull(), IsEmpty());
  EXPECT_EQ(read_text_file(mirror.local() + "/a/1/dense"), "dense one");
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path("")))
    EXPECT_THAT(entry.path().filename().string(),
                testing::AllOf(testing::Ne("x"), testing::Ne("y")));
}

}  // namespace
}  // namespace emblem
