#include "serve/grpc/calls.h"

#include <gmock/gmock.h>

#include "core/system/log.h"
#include "serve/protocol/fake_service_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class GrpcCallsTest : public testing::Test {
 protected:
  ~GrpcCallsTest() override { set_log_settings({}); }

  inference::TraceSettingResponse trace(const inference::TraceSettingRequest& request) const {
    inference::TraceSettingResponse response;
    calls_.answer(request, response);
    return response;
  }
  inference::LogSettingsResponse log(const inference::LogSettingsRequest& request) const {
    inference::LogSettingsResponse response;
    calls_.answer(request, response);
    return response;
  }

  FakeService service_;
  SharedMemoryRegions regions_{{.allowed_prefixes = {""}}};
  GrpcCalls calls_{service_, regions_, true};
};

TEST_F(GrpcCallsTest, TraceSettingsCanBeReadChangedAndCleared) {
  inference::TraceSettingRequest request;
  EXPECT_THAT(trace(request).settings().at("trace_level").value(), ElementsAre("OFF"));
  (*request.mutable_settings())["trace_level"].add_value("TIMESTAMPS");
  (*request.mutable_settings())["trace_rate"].add_value("5");
  EXPECT_THAT(trace(request).settings().at("trace_rate").value(), ElementsAre("5"));
  inference::TraceSettingRequest of_model;
  of_model.set_model_name("sum");
  EXPECT_THAT(trace(of_model).settings().at("trace_level").value(), ElementsAre("TIMESTAMPS"));
  (*of_model.mutable_settings())["trace_rate"].add_value("7");
  EXPECT_THAT(trace(of_model).settings().at("trace_rate").value(), ElementsAre("7"));
  (*of_model.mutable_settings())["trace_rate"].clear_value();
  EXPECT_THAT(trace(of_model).settings().at("trace_rate").value(), ElementsAre("5"));
  request.clear_settings();
  (*request.mutable_settings())["trace_file"].add_value("/tmp/x");
  EXPECT_THAT(
      [&] { trace(request); },
      ThrowsMessage<Error>("trace file location can not be updated through network protocol"));
  request.clear_settings();
  request.set_model_name("none");
  EXPECT_THROW(trace(request), Error);
}

TEST_F(GrpcCallsTest, LogSettingsTakeEffect) {
  inference::LogSettingsRequest request;
  EXPECT_EQ(log(request).settings().at("log_format").string_param(), "default");
  (*request.mutable_settings())["log_info"].set_bool_param(false);
  (*request.mutable_settings())["log_verbose_level"].set_uint32_param(2);
  EXPECT_EQ(log(request).settings().at("log_info").bool_param(), false);
  EXPECT_EQ(log_settings(), (LogSettings{.info = false, .verbose_level = 2}));
  (*request.mutable_settings())["log_info"].set_string_param("no");
  EXPECT_THAT([&] { log(request); }, ThrowsMessage<Error>("expect boolean for 'log_info'"));
  request.clear_settings();
  (*request.mutable_settings())["log_file"].set_string_param("/tmp/x");
  EXPECT_THAT(
      [&] { log(request); },
      ThrowsMessage<Error>("log file location can not be updated through network protocol"));
  request.clear_settings();
  (*request.mutable_settings())["log_colour"].set_bool_param(false);
  EXPECT_THAT([&] { log(request); }, ThrowsMessage<Error>(HasSubstr("log_colour")));
}

}  // namespace
}  // namespace emblem
