#include "core/files/byte_io.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string example() {
  ByteWriter writer;
  writer.add(int32_t{-7}).add(2.5).add_text("ab").add_text("");
  writer.add_all(std::vector<uint16_t>{1, 2, 3});
  return std::move(writer).bytes();
}

void read_example(std::string_view bytes) {
  ByteReader reader(bytes, "an example");
  int32_t number = 0;
  double real = 0;
  std::vector<uint16_t> values;
  reader.read(number);
  reader.read(real);
  EXPECT_EQ(reader.read_text(), "ab");
  EXPECT_EQ(reader.read_text(), "");
  reader.read_all(values);
  reader.end();
  EXPECT_EQ(number, -7);
  EXPECT_EQ(real, 2.5);
  EXPECT_THAT(values, testing::ElementsAre(1, 2, 3));
}

TEST(ByteIo, ReadsWhatWasWritten) {
  read_example(example());
  EXPECT_EQ(example().size(), 4 + 8 + (8 + 2) + 8 + (8 + 3 * 2u)) << "no padding";
}

TEST(ByteIo, EveryOtherLengthIsRefused) {
  const std::string bytes = example();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THAT([&] { read_example(std::string_view(bytes).substr(0, size)); },
                ThrowsMessage<Error>(HasSubstr("not an example: too short")));
  EXPECT_THAT([&] { read_example(bytes + "x"); },
              ThrowsMessage<Error>(HasSubstr("not an example: too long")));
}

// Without taking memory for it.
TEST(ByteIo, ACountBeyondTheBytesIsRefused) {
  ByteWriter writer;
  writer.add(~uint64_t{0}).add(1.0);
  std::vector<double> values;
  EXPECT_THROW(ByteReader(writer.bytes(), "values").read_all(values), Error);
}

}  // namespace
}  // namespace emblem
