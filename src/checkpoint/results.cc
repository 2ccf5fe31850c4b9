#include "checkpoint/results.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/files/file.h"
#include "core/text/shallow_json.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRestoredStep = "restored_step";

std::string to_text(const ResultLine& line) {
  Json json = {{"global_step", line.step}, {"epoch", line.epoch}};
  if (line.restored_step) json[kRestoredStep] = *line.restored_step;
  for (const auto& [name, value] : line.values)
    json[name] = std::isfinite(value) ? Json(value) : Json();
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<ResultLine> parse_line(std::string_view text) {
  const Json json = Json::parse(text, shallow_json, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("global_step") ||
      !json["global_step"].is_number_integer()) {
    return std::nullopt;
  }
  ResultLine line{.step = json["global_step"].get<int64_t>()};
  for (const auto& [name, value] : json.items()) {
    if (name == "global_step") continue;
    if (name == "epoch" && value.is_number_integer())
      line.epoch = value.get<int64_t>();
    else if (name == kRestoredStep && value.is_number_integer())
      line.restored_step = value.get<int64_t>();
    else
      line.values[name] =
          value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  }
  return line;
}

// Calls take(text with its line end, parsed) for each complete line of the file, in order.
template <class Take>
void for_each_line(const std::string& path, Take take) {
  if (!std::filesystem::exists(path)) return;
  const std::string text = read_text_file(path);
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string_view line = std::string_view(text).substr(begin, end + 1 - begin);
    if (const auto parsed = parse_line(line)) take(line, *parsed);
  }
}

}  // namespace

Results::Results(std::string path, int64_t step) : path_(std::move(path)) {
  keep_lines_up_to(step);
}

Results::~Results() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Results::keep_lines_up_to(int64_t step) {
  std::string kept;
  last_step_ = -1;
  for_each_line(path_, [&](std::string_view text, const ResultLine& line) {
    if (line.step > step || line.step <= last_step_ || line.restored_step) return;
    kept += text;
    last_step_ = line.step;
  });
  write_text_file_atomically(path_, kept);
  open();  // the old descriptor leads to the file that was replaced
}

void Results::open() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0)
    throw Error(ErrorCode::kUnavailable, cat("cannot write ", path_, ": ", std::strerror(errno)));
}

void Results::append(int64_t step, int64_t epoch, const std::map<std::string, double>& values) {
  if (step <= last_step_) keep_lines_up_to(step - 1);
  write({.step = step, .epoch = epoch, .restored_step = std::nullopt, .values = values});
  last_step_ = step;
}

void Results::append_restored(int64_t step, int64_t epoch, int64_t restored_step,
                              const std::map<std::string, double>& values) {
  write({.step = step, .epoch = epoch, .restored_step = restored_step, .values = values});
}

void Results::write(const ResultLine& line) {
  // One write a line: a killed process leaves whole lines, or one that is cut off at the end.
  const std::string text = to_text(line);
  ssize_t taken;
  do {
    taken = ::write(descriptor_, text.data(), text.size());
  } while (taken < 0 && errno == EINTR);
  if (taken != static_cast<ssize_t>(text.size())) {
    throw Error(
        ErrorCode::kUnavailable,
        cat("cannot write ", path_, ": ", taken < 0 ? std::strerror(errno) : "the disk is full"));
  }
}

std::vector<ResultLine> read_results(const std::string& path) {
  std::vector<ResultLine> lines;
  for_each_line(path, [&](std::string_view, const ResultLine& line) { lines.push_back(line); });
  return lines;
}

}  // namespace emblem
