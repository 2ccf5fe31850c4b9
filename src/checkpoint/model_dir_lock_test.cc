#include "checkpoint/model_dir_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/checkpoint_test.h"
#include "core/files/file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class ModelDirLockTest : public ModelDirTest {
 protected:
  auto locking() const {
    return [this] { ModelDirLock lock(dir_); };
  }
};

TEST_F(ModelDirLockTest, ASecondOneIsRefusedWithTheProcessOfTheFirst) {
  {
    const ModelDirLock first(dir_);
    EXPECT_THAT(locking(), ThrowsMessage<Error>(AllOf(HasSubstr(dir_),
                                                      HasSubstr(cat("process ", ::getpid(), ")")),
                                                      HasSubstr("another --model-dir"))));
    EXPECT_THAT(locking(), ThrowsMessage<Error>(HasSubstr("in use"))) << "asking releases nothing";
  }
  EXPECT_NO_THROW(locking()());
}

TEST_F(ModelDirLockTest, NamesTheMachineOfAnotherHost) {
  const ModelDirLock first(dir_);
  FileWriter file(dir_ + "/.lock");  // in place: the lock is on this file
  file.write("77 far-away\n");
  file.finish();
  EXPECT_THAT(locking(), ThrowsMessage<Error>(HasSubstr("process 77 on far-away")));
}

TEST_F(ModelDirLockTest, LeavesNoFileAndNoEmptyFolder) {
  const std::string nested = dir_ + "/a/b";
  { const ModelDirLock lock(nested); }
  EXPECT_FALSE(std::filesystem::exists(dir_));
  {
    const ModelDirLock lock(nested);
    write_text_file_atomically(nested + "/results", "kept");
  }
  EXPECT_EQ(read_text_file(nested + "/results"), "kept");
  EXPECT_FALSE(std::filesystem::exists(nested + "/.lock"));
}

TEST_F(ModelDirLockTest, KeepsAFolderThatWasThereBefore) {
  std::filesystem::create_directories(dir_);
  { const ModelDirLock lock(dir_); }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(ModelDirLockTest, TheLockOfAKilledProcessIsFree) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const ModelDirLock lock(dir_);
    (void)!::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(locking(), ThrowsMessage<Error>(HasSubstr(cat("process ", child))));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(names(), ElementsAre(".lock"));
  EXPECT_NO_THROW(locking()());
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(ModelDirLockTest, AModelDirThatIsAFileIsRefused) {
  write_text_file_atomically(dir_, "not a folder");
  EXPECT_THAT(locking(), ThrowsMessage<Error>(AllOf(HasSubstr("cannot make the model dir " + dir_),
                                                    HasSubstr("--model-dir"))));
  EXPECT_THAT([&] { ModelDirLock lock(dir_ + "/below"); },
              ThrowsMessage<Error>(HasSubstr("Not a directory")));
}

}  // namespace
}  // namespace emblem
