#include "checkpoint/remote_model_dir.h"

#include "checkpoint/checkpoint_test.h"
#include "remote/remote_test.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;
using Existing = RemoteModelDir::Existing;

class RemoteModelDirTest : public RemoteFolderTest {
 protected:
  static constexpr int64_t kKeep = 2;
  static constexpr size_t kBytes = 400;

  // The process of a training. `saved` gets each step whose checkpoint is on the machine.
  static void train(const Storage& storage, Existing existing, const std::vector<int64_t>& steps,
                    std::vector<int64_t>& saved) {
    RemoteModelDir dir(kTestFolder, existing, kKeep, storage);
    for (const int64_t step : steps) save(dir, step, saved);
    dir.finish();
  }
  static void save(RemoteModelDir& dir, int64_t step, std::vector<int64_t>& saved) {
    write_sample(dir.local(), step, 1, kBytes);
    saved.push_back(step);
    const int64_t newest[] = {step};
    prune_checkpoints(dir.local(), kKeep, newest);
    dir.publish();
  }
  static int64_t newest_in(const std::string& model_dir) {
    const auto found = latest_checkpoint(model_dir);
    return found ? open_checkpoint(*found).manifest.step : -1;
  }
  // The newest step that another machine reads from the store, with the right content; -1: none.
  int64_t newest_in_store() {
    const auto reader = storage(cat("reader-", ++readers_));
    try {
      const Checkpoint found = open_checkpoint(fetch_checkpoint(kTestFolder, *reader));
      const std::string same =
          write_sample(folder_.path(cat("expected-", readers_)), found.manifest.step, 1, kBytes);
      EXPECT_EQ(read_text_file(found.file("dense.safetensors")),
                read_text_file(same + "/dense.safetensors"));
      return found.manifest.step;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNotFound) << error.what();
      return -1;
    }
  }
  // Claims of this process do not expire while it runs.
  void unlock() {
    const std::lock_guard lock(all_.mutex);
    std::erase_if(all_.objects, [](const auto& entry) {
      return entry.first.find("/.lock/") != entry.first.npos;
    });
  }

  int readers_ = 0;
};

TEST_F(RemoteModelDirTest, NoCheckpointIsLostWhicheverRequestsFail) {
  for (const auto kind : {RequestFaults::Kind::kDenied, RequestFaults::Kind::kAnswerLost,
                          RequestFaults::Kind::kSwallowed, RequestFaults::Kind::kPage}) {
    bool reached_end = false;
    for (int first = 0; !reached_end && first < 300; first += 3) {
      SCOPED_TRACE(cat(static_cast<int>(kind), ", request ", first));
      all_.objects.clear();
      const Storage machine = storage(cat("machine-", static_cast<int>(kind), "-", first));
      std::vector<int64_t> saved;
      bool is_finished = false;
      {
        const RequestFaults faults(all_, kind, first, 6);
        try {
          train(machine, Existing::kOnlyNames, {10, 20, 30}, saved);
          is_finished = true;
        } catch (const Error&) {
        }
        reached_end = faults.failed() == 0;
      }
      unlock();
      if (is_finished) {
        EXPECT_EQ(newest_in_store(), 30);
      }
      {
        RemoteModelDir resumed(kTestFolder, Existing::kFetchLatest, kKeep, machine);
        EXPECT_EQ(newest_in(resumed.local()), saved.empty() ? -1 : saved.back());
        save(resumed, 40, saved);
        resumed.finish();
      }
      EXPECT_EQ(newest_in_store(), 40);
      for (const auto& [uri, object] : all_.objects)
        EXPECT_THAT(uri, StartsWith("s3://b/runs/1/model.ckpt-"));
      if (HasFailure()) return;
    }
    EXPECT_TRUE(reached_end);
  }
}

TEST_F(RemoteModelDirTest, AnotherMachineContinuesFromTheNewestCheckpoint) {
  std::vector<int64_t> saved;
  train(storage("one"), Existing::kOnlyNames, {10, 20, 30}, saved);
  const Storage two = storage("two");
  EXPECT_THAT([&] { train(two, Existing::kOnlyNames, {5}, saved); },
              ThrowsMessage<Error>(HasSubstr("exists already; continue it with --resume")));
  train(two, Existing::kFetchLatest, {40}, saved);
  EXPECT_EQ(newest_in_store(), 40);
  RemoteModelDir back(kTestFolder, Existing::kFetchLatest, kKeep, storage("one"));
  EXPECT_EQ(newest_in(back.local()), 40);
}

TEST_F(RemoteModelDirTest, ASecondHolderIsRefusedAndChangesNothing) {
  // The same cache folder, and that of another machine.
  for (const auto& [own, other] : {std::pair("one", "one"), {"two", "three"}}) {
    SCOPED_TRACE(other);
    all_.objects.clear();
    std::vector<int64_t> saved;
    RemoteModelDir dir(kTestFolder, Existing::kFetchLatest, kKeep, storage(own));
    save(dir, 10, saved);
    for (const Existing existing : {Existing::kFetchLatest, Existing::kOnlyNames})
      EXPECT_THAT([&] { RemoteModelDir(kTestFolder, existing, kKeep, storage(other)); },
                  ThrowsMessage<Error>(AllOf(HasSubstr("s3://b/runs/1"), HasSubstr("in use"))));
    EXPECT_EQ(newest_in(dir.local()), 10);
    save(dir, 20, saved);
    dir.finish();
    EXPECT_EQ(newest_in_store(), 20);
  }
}

// Both places were emptied by hand; the same training runs again.
TEST_F(RemoteModelDirTest, ACheckpointWithTheContentOfALostOneIsUploaded) {
  const Storage machine = storage();
  std::vector<int64_t> saved;
  for (int run = 0; run < 2; ++run) {
    RemoteModelDir dir(kTestFolder, Existing::kOnlyNames, kKeep, machine);
    save(dir, 10, saved);
    dir.finish();
    EXPECT_EQ(newest_in_store(), 10);
    remove_checkpoint(dir.local(), 10);
    storage()->remove_folder(cat(kTestFolder, "/model.ckpt-10"));
  }
}

}  // namespace
}  // namespace emblem
