#include "core/files/inner_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;

// Every form in which a name leads out of a folder, or is another file for another program.
const std::pair<std::string, std::string> kEscapes[] = {
    {"", "is empty"},
    {"/", "begins with"},
    {"/etc/passwd", "begins with"},
    {"//host/share", "begins with"},
    {".", "contains \".\""},
    {"..", "contains \"..\""},
    {"../x", "contains \"..\""},
    {"a/../../x", "contains \"..\""},
    {"a/..", "contains \"..\""},
    {"a/./b", "contains \".\""},
    {"./a", "contains \".\""},
    {"a//b", "empty name"},
    {"a/", "empty name"},
    {"..\\x", "contains \"\\\""},
    {"a\\..\\x", "contains \"\\\""},
    {"C:\\x", "contains \"\\\""},
    {std::string("a\0b", 3), "control character"},
    {std::string("a/..\0/x", 7), "control character"},
    {"a\nb", "control character"},
    {"a\x7f", "control character"},
    {"tables/" + std::string(256, 'x'), "name of 256 bytes"},
    {[] {
       std::string deep = "x";
       while (deep.size() <= 1024) deep += "/x";
       return deep;
     }(),
     "bytes"},
};

TEST(InnerPath, EveryNameThatLeadsOutOfTheFolderIsRefused) {
  for (const auto& [name, why] : kEscapes) {
    EXPECT_THAT(inner_path_problem(name), HasSubstr(why)) << name;
    const std::string& outside = name;
    EXPECT_THAT([&] { path_below("/tmp/folder", outside); },
                testing::ThrowsMessage<Error>(HasSubstr("does not name a file in /tmp/folder")))
        << name;
    EXPECT_NE(file_name_problem(name), "") << name;
  }
}

TEST(InnerPath, OtherNamesArePathsBelowTheFolder) {
  for (const char* name : {"a", "a/b", "...", "..a", "a..", "a/..b/c", ".hidden",
                           "day=1/part 0.csv", "~", "a:b", "\xc3\xbc/\xe6\x97\xa5"}) {
    EXPECT_EQ(inner_path_problem(name), "") << name;
    EXPECT_EQ(path_below("/tmp/f", name), std::string("/tmp/f/") + name);
  }
  EXPECT_EQ(inner_path_problem(std::string(255, 'x')), "");
}

TEST(InnerPath, NamesOfFilesHaveNoSlashAndALongest) {
  EXPECT_EQ(file_name_problem("a.b"), "");
  EXPECT_EQ(file_name_problem("a/b"), "contains \"/\"");
  EXPECT_EQ(file_name_problem("abc", 2), "has 3 bytes");
}

TEST(InnerPath, LinksBelowTheFolderAreRefusedWhereThatIsAskedFor) {
  const TempFolder folder;
  namespace fs = std::filesystem;
  fs::create_directories(folder.path("inside/deep"));
  fs::create_directory_symlink("/tmp", folder.path("inside/deep/out"));
  fs::create_directory_symlink(folder.path("inside"), folder.path("link"));
  fs::create_symlink("nowhere", folder.path("inside/dangling"));
  const std::string inside = folder.path("inside");
  EXPECT_EQ(path_below(inside, "deep/out/x"), inside + "/deep/out/x");
  for (const char* name : {"deep/out/x", "deep/out", "dangling"})
    EXPECT_THAT([&] { path_below(inside, name, Links::kRefuse); },
                testing::ThrowsMessage<Error>(HasSubstr("is a symbolic link")))
        << name;
  EXPECT_EQ(path_below(inside, "deep/new/x", Links::kRefuse), inside + "/deep/new/x");
  EXPECT_EQ(path_below(folder.path("link"), "deep/x", Links::kRefuse),
            folder.path("link") + "/deep/x");
}

}  // namespace
}  // namespace emblem
