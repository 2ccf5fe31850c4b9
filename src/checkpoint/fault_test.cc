// What a checkpoint survives: killed processes and full disks.
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <functional>
#include <thread>

#include "checkpoint/checkpoint_test.h"
#include "core/files/file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CheckpointFaultTest : public ModelDirTest {
 protected:
  // Runs `work` in a child process; the child never returns into the test.
  static pid_t start(const std::function<void()>& work) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    int status = 0;
    try {
      work();
    } catch (...) {
      status = 1;
    }
    ::_exit(status);
  }
};

TEST_F(CheckpointFaultTest, AGoodCheckpointIsThereWheneverTheWriterIsKilled) {
  constexpr size_t kTableBytes = 100'000;
  const auto start_time = std::chrono::steady_clock::now();
  write_sample(dir_, 1, 1, kTableBytes);
  const std::chrono::duration<double> one_write = std::chrono::steady_clock::now() - start_time;
  // The longest that a writer lives; more once the disk turns out slower than at the first write.
  std::chrono::duration<double> lifetime = one_write * 2.5;
  Random random{77};
  int64_t last = 1;
  for (int kill = 0; kill < 30; ++kill) {
    const pid_t child = start([&] {
      // Every other round replaces one checkpoint again and again.
      for (int64_t round = 1;; ++round) {
        const int64_t step = kill % 2 == 0 ? last + round : last;
        write_sample(dir_, step, static_cast<uint64_t>(round), kTableBytes);
        const int64_t newest[] = {step};
        prune_checkpoints(dir_, 2, newest);
      }
    });
    ASSERT_GT(child, 0);
    std::this_thread::sleep_for(lifetime * random.uniform());
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed by itself";

    const Checkpoint checkpoint = open_checkpoint(dir_);
    EXPECT_GE(checkpoint.manifest.step, last);
    if (kill % 2 == 0 && checkpoint.manifest.step == last) lifetime *= 1.25;
    last = checkpoint.manifest.step;
  }
  EXPECT_GT(last, 1) << "no writer lived long enough for a checkpoint";
  write_sample(dir_, last + 1);
  for (const std::string& name : names()) EXPECT_THAT(name, testing::StartsWith("model.ckpt-"));
}

void expect_full_disk_leaves_the_previous(const std::string& dir) {
  EXPECT_THAT([&] { write_sample(dir, 2, 1, 4 << 20); },
              ThrowsMessage<Error>(HasSubstr("cannot write")));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, ElementsAre("model.ckpt-1"));
  EXPECT_EQ(open_checkpoint(dir).manifest.step, 1);
}

TEST_F(CheckpointFaultTest, AFileThatCannotGrowLeavesThePreviousCheckpoint) {
  write_sample(dir_, 1);
  const pid_t child = start([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    expect_full_disk_leaves_the_previous(dir_);
    if (HasFailure()) throw std::runtime_error("see above");
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

// A small disk in memory, where the system lets us mount one.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {
    fs::create_directories(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=2m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_;
};

TEST_F(CheckpointFaultTest, AFullDiskLeavesThePreviousCheckpoint) {
  const SmallDisk disk(dir_);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a file system needs root";
  write_sample(dir_, 1);
  expect_full_disk_leaves_the_previous(dir_);
  EXPECT_THAT([&] { write_sample(dir_, 2, 1, 4 << 20); },
              ThrowsMessage<Error>(AllOf(HasSubstr("No space left"), HasSubstr("emb_vector"))));
  write_sample(dir_, 3);  // what the failed ones had taken is free again
  EXPECT_EQ(open_checkpoint(dir_).manifest.step, 3);
}

TEST_F(CheckpointFaultTest, ADiskThatFillsUpWhileReplacingKeepsTheOldOne) {
  const SmallDisk disk(dir_);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a file system needs root";
  write_sample(dir_, 1);
  const auto files = open_checkpoint(dir_).manifest.files;
  EXPECT_THROW(write_sample(dir_, 1, 2, 4 << 20), Error);
  EXPECT_EQ(open_checkpoint(dir_).manifest.files, files);
}

TEST_F(CheckpointFaultTest, AFileInPlaceOfTheModelDirIsAClearError) {
  write_text_file_atomically(dir_, "a file");
  EXPECT_THAT([&] { CheckpointWriter(dir_, 1); },
              ThrowsMessage<Error>(AllOf(HasSubstr("cannot make the folder"), HasSubstr(dir_))));
}

}  // namespace
}  // namespace emblem
