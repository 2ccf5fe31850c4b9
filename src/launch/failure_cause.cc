#include "launch/failure_cause.h"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "launch/rank_process.h"

namespace emblem {
namespace {

constexpr std::string_view kProgram = "emblem: ", kRank = "rank ", kHost = " (host ";

struct Message {
  std::optional<int> about;  // the rank that it begins with
  std::string_view text;     // what that rank said, or all of it
  bool is_repeated = false;  // that rank said it first
};

// "emblem: rank 3 (host b): connection closed"
Message parse(std::string_view line) {
  if (line.starts_with(kProgram)) line.remove_prefix(kProgram.size());
  if (!line.starts_with(kRank)) return {std::nullopt, line};
  const char* const begin = line.data() + kRank.size();
  const char* const end = line.data() + line.size();
  int rank = 0;
  const auto [after, error] = std::from_chars(begin, end, rank);
  const std::string_view rest(after, static_cast<size_t>(end - after));
  const size_t text = rest.find("): ");
  if (error != std::errc{} || !rest.starts_with(kHost)) return {std::nullopt, line};
  if (text == std::string_view::npos) return {rank, line};
  return {rank, rest.substr(text + 3), true};
}

}  // namespace

int find_failed_rank(const std::vector<RankReport>& reports, int first_failed) {
  const int size = static_cast<int>(reports.size());
  std::vector<int> named(reports.size(), 0);
  for (int rank = 0; rank < size; ++rank) {
    const RankReport& report = reports[static_cast<size_t>(rank)];
    if (report.end.signal != 0 && !report.end.was_told) return rank;
    const auto about = parse(report.last_error_line).about;
    if (report.end.failed() && about && *about >= 0 && *about < size && *about != rank)
      ++named[static_cast<size_t>(*about)];
  }
  const auto most = std::max_element(named.begin(), named.end());
  const int rank = static_cast<int>(most - named.begin());
  return *most > 0 && reports[static_cast<size_t>(rank)].end.failed() ? rank : first_failed;
}

std::string how_it_failed(const RankReport& report) {
  if (report.end.was_told) return "did not end after another rank failed, and was stopped";
  return to_text(report.end);
}

bool have_same_error(const std::vector<RankReport>& reports) {
  const RankReport& first = reports.front();
  // Where all name others, a connection was lost.
  const bool is_of_a_rank = std::any_of(
      reports.begin(), reports.end(),
      [](const RankReport& report) { return !parse(report.last_error_line).is_repeated; });
  return is_of_a_rank && std::all_of(reports.begin(), reports.end(), [&](const RankReport& report) {
           return report.end.failed() && report.end.signal == 0 && !report.end.was_told &&
                  report.end.exit_status == first.end.exit_status &&
                  parse(report.last_error_line).text == parse(first.last_error_line).text;
         });
}

int interruption_of(const std::vector<RankReport>& reports) {
  constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  int found = 0;
  for (const RankReport& report : reports) {
    const int signal = report.end.exit_status - kStatusOfSignal;
    if (report.end.signal != 0 || report.end.was_told) return 0;
    if (std::find(std::begin(kSignals), std::end(kSignals), signal) == std::end(kSignals)) return 0;
    found = std::max(found, signal);
  }
  return found;
}

}  // namespace emblem
