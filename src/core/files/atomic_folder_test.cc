#include "core/files/atomic_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::vector<std::string> names_of(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(AtomicFolder, AppearsWholeOrNotAtAll) {
  const TempFolder folder;
  const std::string target = folder.path("above/model");
  {
    AtomicFolder made(target, "the model");
    write_text_file_atomically(made.path() + "/x", "1");
    EXPECT_FALSE(fs::exists(target));
  }
  EXPECT_THAT(names_of(folder.path("above")), IsEmpty());
  {
    AtomicFolder made(target + "/", "the model");
    write_text_file_atomically(made.path() + "/x", "1");
    made.commit();
  }
  EXPECT_EQ(read_text_file(target + "/x"), "1");
  EXPECT_THAT(names_of(folder.path("above")), ElementsAre("model"));
  struct stat made, plain;
  fs::create_directory(folder.path("plain"));
  ASSERT_EQ(::stat(target.c_str(), &made) + ::stat(folder.path("plain").c_str(), &plain), 0);
  EXPECT_EQ(made.st_mode, plain.st_mode);  // readable to others, where folders are
}

TEST(AtomicFolder, ATargetThatExistsIsRefusedAndKept) {
  const TempFolder folder;
  const std::string target = folder.path("model");
  AtomicFolder first(target, "the model"), second(target, "the model");
  EXPECT_NE(first.path(), second.path());
  write_text_file_atomically(first.path() + "/x", "first");
  write_text_file_atomically(second.path() + "/x", "second");
  second.commit();
  const auto refused =
      ThrowsMessage<Error>(target + " exists already; save the model as another folder");
  EXPECT_THAT([&] { first.commit(); }, refused);
  EXPECT_THAT([&] { AtomicFolder third(target, "the model"); }, refused);
  EXPECT_EQ(read_text_file(target + "/x"), "second");
  EXPECT_THAT([] { AtomicFolder none("", "the model"); },
              ThrowsMessage<Error>(HasSubstr("the folder to save the model in has no name")));
  EXPECT_THAT([] { AtomicFolder root("/", "the model"); },
              ThrowsMessage<Error>(HasSubstr("cannot be a new folder")));
  const std::string file = folder.write("file", "");
  EXPECT_THAT([&] { AtomicFolder in_a_file(file + "/model", "the model"); },
              ThrowsMessage<Error>(HasSubstr("Not a directory")));
}

TEST(AtomicFolder, RemovesWhatAKilledProcessLeftAndNothingElse) {
  const TempFolder folder;
  folder.write(".model.new-0123456789abcdef/x", "half");  // no process has locked it
  folder.write(".model.new-mine/x", "");
  folder.write(".model.new-0123456789abcdeX/x", "");
  folder.write(".other.new-0123456789abcdef/x", "");
  folder.write("model.partial/x", "");
  const std::string target = folder.path("model");
  {
    AtomicFolder first(target, "the model");
    const std::string kept = folder.path(fs::path(first.path()).filename());
    const AtomicFolder second(target, "the model");
    EXPECT_TRUE(fs::exists(kept));
    first.commit();
  }
  EXPECT_THAT(names_of(folder.path()),
              ElementsAre(".model.new-0123456789abcdeX", ".model.new-mine",
                          ".other.new-0123456789abcdef", "model", "model.partial"));
}

TEST(AtomicFolder, ThreadsThatWriteTheSameNameDoNotMeet) {
  const TempFolder folder;
  const std::string target = folder.path("model");
  std::atomic<int> committed = 0, refused = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        try {
          AtomicFolder made(target, "the model");
          for (const char* name : {"/x", "/y"})
            write_text_file_atomically(made.path() + name, std::to_string(i));
          made.commit();
          ++committed;
        } catch (const Error&) {
          ++refused;
        }
      });
  }
  EXPECT_EQ(committed, 1);
  EXPECT_EQ(refused, 7);
  EXPECT_EQ(read_text_file(target + "/x"), read_text_file(target + "/y"));
  EXPECT_THAT(names_of(folder.path()), ElementsAre("model"));
}

}  // namespace
}  // namespace emblem
