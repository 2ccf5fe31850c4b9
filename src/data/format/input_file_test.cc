#include "data/format/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::string bytes_of(int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 7 + i / 4096);
  return bytes;
}

std::string read(const InputFile& file, int64_t offset, int64_t count) {
  std::string into(static_cast<size_t>(count), '\0');
  file.read(offset, count, into.data());
  return into;
}

// Where the file system refuses, these test that nothing changes then.
TEST(InputFile, DirectReadsGiveTheSameBytesAtAnyPlace) {
  const TempFolder folder;
  const std::string bytes = bytes_of(3 * (1 << 20) + 12345);
  InputFile file(folder.write("data.bin", bytes));
  file.read_directly();
  const auto size = static_cast<int64_t>(bytes.size());
  for (const int64_t offset : {int64_t{0}, int64_t{1}, int64_t{4095}, int64_t{4096}, size - 5000}) {
    for (const int64_t count : {int64_t{1}, int64_t{160}, int64_t{4096}, int64_t{5000}}) {
      EXPECT_EQ(read(file, offset, count), bytes.substr(offset, count)) << offset << " " << count;
    }
  }
  EXPECT_EQ(read(file, 0, size), bytes);
  EXPECT_EQ(read(file, 77, size - 77), bytes.substr(77));
}

TEST(InputFile, AFileThatBecameShorterIsAnErrorInBothWays) {
  const TempFolder folder;
  const std::string path = folder.write("data.bin", bytes_of(10000));
  InputFile cached(path), direct(path);
  direct.read_directly();
  std::filesystem::resize_file(path, 9000);
  for (const InputFile* file : {&cached, &direct}) {
    EXPECT_THAT([&] { read(*file, 5000, 5000); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("it ends at byte 9000")));
  }
}

}  // namespace
}  // namespace emblem
