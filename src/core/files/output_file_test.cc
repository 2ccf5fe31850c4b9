#include "core/files/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class OutputFileTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  void make(const std::string& name, const std::string& text) { std::ofstream(path(name)) << text; }
  void write(const std::string& to, const std::string& text) {
    OutputFile file(to);
    file.write(text);
    file.finish();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path("")))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  TempFolder folder_;
};

TEST_F(OutputFileTest, ACheckFindsFilesThatCannotBeWrittenAndChangesNothing) {
  make("old", "text");
  fs::create_directory(path("folder"));
  for (const std::string& fine : {path("new"), path("old"), std::string("-"),
                                  std::string("emblem_new_file"), std::string("/dev/null")})
    EXPECT_NO_THROW(check_output(fine)) << fine;
  EXPECT_THAT([&] { check_output(path("none/x")); },
              ThrowsMessage<Error>(HasSubstr("No such file or directory")));
  EXPECT_THAT([&] { check_output(path("old/x")); },
              ThrowsMessage<Error>(HasSubstr("Not a directory")));
  EXPECT_THAT([&] { check_output(path("folder")); },
              ThrowsMessage<Error>(HasSubstr("Is a directory")));
  EXPECT_THAT(names(), ElementsAre("folder", "old"));
  EXPECT_EQ(read_text_file(path("old")), "text");
}

TEST_F(OutputFileTest, ALinkStaysAndWhatItPointsToIsReplaced) {
  make("target", "old");
  fs::create_symlink("target", path("link"));
  write(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_FALSE(fs::is_symlink(path("target")));
  EXPECT_EQ(read_text_file(path("target")), "new");
  EXPECT_THAT(names(), ElementsAre("link", "target"));
}

TEST_F(OutputFileTest, ALinkToAFileThatDoesNotExistMakesIt) {
  fs::create_directory(path("other"));
  fs::create_symlink("other/made", path("link"));
  write(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_text_file(path("other/made")), "new");
}

TEST_F(OutputFileTest, LinksInACircleAreAnError) {
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  EXPECT_THAT([&] { write(path("a"), "x"); },
              ThrowsMessage<Error>(HasSubstr("Too many levels of symbolic links")));
}

TEST_F(OutputFileTest, APipeIsWrittenToAndStays) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = read_text_file(path("pipe")); });
  write(path("pipe"), "through");
  reader.join();
  EXPECT_EQ(read, "through");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_THAT(names(), ElementsAre("pipe"));
}

TEST_F(OutputFileTest, ADeviceIsWrittenToAndStays) {
  write("/dev/null", "nothing");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

// Points standard output to a file for its lifetime.
class Redirected {
 public:
  explicit Redirected(const std::string& path) : saved_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(file, STDOUT_FILENO);
    ::close(file);
  }
  ~Redirected() {
    ::dup2(saved_, STDOUT_FILENO);
    ::close(saved_);
  }

 private:
  int saved_;
};

TEST_F(OutputFileTest, StandardOutputIsWrittenAfterWhatIsThere) {
  for (const char* name : {"-", "/dev/stdout", "/dev/fd/1"}) {
    {
      const Redirected redirected(path("out"));
      std::printf("before ");
      write(name, "content");
    }
    EXPECT_EQ(read_text_file(path("out")), "before content") << name;
  }
  EXPECT_THAT(names(), ElementsAre("out"));
}

TEST_F(OutputFileTest, ANumberTooLargeForADescriptorIsAnError) {
  EXPECT_THAT([] { OutputFile file("/dev/fd/99999999999"); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("cannot write /dev/fd/99999999999: No such file")));
}

TEST_F(OutputFileTest, WithoutFinishNothingIsReplacedAndNothingRemains) {
  make("a", "old");
  {
    OutputFile file(path("a"));
    file.write("new");
  }
  EXPECT_EQ(read_text_file(path("a")), "old");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(OutputFileTest, AReplacedFileKeepsItsMode) {
  make("a", "old");
  fs::permissions(path("a"), fs::perms::owner_read | fs::perms::owner_write);
  write(path("a"), "new");
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(OutputFileTest, AFolderIsAnError) {
  EXPECT_THAT([&] { write(path(""), "x"); }, ThrowsMessage<Error>(HasSubstr("Is a directory")));
}

TEST_F(OutputFileTest, AnInputIsRecognizedByAnyName) {
  make("data", "rows");
  fs::create_symlink("data", path("link"));
  fs::create_hard_link(path("data"), path("twin"));
  for (const char* name : {"data", "link", "twin"}) {
    EXPECT_THAT([&] { refuse_input_as_output("--out", path(name), path("data")); },
                ThrowsMessage<Error>(HasSubstr("is also the input")))
        << name;
  }
  EXPECT_NO_THROW(refuse_input_as_output("--out", path("new"), path("data")));
  EXPECT_NO_THROW(refuse_input_as_output("--out", "-", path("data")));
}

TEST_F(OutputFileTest, AFileThatWouldBeReadAsDataNextTimeIsRefused) {
  fs::create_directory(path("in"));
  make("in/a.csv", "rows");
  fs::create_symlink("in/b.csv", path("link"));
  const auto refuses = [&](const std::string& inputs) {
    return ThrowsMessage<Error>(HasSubstr("is among the input " + inputs));
  };
  const std::string folder = path("in"), pattern = path("in/*.csv");
  for (const std::string& inputs : {folder, pattern}) {
    for (const char* output : {"in/b.csv", "link"})
      EXPECT_THAT([&] { refuse_input_as_output("--out", path(output), inputs); }, refuses(inputs));
    EXPECT_NO_THROW(refuse_input_as_output("--out", path("b.csv"), inputs));
    EXPECT_NO_THROW(refuse_input_as_output("--out", path("in/.b.csv"), inputs)) << "hidden";
    EXPECT_NO_THROW(refuse_input_as_output("--out", "", inputs));
  }
  EXPECT_NO_THROW(refuse_input_as_output("--out", path("in/b.json"), pattern));
  EXPECT_NO_THROW(refuse_input_as_output("--out", path("in/b.csv"), path("in/a.csv")));
}

TEST_F(OutputFileTest, AFolderThatIsAnInputAsAWholeIsNotWrittenTo) {
  fs::create_directories(path("checkpoint/tables"));
  fs::create_symlink("checkpoint", path("link"));
  for (const char* output : {"checkpoint/a", "checkpoint/tables/a", "link/a"})
    EXPECT_THAT([&] { refuse_output_in("--out", path(output), path("checkpoint")); },
                ThrowsMessage<Error>(HasSubstr("which is only read")))
        << output;
  for (const std::string& output :
       {path("a"), path("checkpoint2"), std::string("-"), std::string()})
    EXPECT_NO_THROW(refuse_output_in("--out", output, path("checkpoint"))) << output;
}

TEST_F(OutputFileTest, AnEmptyNameIsAnError) {
  EXPECT_THAT([&] { write("", "x"); }, ThrowsMessage<Error>(HasSubstr("is empty")));
}

}  // namespace
}  // namespace emblem
