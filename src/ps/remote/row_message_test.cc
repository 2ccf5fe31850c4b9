#include "ps/remote/row_message.h"

#include <gmock/gmock.h>

#include <cstring>

#include "core/math/random.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;

RowRequest some_request() {
  return {.number = 7,
          .model = {"dlrm", 3, 0x123456789abcdef0ull},
          .tables = {{"users", 2, {5, -1, INT64_MIN}}, {"items", 3, {}}, {"tags", 1, {9}}}};
}

// Key k's row is {k, k + 1, ...}; odd keys are not found.
std::vector<std::byte> some_answer(const RowRequest& request) {
  return make_answer(request, [&](size_t t, std::span<float> rows, std::span<uint8_t> found) {
    const RowRequest::Table& table = request.tables[t];
    for (size_t i = 0; i < table.keys.size(); ++i) {
      found[i] = table.keys[i] % 2 == 0;
      for (int64_t d = 0; found[i] != 0 && d < table.dim; ++d)
        rows[i * static_cast<size_t>(table.dim) + static_cast<size_t>(d)] =
            static_cast<float>(table.keys[i] + d);
    }
  });
}

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string problem_of(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

const TakeRows kIgnore = [](size_t, const char*, const uint8_t*) {};

TEST(RowMessage, RequestsAreReadAsTheyWereWritten) {
  EXPECT_EQ(decode_row_request(encode(some_request())), some_request());
  EXPECT_EQ(decode_row_request(encode(RowRequest{})), RowRequest{});
}

TEST(RowMessage, AnswersHaveTheRowsOfTheRequest) {
  RowRequest request{
      .number = 1, .model = {"m", 1, 2}, .tables = {{"a", 2, {4, 3}}, {"b", 1, {8}}}};
  const std::vector<std::byte> answer = some_answer(request);
  EXPECT_EQ(answer.size(), answer_bytes(request));
  std::vector<float> rows;
  std::vector<int> flags;
  read_answer(request, text_of(answer), [&](size_t t, const char* from, const uint8_t* found) {
    const size_t keys = request.tables[t].keys.size();
    std::vector<float> these(keys * static_cast<size_t>(request.tables[t].dim));
    std::memcpy(these.data(), from, these.size() * sizeof(float));
    rows.insert(rows.end(), these.begin(), these.end());
    flags.insert(flags.end(), found, found + keys);
  });
  EXPECT_THAT(rows, ElementsAre(4, 5, 0, 0, 8));
  EXPECT_THAT(flags, ElementsAre(1, 0, 1));
}

TEST(RowMessage, AnswersToOtherRequestsAndOfOtherVersionsAreRefused) {
  const RowRequest asked = some_request();
  RowRequest other = asked;
  other.number = 8;
  EXPECT_NE(problem_of([&] {
              read_answer(asked, text_of(some_answer(other)), kIgnore);
            }).find("to another request"),
            std::string::npos);
  other = asked;
  other.model.version = 4;
  EXPECT_NE(problem_of([&] {
              read_answer(asked, text_of(some_answer(other)), kIgnore);
            }).find("version 4"),
            std::string::npos);
  other = asked;
  other.model.content ^= 1;
  EXPECT_NE(problem_of([&] { read_answer(asked, text_of(some_answer(other)), kIgnore); }), "");
  other = asked;
  other.tables[0].keys.pop_back();
  EXPECT_NE(
      problem_of([&] { read_answer(asked, text_of(some_answer(other)), kIgnore); }).find("bytes; "),
      std::string::npos);
  EXPECT_EQ(problem_of([&] { read_answer(asked, text_of(some_answer(asked)), kIgnore); }), "");
}

TEST(RowMessage, FlagsAreZeroOrOne) {
  const RowRequest request{.number = 1, .model = {"m", 1, 2}, .tables = {{"a", 1, {4}}}};
  const auto answer = make_answer(
      request, [](size_t, std::span<float>, std::span<uint8_t> found) { found[0] = 2; });
  EXPECT_NE(
      problem_of([&] { read_answer(request, text_of(answer), kIgnore); }).find("neither 0 nor 1"),
      std::string::npos);
}

TEST(RowMessage, StatusIsReadAsItWasWritten) {
  const StatusRequest request{{{"a", 1, 2}, {"b", 3, 4}}};
  EXPECT_EQ(decode_status_request(encode(request)), request);
  const StatusAnswer answer{{100, 200}, DType::kInt8, {{"a", 1, 2}}};
  EXPECT_EQ(decode_status_answer(encode(answer)), answer);
  for (const PartRange parts :
       {PartRange{-1, 5}, PartRange{5, 5}, PartRange{9, 5}, PartRange{0, 4097}})
    EXPECT_THROW(decode_status_answer(encode(StatusAnswer{.parts = parts})), Error);
}

// Whatever arrives: an error, never a crash or another message.
TEST(RowMessage, DamagedBytesAreRefused) {
  const RowRequest request = some_request();
  const std::vector<std::byte> answer = some_answer(request);
  const std::vector<std::pair<std::string, std::function<void(std::string_view)>>> messages = {
      {encode(request), [](std::string_view bytes) { decode_row_request(bytes); }},
      {std::string(text_of(answer)),
       [&](std::string_view bytes) { read_answer(request, bytes, kIgnore); }},
      {encode(StatusRequest{{{"a", 1, 2}}}),
       [](std::string_view bytes) { decode_status_request(bytes); }},
      {encode(StatusAnswer{{0, 10}, DType::kF32, {{"a", 1, 2}}}),
       [](std::string_view bytes) { decode_status_answer(bytes); }}};
  Random random(1, 2);
  for (const auto& [whole, decode] : messages) {
    ASSERT_NO_THROW(decode(whole));
    for (size_t size = 0; size < whole.size(); ++size)
      EXPECT_THROW(decode(std::string_view(whole).substr(0, size)), Error) << size;
    EXPECT_THROW(decode(whole + "x"), Error);
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << random.below(8)));
      EXPECT_THROW(decode(damaged), Error) << at;
    }
    for (int i = 0; i < 200; ++i) {
      std::string noise(random.below(200), '\0');
      for (char& c : noise) c = static_cast<char>(random.below(256));
      EXPECT_THROW(decode(noise), Error);
    }
  }
}

// Bytes whose checksum matches are read by a decoder that trusts none of the counts in them.
TEST(RowMessage, ForgedCountsAreRefused) {
  const std::string whole = encode(some_request());
  Random random(3, 4);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string forged = whole.substr(0, whole.size() - 8);
    for (uint64_t n = 0; n <= random.below(3); ++n)
      forged[8 + random.below(forged.size() - 8)] = static_cast<char>(random.below(256));
    if (random.below(4) == 0) forged.resize(8 + random.below(forged.size() - 8));
    const uint64_t sum = model_id("", 0, forged).content;  // the same checksum
    forged.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
    try {
      const RowRequest request = decode_row_request(forged);
      EXPECT_EQ(encode(request), forged);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace emblem
