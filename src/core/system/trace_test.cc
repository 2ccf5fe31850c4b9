#include "core/system/trace.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"

namespace emblem {
namespace {

TEST(Trace, IsAFileThatTimelineViewersRead) {
  const TempFolder folder;
  const std::string path = folder.path() + "/trace.json";
  Trace trace(path, Device::kCpu);
  const int64_t now = trace_now();
  trace.add("lookup \"a\"", now, now + 2500);
  std::thread([&] { trace.add("elsewhere", now, now + 1000); }).join();
  trace.finish();
  const auto json = nlohmann::json::parse(read_text_file(path));
  int spans = 0;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++spans;
    EXPECT_GE(event.at("ts").get<double>(), 0);
    if (event.at("name") != "lookup \"a\"") continue;
    EXPECT_EQ(event.at("tid"), 0);
    EXPECT_NEAR(event.at("dur").get<double>(), 2.5, 1e-9);
  }
  EXPECT_EQ(spans, 2);
}

TEST(Trace, APipeGetsTheWholeTimelineAtOnce) {
  const TempFolder folder;
  const std::string path = folder.path("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = read_text_file(path); });
  {
    Trace trace(path, Device::kCpu);
    trace.add("lookup", trace_now(), trace_now());
    trace.finish();
  }
  reader.join();
  EXPECT_THAT(read, testing::HasSubstr("lookup"));
  EXPECT_TRUE(nlohmann::json::accept(read)) << read;
}

}  // namespace
}  // namespace emblem
