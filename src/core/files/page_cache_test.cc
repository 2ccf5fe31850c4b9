#include "core/files/page_cache.h"

#include <gtest/gtest.h>

#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

TEST(PageCache, AFileThatWasReadIsInMemoryAndCanBeForgotten) {
  const TempFolder folder;
  const std::vector<std::string> files = {folder.write("a", std::string(1 << 20, 'x')),
                                          folder.write("b", std::string(5000, 'y'))};
  fill_page_cache(files);
  EXPECT_EQ(cached_share(files), 1.0);
  drop_page_cache(files);
  if (cached_share(files) == 1.0) GTEST_SKIP() << "this file system keeps files in memory";
  EXPECT_LT(cached_share(files), 0.1);
  fill_page_cache(files);
  EXPECT_EQ(cached_share(files), 1.0);
}

TEST(PageCache, NothingIsAllInMemoryAndWhatIsNotThereIsAnError) {
  const TempFolder folder;
  EXPECT_EQ(cached_share({}), 1.0);
  const std::vector<std::string> empty = {folder.write("empty", "")};
  EXPECT_EQ(cached_share(empty), 1.0);
  const std::vector<std::string> absent = {folder.path("absent")};
  EXPECT_THROW(cached_share(absent), Error);
}

}  // namespace
}  // namespace emblem
