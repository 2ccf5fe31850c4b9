#include "core/files/file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "core/files/temp_folder_test.h"
#include "core/math/checksum.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

class FileTest : public testing::Test {
 protected:
  std::string path(const std::string& name = "") const { return folder_.path(name); }
  std::string make(const std::string& name, const std::string& text = "x") const {
    return folder_.write(name, text);
  }
  template <class Action>
  static std::string message_of(Action&& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const TempFolder folder_;
};

TEST_F(FileTest, AMappedFileHoldsTheBytesOfTheFile) {
  MappedFile file(make("a", "hello"));
  EXPECT_EQ(std::string(file.bytes().begin(), file.bytes().end()), "hello");
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(moved.path(), path("a"));
}

TEST_F(FileTest, AnEmptyFileMapsToAnEmptySpan) {
  EXPECT_TRUE(MappedFile(make("a", "")).bytes().empty());
}

TEST_F(FileTest, ReadingWhatIsNotThereNamesThePath) {
  const std::string expected = "cannot read " + path("gone") + ": No such file or directory";
  EXPECT_EQ(message_of([&] { MappedFile file(path("gone")); }), expected);
  EXPECT_EQ(message_of([&] { read_text_file(path("gone")); }), expected);
  EXPECT_EQ(message_of([&] { read_text_file(path()); }),
            "cannot read " + path() + ": Is a directory");
}

TEST_F(FileTest, ReadsFilesWhoseSizeIsNotKnownInAdvance) {
  EXPECT_THAT(read_text_file("/proc/self/status"), HasSubstr("VmRSS"));
}

TEST_F(FileTest, AWriterStoresPiecesOfAnySizeAndKnowsTheirChecksum) {
  std::string expected;
  FileWriter writer(path("a"));
  for (const size_t size : {0u, 1u, 1000u, 1u << 20, 3u, (1u << 20) - 1, 3u << 20, 17u}) {
    const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
    writer.write(piece);
    expected += piece;
  }
  writer.finish();
  Checksum checksum;
  checksum.add(expected.data(), expected.size());
  EXPECT_EQ(writer.bytes_written(), expected.size());
  EXPECT_EQ(writer.checksum(), checksum.value());
  EXPECT_EQ(read_text_file(path("a")), expected);
}

TEST_F(FileTest, AFullDiskIsAClearErrorThatSaysHowFarItCame) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  FileWriter small("/dev/full");
  small.write("abc");
  EXPECT_EQ(message_of([&] { small.finish(); }),
            "cannot write /dev/full: No space left on device (0 bytes of 3 written so far); free "
            "some space and run "
            "again");
  EXPECT_EQ(message_of([&] { small.write("more"); }),
            "cannot write /dev/full: it is already closed");

  FileWriter large("/dev/full");
  const std::string megabytes(3 << 20, 'x');
  try {
    large.write(megabytes);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("(0 bytes of 3145728 written so far)"));
  }
}

TEST_F(FileTest, AWriterThatIsNotFinishedLeavesAFileAndNeverThrows) {
  {
    FileWriter writer(path("a"));
    writer.write("abc");
  }
  EXPECT_TRUE(fs::exists(path("a")));
}

TEST_F(FileTest, WritingIntoAFolderThatIsNotThereNamesThePath) {
  EXPECT_EQ(message_of([&] { FileWriter writer(path("gone/a")); }),
            "cannot write " + path("gone/a") + ": No such file or directory");
}

TEST_F(FileTest, AnAtomicWriteReplacesTheTextAndLeavesNothingElse) {
  make("a", "old");
  write_text_file_atomically(path("a"), "new");
  EXPECT_EQ(read_text_file(path("a")), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(path()), fs::directory_iterator()), 1);
}

TEST_F(FileTest, WhatIsNoFileIsWrittenToAndStays) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = read_text_file(path("pipe")); });
  write_text_file_atomically(path("pipe"), "through");
  reader.join();
  EXPECT_EQ(read, "through");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  fs::create_symlink("/dev/full", path("full"));  // not the device itself, should this go wrong
  EXPECT_THROW(write_text_file_atomically(path("full"), "new"), Error);
  EXPECT_TRUE(fs::is_symlink(path("full")));
}

TEST_F(FileTest, AFailedAtomicWriteKeepsWhatWasThere) {
  fs::create_directory(path("a"));
  make("a/inside", "kept");
  EXPECT_THROW(write_text_file_atomically(path("a"), "new"), Error);
  EXPECT_EQ(read_text_file(path("a/inside")), "kept");
  EXPECT_EQ(std::distance(fs::directory_iterator(path()), fs::directory_iterator()), 1);
}

TEST_F(FileTest, ExpandsFilesFoldersAndGlobsInOrder) {
  fs::create_directories(path("days/nested"));
  make("days/b"), make("days/a"), make("days/.hidden"), make("days/nested/c");
  make("z"), make("part-10"), make("part-2"), make(".part-3");
  EXPECT_THAT(expand_paths(path("z")), ElementsAre(path("z")));
  make("days/_SUCCESS"), make("spark/day=2/x"), make("spark/day=1/hour=3/y"),
      make("spark/_temporary/z");
  EXPECT_THAT(expand_paths(path("spark")),
              ElementsAre(path("spark/day=1/hour=3/y"), path("spark/day=2/x")));
  EXPECT_THAT(expand_paths(path("days")), ElementsAre(path("days/a"), path("days/b")));
  EXPECT_THAT(expand_paths(path("part-*")), ElementsAre(path("part-10"), path("part-2")));
  EXPECT_THAT(expand_paths(path("z") + " , " + path("part-?") + "," + path("days")),
              ElementsAre(path("z"), path("part-2"), path("days/a"), path("days/b")));
  EXPECT_THAT(expand_paths(path("day*")), ElementsAre(path("days/a"), path("days/b")));
}

TEST_F(FileTest, ALinkToNothingInAFolderIsAnError) {
  make("days/a");
  fs::create_symlink(path("days/a"), path("days/b"));
  EXPECT_THAT(expand_paths(path("days")), ElementsAre(path("days/a"), path("days/b")));
  fs::create_symlink("/nonexistent/x", path("days/c"));
  EXPECT_THAT(
      [&] { expand_paths(path("days")); },
      ThrowsMessage<Error>(path("days/c") +
                           " is a link to nothing; bring back what it leads to, or remove it"));
}

TEST_F(FileTest, ANameWithGlobCharactersThatExistsIsThatFile) {
  EXPECT_THAT(expand_paths(make("a[1]")), ElementsAre(path("a[1]")));
}

TEST_F(FileTest, AListOfPathsBecomesIndependentOfTheCurrentFolder) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(absolute_paths("days, ./part-*,/data/../z/ ,"), here + "/days," + here + "/part-*,/z");
  EXPECT_EQ(absolute_paths(""), "");
}

TEST_F(FileTest, AnItemThatMatchesNothingIsAnError) {
  make("a");
  fs::create_directory(path("empty"));
  EXPECT_EQ(message_of([&] { expand_paths(path("a") + "," + path("b")); }),
            "cannot read " + path("b") + ": No such file or directory");
  EXPECT_EQ(message_of([&] { expand_paths(path("*.tsv")); }), "no file matches " + path("*.tsv"));
  EXPECT_EQ(message_of([&] { expand_paths(path("empty")); }),
            "the folder " + path("empty") + " has no files");
  EXPECT_THAT(message_of([&] { expand_paths(" , "); }),
              StartsWith("a list of input files is empty"));
}

TEST_F(FileTest, SyncingAFolderThatIsNotThereIsAnError) {
  sync_directory(path());
  EXPECT_EQ(message_of([&] { sync_directory(path("gone")); }),
            "cannot sync the folder " + path("gone") + ": No such file or directory");
}

TEST_F(FileTest, FoldersAreMadeRenamedAndRemoved) {
  make_folders(path("a/b/c"));
  make_folders(path("a/b/c"));
  rename_path(path("a/b"), path("d"));
  EXPECT_TRUE(fs::is_directory(path("d/c")));
  remove_path(path("d"));
  remove_path(path("d"));
  EXPECT_FALSE(fs::exists(path("d")));
}

TEST_F(FileTest, AFolderThatCannotBeMadeOrRenamedIsNamedInOneLine) {
  make("file");
  EXPECT_EQ(message_of([&] { make_folders(path("file/a")); }),
            cat("cannot make the folder ", path("file/a"), ": Not a directory"));
  EXPECT_EQ(message_of([&] { make_folders(path("file")); }),
            cat("cannot make the folder ", path("file"), ": Not a directory"));
  EXPECT_EQ(message_of([&] { rename_path(path("none"), path("b")); }),
            cat("cannot rename ", path("none"), " to ", path("b"), ": No such file or directory"));
  EXPECT_EQ(message_of([&] { remove_path(path("file/a")); }),
            cat("cannot remove ", path("file/a"), ": Not a directory"));
}

}  // namespace
}  // namespace emblem
