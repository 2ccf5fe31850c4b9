#include "bench/judge/junit.h"

#include <algorithm>

#include "bench/judge/suite_run.h"
#include "bench/judge/suite_text.h"
#include "bench/report/svg.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kLogLines = 50;

// Escaped for text and attributes, line by line.
std::string safe(const std::string& text) {
  std::string out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += escape_markup(std::string_view(text).substr(begin, end - begin));
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

double seconds_of(const ConfigOutcome& outcome) {
  double seconds = 0;
  for (const SuiteRun& run : outcome.runs) seconds += run.seconds;
  return seconds;
}

std::string logs_of(const ConfigOutcome& outcome) {
  std::string text;
  for (const SuiteRun& run : outcome.runs) {
    if (!run.failed()) continue;
    text += cat("seed ", run.seed, ": ", run.failure, "\n");
    for (const std::string& line : last_lines(run.log, kLogLines)) text += line + "\n";
  }
  return text;
}

std::string test_case(const ConfigOutcome& outcome) {
  std::string xml = cat("  <testcase classname=\"emblem.suite\" name=\"", safe(outcome.config),
                        "\" time=\"", seconds_of(outcome), "\">\n");
  const std::string table = suite_text({outcome}, Colour::kNone);
  if (outcome.verdict == Verdict::kWorse)
    xml += cat("    <failure message=\"WORSE than the baseline\">", safe(table), "</failure>\n");
  if (outcome.verdict == Verdict::kUnreliable)
    xml += cat("    <error message=\"UNRELIABLE: ", safe(outcome.reason), "\">",
               safe(logs_of(outcome)), "</error>\n");
  if (outcome.verdict == Verdict::kSkipped)
    xml += cat("    <skipped message=\"", safe(outcome.reason), "\"/>\n");
  return xml + cat("    <system-out>", safe(table), "</system-out>\n  </testcase>\n");
}

}  // namespace

std::string junit_xml(const std::vector<ConfigOutcome>& outcomes) {
  const auto count = [&](Verdict verdict) {
    return std::count_if(outcomes.begin(), outcomes.end(),
                         [&](const ConfigOutcome& outcome) { return outcome.verdict == verdict; });
  };
  double seconds = 0;
  std::string cases;
  for (const ConfigOutcome& outcome : outcomes) {
    seconds += seconds_of(outcome);
    cases += test_case(outcome);
  }
  return cat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"emblem bench suite\"",
             " tests=\"", outcomes.size(), "\" failures=\"", count(Verdict::kWorse), "\" errors=\"",
             count(Verdict::kUnreliable), "\" skipped=\"", count(Verdict::kSkipped), "\" time=\"",
             seconds, "\">\n", cases, "</testsuite>\n");
}

}  // namespace emblem
