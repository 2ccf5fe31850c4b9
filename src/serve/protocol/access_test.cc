#include "serve/protocol/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "emblem/error.h"
#include "serve/protocol/status.h"

namespace emblem {
namespace {

using testing::HasSubstr;

constexpr Api kAll[] = {
    Api::kHealth,          Api::kMetadata,   Api::kInference, Api::kSharedMemory, Api::kModelConfig,
    Api::kModelRepository, Api::kStatistics, Api::kTrace,     Api::kLogging,      Api::kMetrics};

// 0 when the caller may, otherwise the HTTP status of the refusal.
int answer(const Access& access, Api api, const std::string& authorization = "",
           const std::map<std::string, std::string>& headers = {}, bool is_local = true) {
  Caller caller;
  caller.authorization = authorization;
  caller.is_local = is_local;
  caller.header = [&](const std::string& name) {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
  };
  try {
    access.require(api, caller);
  } catch (const Error& error) {
    return http_status(error.code());
  }
  return 0;
}

std::string open_ones(const Access& access, const std::string& authorization) {
  std::string names;
  for (const Api api : kAll) {
    if (answer(access, api, authorization) == 0) names += std::string(name_of(api)) + " ";
  }
  return names;
}

constexpr const char* kInferenceApis = "health metadata inference model-config statistics metrics ";
constexpr const char* kAllApis =
    "health metadata inference shared-memory model-config model-repository statistics trace "
    "logging metrics ";

TEST(Access, WithoutTokensAllIsOpenButSharedMemory) {
  EXPECT_EQ(open_ones(Access(), ""),
            "health metadata inference model-config model-repository statistics trace logging "
            "metrics ");
  EXPECT_EQ(answer(Access(), Api::kSharedMemory), 403);
}

// Spaces around the value of a header are not part of it.
TEST(Access, TokensThatNoRequestCanSendAreRefused) {
  for (const char* token : {"abc ", " abc", "abc\n", "a\tb\x01", "abc\r\n"}) {
    EXPECT_THROW(Access({.inference_token = token}), Error) << token;
    EXPECT_THROW(Access({.control_token = token}), Error) << token;
    EXPECT_THROW(Access({.restricted = {{{Api::kTrace}, "admin-key", token}}}), Error) << token;
  }
  EXPECT_EQ(answer(Access({.inference_token = "a b"}), Api::kInference, "Bearer a b"), 0);
}

TEST(Access, AnInferenceTokenAloneOpensEverything) {
  const Access access({.inference_token = "abc", .allow_shared_memory = true});
  EXPECT_EQ(open_ones(access, ""), "health ");
  EXPECT_EQ(open_ones(access, "Bearer abc"), kAllApis);
  EXPECT_EQ(answer(access, Api::kInference), 401);
  for (const char* wrong : {"Bearer abd", "Bearer abcd", "Bearer ", "abc", "Basic abc"})
    EXPECT_EQ(answer(access, Api::kInference, wrong), 401) << wrong;
}

TEST(Access, AControlTokenIsNeededForControlAndOpensAll) {
  const Access access(
      {.inference_token = "abc", .control_token = "xyz", .allow_shared_memory = true});
  EXPECT_EQ(open_ones(access, ""), "health ");
  EXPECT_EQ(open_ones(access, "Bearer abc"), kInferenceApis);
  EXPECT_EQ(open_ones(access, "Bearer xyz"), kAllApis);
  EXPECT_EQ(answer(access, Api::kModelRepository, "Bearer abc"), 403);
  EXPECT_EQ(answer(access, Api::kModelRepository), 401);
}

TEST(Access, AControlTokenAloneLeavesInferenceOpen) {
  const Access access({.control_token = "xyz", .allow_shared_memory = true});
  EXPECT_EQ(open_ones(access, ""), kInferenceApis);
  EXPECT_EQ(open_ones(access, "Bearer xyz"), kAllApis);
  EXPECT_EQ(answer(access, Api::kLogging), 401);
}

TEST(Access, CredentialsAreNeededOnceSomethingAsksForThem) {
  EXPECT_FALSE(Access({.allow_shared_memory = true}).needs_credentials());
  EXPECT_TRUE(Access({.inference_token = "abc"}).needs_credentials());
  EXPECT_TRUE(Access({.control_token = "abc"}).needs_credentials());
  EXPECT_TRUE(Access({.restricted = {parse_restricted_apis("health=key=1")}}).needs_credentials());
}

TEST(Access, EqualTokensAreRefused) {
  EXPECT_THROW(Access({.inference_token = "abc", .control_token = "abc"}), Error);
}

TEST(Access, RestrictedApisNeedTheirKey) {
  const Access access({.restricted = {parse_restricted_apis("health,metrics=Admin-Key=s=1"),
                                      parse_restricted_apis("model-repository:other=2")}});
  EXPECT_EQ(answer(access, Api::kHealth), 403);
  EXPECT_EQ(answer(access, Api::kHealth, "", {{"admin-key", "s=2"}}), 403);
  EXPECT_EQ(answer(access, Api::kHealth, "", {{"admin-key", "s=1"}}), 0);
  EXPECT_EQ(answer(access, Api::kMetrics, "", {{"triton-grpc-protocol-admin-key", "s=1"}}), 0);
  EXPECT_EQ(answer(access, Api::kModelRepository, "", {{"admin-key", "s=1"}}), 403);
  EXPECT_EQ(answer(access, Api::kModelRepository, "", {{"other", "2"}}), 0);
  EXPECT_EQ(answer(access, Api::kInference), 0);
}

TEST(Access, ARestrictedApiNeedsItsKeyAndTheToken) {
  const Access access(
      {.inference_token = "abc", .restricted = {parse_restricted_apis("statistics=key=1")}});
  EXPECT_EQ(answer(access, Api::kStatistics, "Bearer abc"), 403);
  EXPECT_EQ(answer(access, Api::kStatistics, "", {{"key", "1"}}), 401);
  EXPECT_EQ(answer(access, Api::kStatistics, "Bearer abc", {{"key", "1"}}), 0);
}

TEST(Access, ARestrictionThatCannotBeReadIsRefused) {
  const auto problem = [](const std::string& text) {
    try {
      Access({.restricted = {parse_restricted_apis(text)}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* text : {"", "health", "health=key", "health=key=", "health==1", "=key=1"})
    EXPECT_THAT(problem(text), HasSubstr("is not of the form")) << text;
  EXPECT_THAT(problem("healt=key=1"), HasSubstr("'healt' is unknown; expected one of health"));
  EXPECT_THAT(problem("health,health=key=1"), HasSubstr("health is restricted twice"));
  EXPECT_EQ(problem("health, metrics=key=1"), "");
}

TEST(Access, SharedMemoryIsForLocalClientsUnlessRemoteOnesAreAllowed) {
  const Access local({.allow_shared_memory = true});
  EXPECT_EQ(answer(local, Api::kSharedMemory, "", {}, /*is_local=*/true), 0);
  EXPECT_EQ(answer(local, Api::kSharedMemory, "", {}, /*is_local=*/false), 403);
  EXPECT_NO_THROW(local.require_shared_memory(true));
  EXPECT_THROW(local.require_shared_memory(false), Error);
  const Access remote({.allow_shared_memory = true, .allow_remote_shared_memory = true});
  EXPECT_EQ(answer(remote, Api::kSharedMemory, "", {}, /*is_local=*/false), 0);
  EXPECT_THROW(Access().require_shared_memory(true), Error);
}

TEST(Access, RefusalsHaveTheirStatus) {
  EXPECT_EQ(http_status(ErrorCode::kUnauthenticated), 401);
  EXPECT_EQ(grpc_status(ErrorCode::kUnauthenticated), 16);
  EXPECT_EQ(http_status(ErrorCode::kPermissionDenied), 403);
  EXPECT_EQ(grpc_status(ErrorCode::kPermissionDenied), 7);
}

}  // namespace
}  // namespace emblem
