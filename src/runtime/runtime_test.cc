#include "runtime/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "core/system/warn_once.h"
#include "data/format/columnar/columnar_decoder.h"
#include "data/source/objects/object_store.h"
#include "data/source/uri.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// The lines of a log, as a user of the library may take them.
struct TakenLines {
  std::mutex mutex;
  std::vector<std::string> lines;

  LogSink sink() {
    return [this](LogLevel level, const std::string& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(cat(static_cast<int>(level), " ", line));
    };
  }
};

TEST(Runtime, CanBeMadeAgainAfterItsEnd) {
  for (int life = 0; life < 2; ++life) {
    TakenLines taken;
    RuntimeOptions options;
    options.log = LogSettings{.info = life == 1};
    options.log_sink = taken.sink();
    const Runtime runtime(options);
    EXPECT_EQ(&Runtime::current(), &runtime);
    log_info("one\ntwo");
    log_warn("three");
    if (life == 0)
      EXPECT_THAT(taken.lines, ElementsAre("2 three"));
    else
      EXPECT_THAT(taken.lines, ElementsAre("1 one\\x0atwo", "2 three"));
  }
  EXPECT_EQ(log_settings(), log_settings_of_environment());
}

TEST(Runtime, WarnsAgainOfWhatAnotherOneHasWarnedOf) {
  for (int life = 0; life < 2; ++life) {
    TakenLines taken;
    RuntimeOptions options;
    options.log_sink = taken.sink();
    const Runtime runtime(options);
    for (int time = 0; time < 2; ++time) warn_once("a key of this test", "a file is damaged");
    EXPECT_THAT(taken.lines, ElementsAre("2 a file is damaged")) << life;
  }
}

TEST(Runtime, IsOneAtATime) {
  EXPECT_THAT([] { Runtime::current(); }, ThrowsMessage<Error>(HasSubstr("no Runtime")));
  {
    const Runtime runtime;
    EXPECT_THAT([] { const Runtime another; }, ThrowsMessage<Error>(HasSubstr("one Runtime")));
    EXPECT_EQ(&Runtime::current(), &runtime) << "the first one stays";
  }
  const Runtime runtime;
}

TEST(Runtime, SetsVariablesByNothingButTheFunctionItIsGiven) {
  const std::string before = environment_variable(kCertificatesVariable);
  std::map<std::string, std::string> set;
  RuntimeOptions options;
  options.set_variable = [&](const char* name, const std::string& value) { set[name] = value; };
  { const Runtime runtime(options); }
  if (before.empty() && !system_certificates().empty()) {
    EXPECT_EQ(set,
              (std::map<std::string, std::string>{{kCertificatesVariable, system_certificates()}}));
  }
  { const Runtime runtime; }
  EXPECT_EQ(environment_variable(kCertificatesVariable), before);
}

TEST(Runtime, GivesCommunicatorsItsAnswerToARankThatHangs) {
  std::string failure;
  RuntimeOptions options;
  options.on_stuck_rank = [&](const std::string& line) { failure = line; };
  options.stuck_seconds = 0.5;
  const Runtime runtime(options);
  const WatchSettings settings = Runtime::current().watch_settings();
  EXPECT_EQ(settings.stuck_seconds, 0.5);
  settings.on_stuck("rank 1 has failed");
  EXPECT_EQ(failure, "rank 1 has failed");
}

// S3 in the life of a second Runtime, then its end. Nothing listens at the endpoint.
void use_s3_twice_and_finalize() {
  const ObjectUri uri = parse_object_uri("s3://bucket/key");
  const StoreOptions options{.endpoint = "http://127.0.0.1:1"};
  for (int life = 0; life < 2; ++life) {
    const Runtime runtime;
    const auto store = make_store(uri, options);
    try {
      store->find(uri);
      std::_Exit(2);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) std::_Exit(3);
    }
  }
  Runtime::finalize_stores();
  Runtime::finalize_stores();
  try {
    make_store(uri, options);
    std::_Exit(4);
  } catch (const Error& error) {
    log_error(error.what());
  }
  std::exit(0);
}

TEST(RuntimeDeathTest, S3IsUsedByASecondRuntimeAndFinalizedOnce) {
  if (!has_columnar_formats()) GTEST_SKIP() << "built without Arrow";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  EXPECT_EXIT(use_s3_twice_and_finalize(), testing::ExitedWithCode(0), "S3 was finalized");
}
}  // namespace
}  // namespace emblem
