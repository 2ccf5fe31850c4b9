#include "serve/grpc/wire_cost.h"

#include <gmock/gmock.h>
#include <malloc.h>

#include <algorithm>

#include "core/system/seconds_since.h"
#include "emblem/error.h"
#include "serve/grpc/health.pb.h"
#include "serve/grpc/parsed.h"
#include "serve/grpc/service.pb.h"

namespace emblem {
namespace {

using grpc::health::v1::HealthCheckRequest;
using inference::ModelInferRequest;
using testing::HasSubstr;

std::span<const std::byte> wire_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string many(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

template <class Message>
size_t cost(const std::string& wire) {
  return parsed_bytes(wire_bytes(wire), *Message::descriptor());
}

template <class Message>
std::string refusal(const std::string& wire) {
  try {
    cost<Message>(wire);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

// What parsing takes of the heap, at its end.
template <class Message>
size_t heap_of(const std::string& wire) {
  const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  const auto message = std::make_unique<Message>();
  EXPECT_TRUE(message->ParseFromString(wire));
  return mallinfo2().uordblks + mallinfo2().hblkhd - before;
}

template <class Message>
void expect_bound(const std::string& wire) {
  const size_t bound = cost<Message>(wire), real = heap_of<Message>(wire);
  EXPECT_GE(bound, real);
  EXPECT_LE(bound, 8 * real + 4096);  // not so much that good requests are refused
}

TEST(WireCost, IsAnUpperBoundOfWhatParsingTakes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have allocators of their own";
#endif
  const std::string empty_inputs = many(std::string("\x2a\x00", 2), 60'000);
  const std::string nested = many(std::string("\x2a\x02\x2a\x00", 4), 30'000);
  const std::string raw = many(std::string("\x3a\x00", 2), 60'000);
  const std::string unknown = many(std::string("\xa0\x06\x01", 3), 1000);
  for (const std::string& wire : {empty_inputs, nested, raw, unknown})
    expect_bound<ModelInferRequest>(wire);
  expect_bound<HealthCheckRequest>(unknown);

  ModelInferRequest request;
  for (int i = 0; i < 100; ++i) {
    auto* input = request.add_inputs();
    input->set_name("a name that is longer than a short string");
    for (int64_t k = 0; k < 3000; ++k) {
      input->mutable_contents()->add_int64_contents(k % 100);
      input->mutable_contents()->add_fp32_contents(1.5f);
      input->mutable_contents()->add_bool_contents(true);
      input->mutable_contents()->add_bytes_contents(std::string(static_cast<size_t>(k % 40), 'x'));
      input->add_shape(k);
    }
    (*input->mutable_parameters())[std::to_string(i)].set_string_param("a parameter with a text");
    request.add_raw_input_contents(std::string(5000, 'y'));
  }
  expect_bound<ModelInferRequest>(request.SerializeAsString());
}

TEST(WireCost, LimitsCountsAndNesting) {
  EXPECT_THAT(refusal<ModelInferRequest>(many(std::string("\x2a\x00", 2), 70'000)),
              HasSubstr("the ModelInferRequest has more than 65536 parts"));
  EXPECT_THAT(refusal<ModelInferRequest>(many(std::string("\x3a\x00", 2), 70'000)),
              HasSubstr("the ModelInferRequest has more than 65536 parts"));  // raw tensors
  EXPECT_THAT(refusal<HealthCheckRequest>(many("\x10\x01", 2000)),
              HasSubstr("has more than 1024 fields that are unknown"));
  EXPECT_THAT(refusal<HealthCheckRequest>(many("\x13", 100) + many("\x14", 100)),
              HasSubstr("is nested deeper than 16"));
  EXPECT_EQ(refusal<HealthCheckRequest>(many("\x13", 10) + many("\x14", 10)), "accepted");
}

TEST(WireCost, RefusesWhatIsNoMessage) {
  for (const std::string& wire :
       {std::string("\x0a"),
        std::string("\x0a\x05"
                    "abc"),
        std::string(1, '\0'), std::string(11, '\xff'), std::string("\x14"), std::string("\x17"),
        std::string("\x13\x1c"), std::string("\x15\x01\x02")})
    EXPECT_THAT(refusal<HealthCheckRequest>(wire),
                HasSubstr("the message is not a grpc.health.v1.HealthCheckRequest"));
}

// Whatever is refused here, the parser would refuse or hold too much of; the rest it takes.
TEST(WireCost, TakesWhatTheParserTakes) {
  ModelInferRequest request;
  request.set_model_name("m");
  auto* input = request.add_inputs();
  input->add_shape(3);
  input->mutable_contents()->add_uint64_contents(uint64_t{1} << 63);
  std::string wire = request.SerializeAsString();
  for (size_t i = 0; i < wire.size(); ++i) {
    for (const int bit : {1, 4, 128}) {
      std::string changed = wire;
      changed[i] = static_cast<char>(changed[i] ^ bit);
      ModelInferRequest parsed;
      if (!parsed.ParseFromString(changed)) continue;
      EXPECT_EQ(refusal<ModelInferRequest>(changed), "accepted") << i;
    }
  }
}

TEST(WireCost, AMessageThatTheBudgetDoesNotSufficeForIsNotParsed) {
  MemoryBudget budget(1 << 20);
  Parsed<ModelInferRequest> to{lease_of(&budget), {}};
  const std::string wire = many(std::string("\x2a\x00", 2), 60'000);
  try {
    parse(wire_bytes(wire), to);
    FAIL() << "parsed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
  }
  EXPECT_EQ(to.message.inputs_size(), 0);
  EXPECT_EQ(budget.used(), 0u);
}

// Microseconds of the fastest of several rounds.
template <class Act>
double microseconds(Act&& act) {
  double fastest = 1e9;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    int count = 0;
    for (; count < 1000 && seconds_since(start) < 0.02; ++count) act();
    fastest = std::min(fastest, seconds_since(start) * 1e6 / count);
  }
  return fastest;
}

// One row of 13 numbers and 26 ids, and more of them; as raw bytes and in typed fields.
std::string rows_of_criteo(int64_t rows, bool is_raw) {
  ModelInferRequest request;
  request.set_model_name("dlrm");
  const auto add = [&](const char* name, const char* type, int64_t cols) {
    auto* input = request.add_inputs();
    input->set_name(name);
    input->set_datatype(type);
    input->add_shape(rows);
    input->add_shape(cols);
    return input;
  };
  auto* numbers = add("numerical_features", "FP32", 13);
  auto* ids = add("categorical_features", "INT64", 26);
  if (is_raw) {
    request.add_raw_input_contents(std::string(static_cast<size_t>(rows) * 13 * 4, 'x'));
    request.add_raw_input_contents(std::string(static_cast<size_t>(rows) * 26 * 8, 'x'));
    return request.SerializeAsString();
  }
  for (int64_t i = 0; i < rows * 13; ++i) numbers->mutable_contents()->add_fp32_contents(1.5f);
  for (int64_t i = 0; i < rows * 26; ++i)
    ids->mutable_contents()->add_int64_contents(i * 7919 % 1'000'000);
  return request.SerializeAsString();
}

// For docs/performance.md: --gtest_also_run_disabled_tests.
TEST(WireCost, DISABLED_TimeBesideParsing) {
  const std::pair<std::string, std::string> messages[] = {
      {"1 row, raw", rows_of_criteo(1, true)},
      {"1 row, typed", rows_of_criteo(1, false)},
      {"1,024 rows, raw", rows_of_criteo(1024, true)},
      {"1,024 rows, typed", rows_of_criteo(1024, false)},
      {"60,000 empty inputs", many(std::string("\x2a\x00", 2), 60'000)},
      {"1,000 unknown fields", many(std::string("\xa0\x06\x01", 3), 1000)}};
  for (const auto& [name, wire] : messages) {
    const double scan = microseconds([&] { cost<ModelInferRequest>(wire); });
    const double both = microseconds([&] {
      MemoryBudget budget(size_t{1} << 30);
      Parsed<ModelInferRequest> to{lease_of(&budget), {}};
      parse(wire_bytes(wire), to);
    });
    std::printf("%-22s %8zu bytes: scanned in %.2f us, scanned and parsed in %.2f us\n",
                name.c_str(), wire.size(), scan, both);
  }
}

}  // namespace
}  // namespace emblem
