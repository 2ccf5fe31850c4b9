#include "core/files/open_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "core/files/file_descriptor.h"

namespace emblem {
namespace {

TEST(OpenFiles, TheLimitIsRaisedToWhatTheSystemAllows) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  raise_open_file_limit();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(OpenFiles, AreCounted) {
  const size_t before = open_files();
  EXPECT_GE(before, 3u);
  const FileDescriptor one(open("/dev/null", O_RDONLY));
  const FileDescriptor two(open("/dev/null", O_RDONLY));
  EXPECT_EQ(open_files(), before + 2);
  EXPECT_GT(open_file_limit(), open_files());
}

}  // namespace
}  // namespace emblem
