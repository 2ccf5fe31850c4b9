#include "bench/result/history.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/math/checksum.h"
#include "core/system/subprocess.h"
#include "core/text/text.h"
#include "emblem/api.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = nlohmann::ordered_json;

// Serialized by to_json(), which knows all fields.
Json machine_json(const Machine& machine) {
  BenchResult result;
  result.machine = machine;
  return Json::parse(to_json({result}))["machine"];
}

void append_text(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  const bool written =
      file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (file >= 0) ::close(file);
  if (!written)
    throw Error(ErrorCode::kUnavailable, cat("cannot write ", path, ": ", std::strerror(error)));
}

}  // namespace

std::string fingerprint(const Machine& machine) {
  const std::string text = machine_json(machine).dump();
  return fmt::format("{:016x}", checksum_of(text));
}

std::string source_revision(const std::string& program, const std::string& scratch_folder) {
  const std::string folder = std::filesystem::path(program).parent_path().string();
  const std::string answer = scratch_folder + "/revision.txt";
  const bool answered = [&] {
    try {
      return run_subprocess({.arguments = {"git", "-C", folder, "describe", "--always", "--dirty",
                                           "--abbrev=12"},
                             .environment = {},
                             .log = answer})
          .succeeded();
    } catch (const Error&) {  // no git on this machine
      return false;
    }
  }();
  const std::string revision(trim(read_text_file(answer)));
  std::filesystem::remove(answer);
  return answered && !revision.empty() ? revision : "unknown";
}

void append_history(const std::string& path, const std::string& revision,
                    const std::vector<BenchResult>& results) {
  const Machine machine = this_machine();
  Json line = {{"date", utc_now()},
               {"revision", revision},
               {"program", cat("emblem ", kVersion)},
               {"environment", fingerprint(machine)},
               {"machine", machine_json(machine)},
               {"results", Json::array()}};
  for (const BenchResult& result : results)
    line["results"].push_back(Json::parse(to_json({result})));
  append_text(path, line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<HistoryEntry> read_history(const std::string& path) {
  std::vector<HistoryEntry> entries;
  const std::string text = read_text_file(path);
  int64_t number = 0;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const Json line = Json::parse(text.substr(begin, end - begin), nullptr, false);
    const std::string where = cat(path, ":", ++number);
    EMBLEM_REQUIRE(line.is_object() && line.contains("results") && line["results"].is_array(),
                   where,
                   " is not a benchmark history entry; expected a line written by "
                   "emblem bench suite --history");
    entries.push_back({line.value("date", ""), line.value("revision", ""),
                       line.value("program", ""), line.value("environment", ""),
                       parse_bench_results(line["results"].dump(), where)});
  }
  return entries;
}

}  // namespace emblem
