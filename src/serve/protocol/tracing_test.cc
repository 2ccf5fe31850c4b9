#include "serve/protocol/tracing.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Values = std::vector<std::string>;

class TracingTest : public testing::Test {
 protected:
  // How many of `requests` requests are traced.
  int traced(const std::string& model, int requests) {
    int count = 0;
    for (int i = 0; i < requests; ++i) {
      const auto trace = tracing_.sample(model);
      if (!trace) continue;
      ++count;
      using std::chrono::nanoseconds;
      trace->version = "3";
      trace->id = "a\"b";
      trace->times = {RequestTimes::Time(nanoseconds(1)), RequestTimes::Time(nanoseconds(2)),
                      RequestTimes::Time(nanoseconds(3)), RequestTimes::Time(nanoseconds(4)),
                      RequestTimes::Time(nanoseconds(5)), RequestTimes::Time(nanoseconds(6)),
                      RequestTimes::Time(nanoseconds(7))};
      tracing_.write(*trace);
    }
    return count;
  }
  json read(const std::string& name) const {
    return json::parse(read_text_file(folder_.path(name)));
  }

  const TempFolder folder_;
  Tracing tracing_;
};

TEST_F(TracingTest, EveryNthRequestIsTracedUntilTheCountIsUsedUp) {
  tracing_.start({.file = folder_.path("t"), .timestamps = true, .rate = 10, .count = 3});
  EXPECT_EQ(traced("m", 25), 2);
  EXPECT_EQ(tracing_.settings("")["trace_count"], Values{"1"});
  EXPECT_EQ(traced("m", 100), 1);
  EXPECT_EQ(tracing_.settings("")["trace_count"], Values{"0"});
  tracing_.change("", {{"trace_count", Values{"-1"}}});
  EXPECT_EQ(traced("m", 100), 10);
}

TEST_F(TracingTest, NothingIsTracedWithoutAFileOrALevel) {
  tracing_.change("", {{"trace_level", Values{"TIMESTAMPS"}}, {"trace_rate", Values{"1"}}});
  EXPECT_EQ(traced("m", 10), 0);
  tracing_.start({.file = folder_.path("t"), .rate = 1});
  tracing_.change("", {{"trace_level", Values{"OFF"}}});
  EXPECT_EQ(traced("m", 10), 0);
  tracing_.change("m", {{"trace_level", Values{"TIMESTAMPS"}}});
  EXPECT_EQ(traced("m", 10), 10);
  EXPECT_EQ(traced("other", 10), 0);
}

TEST_F(TracingTest, TheFileIsTritonsJsonAfterEveryTrace) {
  tracing_.start({.file = folder_.path("t"), .timestamps = true, .rate = 1});
  for (size_t count = 1; count <= 3; ++count) {
    EXPECT_EQ(traced("m", 1), 1);
    const json traces = read("t");
    ASSERT_EQ(traces.size(), 8 * count);
    EXPECT_EQ(traces[8 * count - 8], json::parse(R"({"id":)" + std::to_string(count) +
                                                 R"(,"model_name":"m","model_version":3,)"
                                                 R"("request_id":"a\"b"})"));
    const char* names[] = {"REQUEST_START",     "QUEUE_START",          "COMPUTE_START",
                           "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END",
                           "REQUEST_END"};
    for (size_t i = 0; i < 7; ++i) {
      const json& one = traces[8 * count - 7 + i];
      EXPECT_EQ(one["id"], count);
      EXPECT_EQ(one["timestamps"][0]["name"], names[i]);
      EXPECT_EQ(one["timestamps"][0]["ns"], i + 1);
    }
  }
}

TEST_F(TracingTest, ALogFrequencyMakesSeveralFiles) {
  tracing_.start({.file = folder_.path("t"), .timestamps = true, .rate = 1, .log_frequency = 2});
  EXPECT_EQ(traced("m", 5), 5);
  EXPECT_EQ(read("t.0").size(), 16u);
  EXPECT_EQ(read("t.1").size(), 16u);
  EXPECT_EQ(read("t.2").size(), 8u);
}

TEST_F(TracingTest, ModelsHaveTheServersSettingsUntilTheyHaveTheirOwn) {
  tracing_.change("m", {{"trace_rate", Values{"7"}}});
  tracing_.change("", {{"trace_rate", Values{"5"}}, {"log_frequency", Values{"9"}}});
  EXPECT_EQ(tracing_.settings("m")["trace_rate"], Values{"7"});
  EXPECT_EQ(tracing_.settings("m")["log_frequency"], Values{"9"});
  EXPECT_EQ(tracing_.settings("other")["trace_rate"], Values{"5"});
  tracing_.change("m", {{"trace_rate", std::nullopt}});
  EXPECT_EQ(tracing_.settings("m")["trace_rate"], Values{"5"});
  tracing_.change("", {{"trace_rate", std::nullopt}});
  EXPECT_EQ(tracing_.settings("m")["trace_rate"], Values{"1000"});
}

TEST_F(TracingTest, WhatCannotBeReadChangesNothing) {
  const auto refused = [&](const TraceChanges& changes, const char* why) {
    EXPECT_THAT([&] { tracing_.change("", changes); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  const TraceSettings before = tracing_.settings("");
  refused({{"trace_count", Values{"5"}}, {"trace_rate", Values{"x"}}}, "got: x");
  refused({{"trace_rate", Values{"-1"}}}, "out of range [ 0, 4294967295 ], got: -1");
  refused({{"trace_rate", Values{"99999999999"}}}, "out of range");
  refused({{"trace_rate", Values{"1", "2"}}}, "expect only 1 value for 'trace_rate'");
  refused({{"trace_count", Values{"-2"}}}, "out of range [ -1, 2147483647 ], got: -2");
  refused({{"trace_level", Values{"OFF", "TENSORS"}}}, "only one trace level 'OFF'");
  refused({{"trace_level", Values{"ALL"}}}, "expected OFF, TIMESTAMPS or TENSORS");
  refused({{"trace_colour", Values{"1"}}}, "no trace setting 'trace_colour'");
  EXPECT_EQ(tracing_.settings(""), before);
}

TEST(TraceOptionsTest, AreReadAsTritonWritesThem) {
  EXPECT_EQ(parse_trace_options({"triton,file=/tmp/t", "level=TIMESTAMPS", "rate=7", "count=5",
                                 "triton,log-frequency=50", "mode=triton"}),
            (TraceOptions{
                .file = "/tmp/t", .timestamps = true, .rate = 7, .count = 5, .log_frequency = 50}));
  EXPECT_THROW(parse_trace_options({"mode=opentelemetry"}), Error);
  EXPECT_THROW(parse_trace_options({"colour=red"}), Error);
  EXPECT_THROW(parse_trace_options({"rate"}), Error);
  EXPECT_THROW(parse_trace_options({"rate=x"}), Error);
}

}  // namespace
}  // namespace emblem
