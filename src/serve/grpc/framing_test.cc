#include "serve/grpc/framing.h"

#include <gmock/gmock.h>

#include <random>

#include "emblem/error.h"
#include "serve/grpc/compression.h"
#include "serve/grpc/status.h"

namespace emblem {
namespace {

using testing::HasSubstr;

std::string framed(const std::string& message, char flag = 0) {
  std::string bytes(kGrpcPrefixBytes, '\0');
  bytes += message;
  write_prefix(bytes, flag == 1);
  return bytes;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const GrpcMessage& message) {
  return {reinterpret_cast<const char*>(message.bytes().data()), message.size()};
}

GrpcMessage message_of(const std::string& text) {
  GrpcMessage message;
  message.reserve(text.size());
  message.append(bytes_of(text));
  return message;
}

// What `act` throws, with its code.
template <class Act>
std::pair<ErrorCode, std::string> framing_refusal(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInternal, "nothing is thrown"};
}

TEST(GrpcFraming, FindsAllMessagesHoweverTheirBytesArrive) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> messages(random() % 6);
    std::string stream;
    for (std::string& message : messages) {
      const size_t most = random() % 5 == 0 ? 300'000 : 20;
      message.resize(random() % (most + 1));
      for (char& c : message) c = static_cast<char>(random());
      stream += framed(message, static_cast<char>(random() % 2));
    }
    MemoryBudget budget(1 << 22);
    GrpcFrameReader reader(1 << 20, &budget);
    std::vector<std::string> found;
    const size_t most_at_once = random() % 3 == 0 ? 3 : 100'000;
    for (size_t at = 0; at < stream.size();) {
      const size_t some = std::min<size_t>(stream.size() - at, 1 + random() % most_at_once);
      auto part = bytes_of(stream).subspan(at, some);
      while (!part.empty()) {
        if (auto message = reader.read(part)) found.push_back(text_of(*message));
      }
      at += some;
    }
    EXPECT_EQ(found, messages);
    EXPECT_FALSE(reader.is_inside());
    EXPECT_EQ(budget.used(), 0u);
  }
}

TEST(GrpcFraming, RefusesALargeMessageAtItsPrefix) {
  MemoryBudget budget(1 << 20);
  GrpcFrameReader reader(1000, &budget);
  const std::string prefix("\0\0\0\3\351", 5);  // 1001
  auto bytes = bytes_of(prefix);
  const auto [code, text] = framing_refusal([&] { reader.read(bytes); });
  EXPECT_EQ(code, ErrorCode::kTooLarge);
  EXPECT_THAT(text, HasSubstr("1001 bytes, but the server takes at most 1000"));
}

TEST(GrpcFraming, TakesMemoryForWhatArrivesNotForWhatIsClaimed) {
  MemoryBudget budget(size_t{1} << 30);
  GrpcFrameReader reader(size_t{1} << 30, &budget);
  std::string half("\0\x3f\xff\xff\xff", 5);  // 1 GiB
  half += std::string(100, 'x');
  auto bytes = bytes_of(half);
  EXPECT_FALSE(reader.read(bytes));
  EXPECT_LE(budget.used(), size_t{1} << 17);
}

TEST(GrpcFraming, RefusesMessagesAboveTheBudget) {
  MemoryBudget budget(100'000);
  GrpcFrameReader reader(1 << 20, &budget);
  const std::string message = framed(std::string(200'000, 'x'));
  auto bytes = bytes_of(message);
  EXPECT_EQ(framing_refusal([&] { reader.read(bytes); }).first, ErrorCode::kTooLarge);
}

TEST(GrpcFraming, RefusesABadPrefix) {
  GrpcFrameReader reader(1000, nullptr);
  const std::string prefix("\2\0\0\0\0", 5);
  auto bytes = bytes_of(prefix);
  EXPECT_EQ(framing_refusal([&] { reader.read(bytes); }).first, ErrorCode::kInvalidArgument);
}

GrpcMessage expand(const std::string& compressed, ContentEncoding encoding, size_t max_bytes,
                   MemoryBudget* budget) {
  GrpcMessage message = message_of(compressed);
  message.is_compressed = true;
  return GrpcDecoding(std::move(message), encoding, max_bytes, budget).take();
}

TEST(GrpcCompression, ExpandsWhatItCompresses) {
  for (const auto encoding : {ContentEncoding::kGzip, ContentEncoding::kDeflate}) {
    for (const size_t size : {size_t{2000}, size_t{1'000'000}}) {
      const std::string text(size, 'x');
      std::string compressed = framed(text);
      compress(compressed, encoding);
      ASSERT_LT(compressed.size(), text.size() / 10);
      EXPECT_EQ(compressed[0], 1);
      const std::string message = compressed.substr(kGrpcPrefixBytes);
      EXPECT_EQ(text_of(expand(message, encoding, size, nullptr)), text);
      const auto [code, error] =
          framing_refusal([&] { expand(message, encoding, size - 1, nullptr); });
      EXPECT_EQ(code, ErrorCode::kTooLarge);
      MemoryBudget small(size / 2);
      EXPECT_EQ(framing_refusal([&] { expand(message, encoding, size, &small); }).first,
                ErrorCode::kTooLarge);
      EXPECT_EQ(small.used(), 0u);
      MemoryBudget budget(4 * size);
      MemoryBudget::Lease others(budget);
      others.grow(4 * size - size / 2);
      EXPECT_EQ(framing_refusal([&] { expand(message, encoding, size, &budget); }).first,
                ErrorCode::kUnavailable);
      EXPECT_EQ(budget.used(), others.bytes());
    }
  }
}

TEST(GrpcCompression, RefusesWhatIsNotCompressed) {
  std::string compressed = framed(std::string(2000, 'x'));
  compress(compressed, ContentEncoding::kGzip);
  const std::string text = compressed.substr(kGrpcPrefixBytes);
  for (const std::string& bad : {std::string(), text.substr(0, text.size() - 1), text + "x",
                                 std::string("nonsense"), std::string(100, '\xff')}) {
    EXPECT_EQ(framing_refusal([&] { expand(bad, ContentEncoding::kGzip, 10'000, nullptr); }).first,
              ErrorCode::kInvalidArgument)
        << bad.size();
  }
}

TEST(GrpcCompression, ALargeMessageIsExpandedInManySteps) {
  std::string compressed = framed(std::string(20'000'000, 'x'));
  compress(compressed, ContentEncoding::kGzip);
  GrpcMessage message = message_of(compressed.substr(kGrpcPrefixBytes));
  message.is_compressed = true;
  GrpcDecoding decoding(std::move(message), ContentEncoding::kGzip, 1 << 26, nullptr);
  EXPECT_TRUE(decoding.is_long());
  int steps = 1;
  while (decoding.step()) ++steps;
  EXPECT_GE(steps, 20);
  EXPECT_EQ(decoding.take().size(), 20'000'000u);
}

TEST(GrpcCompression, LeavesWhatDoesNotBecomeSmaller) {
  std::string message = framed("abc");
  const std::string before = message;
  compress(message, ContentEncoding::kGzip);
  EXPECT_EQ(message, before);
}

TEST(GrpcCompression, ReadsListsOfEncodings) {
  EXPECT_TRUE(accepts("identity, deflate, gzip", ContentEncoding::kGzip));
  EXPECT_TRUE(accepts("gzip", ContentEncoding::kGzip));
  EXPECT_FALSE(accepts("gzippy,deflate", ContentEncoding::kGzip));
  EXPECT_FALSE(accepts("", ContentEncoding::kGzip));
}

TEST(GrpcStatus, EncodesMessagesForHeaders) {
  EXPECT_EQ(percent_encoded("plain text, 100%"), "plain text, 100%25");
  EXPECT_EQ(percent_encoded("a\nb\xc3\xa4\x7f"), "a%0Ab%C3%A4%7F");
}

TEST(GrpcStatus, ReadsTimeouts) {
  using namespace std::chrono;  // NOLINT: the units
  EXPECT_EQ(parse_grpc_timeout("100m"), milliseconds(100));
  EXPECT_EQ(parse_grpc_timeout("1H"), hours(1));
  EXPECT_EQ(parse_grpc_timeout("7n"), std::chrono::nanoseconds(7));
  EXPECT_EQ(parse_grpc_timeout("99999999S"), seconds(99999999));
  EXPECT_GT(parse_grpc_timeout("99999999H"), hours(24 * 365 * 100));
  for (const char* bad : {"", "1", "S", "1x", "-1S", "+1S", "123456789S", "1 S", "1.5S"})
    EXPECT_EQ(parse_grpc_timeout(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace emblem
