#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/files/temp_folder_test.h"
#include "core/math/checksum.h"
#include "core/math/random.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

class SafetensorsTest : public testing::Test {
 protected:
  // A file with this header and `data_bytes` bytes after it.
  void write_raw(const std::string& header, size_t data_bytes) {
    const uint64_t length = header.size();
    FileWriter file(path_);
    file.write(&length, sizeof length);
    file.write(header);
    file.write(std::string(data_bytes, '\1'));
    file.finish();
  }
  auto opening() {
    return [this] { SafetensorsFile{path_}; };
  }
  template <class T>
  std::vector<T> read(const SafetensorsFile& file, const std::string& name) {
    std::vector<T> values(file.find(name).elements());
    file.read<T>(name, values);
    return values;
  }

  const TempFolder folder_;
  const std::string path_ = folder_.path("dense.safetensors");
};

const std::vector<float> kMatrix = {1, 2, 3, 4, 5, 6};
const std::vector<float> kOdd = {0.5f};
const std::vector<int64_t> kCounts = {-1, int64_t{1} << 62};
const std::vector<uint64_t> kState = {~uint64_t{0}};

std::vector<TensorRef> some_tensors() {
  return {TensorRef::of<float>("mlp/w", {2, 3}, kMatrix), TensorRef::of<float>("a", {1}, kOdd),
          TensorRef::of<int64_t>("counts", {2}, kCounts),
          TensorRef::of<uint64_t>("state", {}, kState), TensorRef::of<float>("empty", {0, 4}, {})};
}

TEST_F(SafetensorsTest, GivesBackWhatWasWritten) {
  write_safetensors(path_, some_tensors(), {{"step", "17"}, {"quote", "\"\n"}});
  const SafetensorsFile file(path_);
  EXPECT_THAT(read<float>(file, "mlp/w"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(file.find("mlp/w").shape, ElementsAre(2, 3));
  EXPECT_EQ(read<float>(file, "a"), kOdd);
  EXPECT_EQ(read<int64_t>(file, "counts"), kCounts);
  EXPECT_EQ(read<uint64_t>(file, "state"), kState);
  EXPECT_TRUE(file.find("state").shape.empty());
  EXPECT_THAT(file.find("empty").shape, ElementsAre(0, 4));
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("quote", "\"\n"), Pair("step", "17")));
  EXPECT_EQ(file.tensors().size(), 5u);
}

TEST_F(SafetensorsTest, AFileWithoutTensorsIsValid) {
  write_safetensors(path_, {});
  EXPECT_TRUE(SafetensorsFile(path_).tensors().empty());
}

TEST_F(SafetensorsTest, WritesTheSameBytesWhateverTheOrder) {
  auto tensors = some_tensors();
  const FileFacts first = write_safetensors(path_, tensors);
  const std::string bytes = read_text_file(path_);
  std::reverse(tensors.begin(), tensors.end());
  const FileFacts second = write_safetensors(path_, tensors);
  EXPECT_EQ(read_text_file(path_), bytes);
  EXPECT_EQ(first.checksum, second.checksum);
  Checksum checksum;
  checksum.add(bytes.data(), bytes.size());
  EXPECT_EQ(first.checksum, checksum.value());
  EXPECT_EQ(first.bytes, bytes.size());
}

TEST_F(SafetensorsTest, AlignsTensorsToTheirElements) {
  write_safetensors(path_, some_tensors());
  const std::string bytes = read_text_file(path_);
  uint64_t length;
  std::memcpy(&length, bytes.data(), sizeof length);
  EXPECT_EQ(length % 8, 0u);
  const SafetensorsFile file(path_);
  for (const TensorRef& tensor : file.tensors()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % size_of(tensor.type), 0u) << tensor.name;
  }
}

TEST_F(SafetensorsTest, RefusesToWriteAName) {
  const std::vector<TensorRef> twice = {TensorRef::of<float>("a", {1}, kOdd),
                                        TensorRef::of<float>("a", {1}, kOdd)};
  EXPECT_THAT([&] { write_safetensors(path_, twice); },
              ThrowsMessage<Error>(HasSubstr("two tensors are named a")));
  const std::vector<TensorRef> reserved = {TensorRef::of<float>("__metadata__", {1}, kOdd)};
  EXPECT_THAT([&] { write_safetensors(path_, reserved); },
              ThrowsMessage<Error>(HasSubstr("cannot be named __metadata__")));
}

TEST_F(SafetensorsTest, RefusesValuesThatDoNotFillTheShape) {
  EXPECT_THAT(
      [] {
        TensorRef::of<float>("w", {2, 2}, kMatrix);
      },
      ThrowsMessage<Error>(HasSubstr("tensor w has 6 values, but its shape needs 4")));
}

TEST_F(SafetensorsTest, RefusesToReadAsAnotherTypeOrSize) {
  write_safetensors(path_, some_tensors());
  const SafetensorsFile file(path_);
  std::vector<int64_t> counts(6);
  std::vector<float> few(5);
  EXPECT_THAT([&] { file.read<int64_t>("mlp/w", counts); },
              ThrowsMessage<Error>(HasSubstr("has type F32, but I64 was expected")));
  EXPECT_THAT([&] { file.read<float>("mlp/w", few); },
              ThrowsMessage<Error>(HasSubstr("has 6 elements, but 5 were expected")));
  EXPECT_THAT([&] { file.read<float>("mlp/v", few); },
              ThrowsMessage<Error>(AllOf(HasSubstr("has no tensor mlp/v"), HasSubstr(path_))));
}

struct BadHeader {
  const char* why;
  std::string header;
  size_t data_bytes;
  const char* message;
};

TEST_F(SafetensorsTest, SaysWhatIsWrongWithAFile) {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::vector<BadHeader> cases = {
      {"no JSON", "{nonsense", 0, "its header is not JSON"},
      {"no object", "[1,2]", 0, "not a JSON object"},
      {"truncated data", "{" + a + "}", 7, "its tensors need 8 bytes, but it holds 7 (truncated)"},
      {"trailing data", "{" + a + "}", 9, "(something follows them)"},
      {"same name", "{" + a + "," + a + "}", 8, "its header names a twice"},
      {"overlap", "{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
       "(overlap)"},
      {"gap", "{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16, "(gap)"},
      {"unknown type", R"({"a":{"dtype":"Q7","shape":[2],"data_offsets":[0,8]}})", 8,
       "tensor a has type Q7"},
      {"type of another kind", R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", 8,
       "tensor a has type 7"},
      {"wrong size", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
       "does not fit its type and shape [3]"},
      {"ends before its start", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8,
       "does not fit"},
      {"overflowing shape",
       R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
       "does not fit"},
      {"negative shape", R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8,
       "lacks a valid dtype"},
      {"one offset", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8,
       "lacks a valid dtype"},
      {"no shape", R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8, "lacks a valid dtype"},
      {"not an entry", R"({"a":3})", 0, "the entry of tensor a"},
      {"metadata that is not text", R"({"__metadata__":{"x":1}})", 0,
       "the metadata x is not a string"},
      {"a type that is nested deeply",
       R"({"a":{"dtype":)" + std::string(300'000, '[') + std::string(300'000, ']') +
           R"(,"shape":[2],"data_offsets":[0,8]}})",
       8, "is nested more deeply than tensors are"},
      {"metadata that is not a map", R"({"__metadata__":[]})", 0, "__metadata__ is not an object"},
  };
  for (const BadHeader& bad : cases) {
    SCOPED_TRACE(bad.why);
    write_raw(bad.header, bad.data_bytes);
    EXPECT_THAT(opening(), ThrowsMessage<Error>(AllOf(HasSubstr(path_),
                                                      HasSubstr("not a valid safetensors file"),
                                                      HasSubstr(bad.message))));
  }
}

TEST_F(SafetensorsTest, RejectsHeadersThatDoNotFitTheFile) {
  FileWriter(path_).finish();
  EXPECT_THAT(opening(), ThrowsMessage<Error>(HasSubstr("it has only 0 bytes")));
  const uint64_t huge = ~uint64_t{0}, longer = 100;
  for (const auto& [length, message] :
       {std::pair(huge, "its header length is 18446744073709551615"),
        std::pair(longer, "but only 2 follow (truncated)")}) {
    FileWriter file(path_);
    file.write(&length, sizeof length);
    file.write("{}");
    file.finish();
    EXPECT_THAT(opening(), ThrowsMessage<Error>(HasSubstr(message)));
  }
}

TEST_F(SafetensorsTest, EveryTruncationIsNoticed) {
  for (uint64_t bytes = write_safetensors(path_, some_tensors()).bytes; bytes-- > 0;) {
    std::filesystem::resize_file(path_, bytes);
    EXPECT_THROW(SafetensorsFile{path_}, Error) << bytes << " bytes left";
  }
}

TEST_F(SafetensorsTest, DamagedHeadersNeverCrash) {
  write_safetensors(path_, some_tensors(), {{"k", "v"}});
  const std::string good = read_text_file(path_);
  Random random{9};
  int rejected = 0;
  std::fstream bytes(path_, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](size_t at, char byte) {
    bytes.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const size_t at = random.below(good.size());
    put(at, static_cast<char>(good[at] ^ static_cast<char>(1 + random.below(255))));
    try {
      const SafetensorsFile file(path_);
      for (const TensorRef& tensor : file.tensors()) {
        if (tensor.type == TensorType::kF32) read<float>(file, tensor.name);
      }
    } catch (const Error&) {
      ++rejected;
    }
    put(at, good[at]);
  }
  EXPECT_GT(rejected, 1000);
}

}  // namespace
}  // namespace emblem
