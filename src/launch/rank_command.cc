#include "launch/rank_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/device/context.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "emblem/api.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kMostCommandBytes = size_t{64} << 20;

size_t parse_count(std::string_view text) {
  const auto count = parse_number<size_t>(text);
  if (!count || *count > kMostCommandBytes)
    throw Error(ErrorCode::kCorruption,
                "standard input does not begin with the command of a rank; this is run by emblem "
                "launch");
  return *count;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> rank_variables(const RankSlot& slot,
                                                                const std::string& address,
                                                                int port) {
  return {{"RANK", cat(slot.rank)},
          {"WORLD_SIZE", cat(slot.size)},
          {"LOCAL_RANK", cat(slot.local_rank)},
          {"LOCAL_WORLD_SIZE", cat(slot.local_size)},
          {"MASTER_ADDR", address},
          {"MASTER_PORT", cat(port)}};
}

std::vector<std::pair<std::string, std::string>> emblem_variables() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (text.starts_with("EMBLEM_") && equals != std::string_view::npos)
      found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

void add_cpu_share(int local_size, std::vector<std::pair<std::string, std::string>>& environment) {
  if (local_size <= 1) return;
  const std::string share = cat(std::max(1, available_cpus() / local_size));
  for (const char* name : {"EMBLEM_THREADS", "OMP_NUM_THREADS"}) {
    const bool is_given = std::getenv(name) != nullptr ||
                          std::any_of(environment.begin(), environment.end(),
                                      [&](const auto& variable) { return variable.first == name; });
    if (!is_given) environment.emplace_back(name, share);
  }
}

std::string encode(const RankCommand& command) {
  std::string body;
  const auto add = [&](std::string_view text) {
    body += text;
    body += '\0';
  };
  add(kVersion);
  add(command.folder);
  add(cat(command.environment.size()));
  for (const auto& [name, value] : command.environment) add(name + "=" + value);
  for (const std::string& argument : command.arguments) add(argument);
  return cat(body.size(), "\n", body);
}

std::optional<RankCommand> take_command(std::string& received) {
  constexpr size_t kLongestCount = 20;
  const size_t line = received.find('\n');
  if (line == std::string::npos && received.size() < kLongestCount) return std::nullopt;
  const size_t size = parse_count(std::string_view(received).substr(0, line));
  if (received.size() < line + 1 + size) return std::nullopt;
  std::vector<std::string> texts = split(received.substr(line + 1, size), '\0');
  received.erase(0, line + 1 + size);
  texts.pop_back();  // after the last zero byte
  EMBLEM_REQUIRE(texts.size() >= 4, "the command of a rank is incomplete");
  if (texts[0] != kVersion)
    throw Error(ErrorCode::kUnsupported,
                cat("this host has emblem ", kVersion, ", emblem launch is ", texts[0],
                    "; install the same version everywhere"));
  RankCommand command;
  command.folder = texts[1];
  const size_t variables = parse_count(texts[2]);
  EMBLEM_REQUIRE(texts.size() > 3 + variables, "the command of a rank is incomplete");
  for (size_t i = 3; i < 3 + variables; ++i) {
    const size_t equals = texts[i].find('=');
    command.environment.emplace_back(texts[i].substr(0, equals), texts[i].substr(equals + 1));
  }
  command.arguments.assign(texts.begin() + 3 + static_cast<std::ptrdiff_t>(variables), texts.end());
  return command;
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+:=@,";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

}  // namespace emblem
