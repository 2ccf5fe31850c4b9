#include "serve/http/message/body.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <cstring>

#include "serve/http/compress_test.h"
#include "serve/http/message/target.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string pattern(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 2654435761u >> 24);
  return text;
}

bool is_aligned(const HttpBody& body, size_t at) {
  return reinterpret_cast<size_t>(body.bytes.data() + at) % 64 == 0;
}

TEST(HttpBodyTest, PutsTheFirstTensorAtAMultipleOf64) {
  const std::string text = pattern(300);
  for (size_t at = 0; at < 200; at += 7) {
    HttpBodyBuffer buffer(at, 300, nullptr);
    buffer.append(std::as_bytes(std::span(text)));
    const HttpBody body = buffer.take();
    EXPECT_TRUE(text_of(body.bytes) == text);
    EXPECT_TRUE(is_aligned(body, at));
  }
}

TEST(HttpBodyTest, GrowsWithWhatArrivesAndNotWithWhatIsAnnounced) {
  constexpr size_t kAnnounced = size_t{64} << 20, kSlack = 128;
  MemoryBudget budget(size_t{1} << 40);
  HttpBodyBuffer buffer(5, kAnnounced, &budget);
  EXPECT_LE(buffer.prepare(kAnnounced).size(), size_t{64} << 10);
  const std::string text = pattern(3'000'000);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view some = rest.substr(0, 100'000);
    buffer.append(std::as_bytes(std::span(some)));
    rest.remove_prefix(some.size());
    EXPECT_LE(budget.used(), std::max(size_t{64} << 10, 2 * buffer.size()) + kSlack);
    EXPECT_GE(budget.used(), buffer.size());
  }
  HttpBody body = buffer.take();
  EXPECT_TRUE(text_of(body.bytes) == text);
  EXPECT_TRUE(is_aligned(body, 5));
  EXPECT_GE(budget.used(), text.size());
  body = {};
  EXPECT_EQ(budget.used(), 0u);
}

TEST(HttpBodyTest, TakesNoMemoryThatTheBudgetDoesNotHave) {
  MemoryBudget budget(100'000);
  HttpBodyBuffer buffer(0, 10'000'000, &budget);
  const std::string text = pattern(65536);
  buffer.append(std::as_bytes(std::span(text)));
  EXPECT_THAT([&] { buffer.prepare(1); }, ThrowsMessage<Error>(HasSubstr("--max-memory")));
  EXPECT_TRUE(text_of(buffer.take().bytes) == text);
  EXPECT_EQ(budget.used(), 0u);
}

TEST(HttpBodyTest, ExpandsOnlyAsFarAsTheBudgetReaches) {
  MemoryBudget budget(1'000'000);
  const std::string bomb = compressed(std::string(100'000'000, '\0'), ContentEncoding::kGzip);
  EXPECT_THAT([&] { expanded(bomb, ContentEncoding::kGzip, size_t{64} << 20, 0, &budget); },
              ThrowsMessage<Error>(HasSubstr("--max-memory")));
  EXPECT_EQ(budget.used(), 0u);
}

TEST(HttpBodyTest, ExpandsGzipAndDeflate) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i);
  for (const auto encoding : {ContentEncoding::kGzip, ContentEncoding::kDeflate}) {
    const std::string packed = compressed(text, encoding);
    const auto body = expanded(packed, encoding, text.size(), 5);
    ASSERT_TRUE(body);
    EXPECT_TRUE(text_of(body->bytes) == text);
    EXPECT_TRUE(is_aligned(*body, 5));
    EXPECT_FALSE(expanded(packed, encoding, text.size() - 1, 0));
  }
}

TEST(HttpBodyTest, ExpandsSeveralGzipMembers) {
  const std::string packed =
      compressed("one ", ContentEncoding::kGzip) + compressed("two", ContentEncoding::kGzip);
  EXPECT_EQ(text_of(expanded(packed, ContentEncoding::kGzip, 100, 0)->bytes), "one two");
}

TEST(HttpBodyTest, StopsAtTheLimitOfWhatABombExpandsTo) {
  // 100 MB in 100 KB.
  const std::string bomb = compressed(std::string(100'000'000, '\0'), ContentEncoding::kGzip);
  ASSERT_LT(bomb.size(), 200'000u);
  EXPECT_FALSE(expanded(bomb, ContentEncoding::kGzip, 1'000'000, 0));
}

TEST(HttpBodyTest, RefusesWhatIsNotCompressedOrCutOff) {
  const std::string packed = compressed("some text that is long enough", ContentEncoding::kGzip);
  const auto refused = [](std::string_view bytes, ContentEncoding encoding, const char* why) {
    EXPECT_THAT([&] { expanded(bytes, encoding, 1000, 0); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused("plain text", ContentEncoding::kGzip, "not what its Content-Encoding says");
  refused(packed, ContentEncoding::kDeflate, "not what its Content-Encoding says");
  refused(packed.substr(0, packed.size() - 1), ContentEncoding::kGzip, "cut off");
  refused(packed.substr(0, 12), ContentEncoding::kGzip, "cut off");
  refused(packed + "x", ContentEncoding::kGzip, "cut off");
  refused(packed + "trailing bytes", ContentEncoding::kGzip, "Content-Encoding");
}

TEST(HttpBodyTest, CompressesBodyAndTensorsTogether) {
  HttpResponse response;
  response.body = std::string(3000, 'a');
  response.tensors = {std::vector<std::byte>(5000, std::byte{7}), {}};
  compress_response(response, ContentEncoding::kGzip, nullptr);
  EXPECT_TRUE(response.tensors.empty());
  EXPECT_LT(response.body.size(), 200u);
  EXPECT_THAT(response.headers,
              ElementsAre(testing::Pair(testing::StrEq("Content-Encoding"), "gzip")));
  const auto body = expanded(response.body, ContentEncoding::kGzip, 10000, 0);
  EXPECT_TRUE(text_of(body->bytes) == std::string(3000, 'a') + std::string(5000, '\7'));
}

TEST(HttpBodyTest, LeavesAloneWhatWouldGrow) {
  HttpResponse response;
  response.body = "tiny";
  compress_response(response, ContentEncoding::kDeflate, nullptr);
  EXPECT_EQ(response.body, "tiny");
  EXPECT_TRUE(response.headers.empty());
}

TEST(ContentEncodingTest, ChoosesWhatTheClientLikesBest) {
  EXPECT_EQ(choose_encoding(""), ContentEncoding::kIdentity);
  EXPECT_EQ(choose_encoding("br"), ContentEncoding::kIdentity);
  EXPECT_EQ(choose_encoding("deflate, GZIP;q=1.0, br"), ContentEncoding::kGzip);
  EXPECT_EQ(choose_encoding("gzip;q=0.5, deflate;q=0.8"), ContentEncoding::kDeflate);
  EXPECT_EQ(choose_encoding("gzip;q=0"), ContentEncoding::kIdentity);
  EXPECT_EQ(choose_encoding(",,;,gzip;q=x"), ContentEncoding::kGzip);
  EXPECT_EQ(encoding_from_name("compress"), std::nullopt);
}

TEST(HttpTargetTest, SplitsAndDecodes) {
  EXPECT_THAT(split_target("/"), ElementsAre());
  EXPECT_THAT(split_target("/v2?x=/y"), ElementsAre("v2"));
  EXPECT_EQ(first_query_name("/v2?x=/y"), "x");
  EXPECT_EQ(first_query_name("/v2?x&y=1"), "x");
  EXPECT_EQ(first_query_name("/v2?"), "");
  EXPECT_EQ(first_query_name("/v2"), "");
  EXPECT_THAT(split_target("/v2/models/my%20mod%C3%a9l/infer"),
              ElementsAre("v2", "models", "my mod\xC3\xA9l", "infer"));
}

TEST(HttpTargetTest, RefusesTricks) {
  for (const char* target :
       {"", "*", "v2", "/v2/", "//v2", "/v2//models", "/v2/models/..", "/v2/models/../x", "/./v2",
        "/v2/models/%2e%2e/config", "/v2/models/a%2Fb", "/v2/models/a%5Cb", "/v2/models/a%00b",
        "/v2/models/a%0Ab", "/v2/models/%", "/v2/models/%4", "/v2/models/%zz", "/a\\b"}) {
    EXPECT_THROW(split_target(target), Error) << target;
  }
}

}  // namespace
}  // namespace emblem
