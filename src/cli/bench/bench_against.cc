#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/judge/against.h"
#include "cli/commands.h"
#include "core/system/process.h"
#include "core/system/progress.h"
#include "emblem/error.h"
#include "launch/interrupt_handler.h"

namespace emblem {
namespace {

// Removes an option "--name value" or "--name=value" from the arguments and returns its value;
// empty if it was not given.
std::string take_option(std::vector<std::string>& arguments, const std::string& name) {
  std::string value;
  for (size_t i = 0; i < arguments.size();) {
    const bool joined = arguments[i].starts_with(name + "=");
    if (!joined && arguments[i] != name) {
      ++i;
      continue;
    }
    if (joined)
      value = arguments[i].substr(name.size() + 1);
    else if (i + 1 < arguments.size())
      value = arguments[i + 1];
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    arguments.erase(at, std::min(at + (joined ? 1 : 2), arguments.end()));
  }
  return value;
}

int run(AgainstOptions options) {
  options.program = program_path();
  take_option(options.arguments, "--against");
  take_option(options.arguments, "--pairs");
  const std::string json = take_option(options.arguments, "--json");
  EMBLEM_REQUIRE(std::filesystem::is_regular_file(options.other), "--against ", options.other,
                 " is not a file; expected another emblem program");
  std::vector<Ratio> ratios;
  {
    const InterruptHandler handler;
    Progress progress("comparing", runs_of(options), "runs");
    progress.update(0);
    ratios = run_against(options, [&](int64_t done) { progress.update(done); });
    progress.finish();
  }
  std::printf(
      "this   %s\nother  %s\n%ld pairs of runs, alternating; above 1: this program is better\n\n%s",
      options.program.c_str(), options.other.c_str(), static_cast<long>(options.pairs),
      to_text(ratios).c_str());
  if (!json.empty()) {
    write_bench_results(json, to_results(ratios, options));
    std::printf("\nwrote %s\n", json.c_str());
  }
  // Only the main metric decides: testing all metrics would raise false alarms.
  const Ratio* before = nullptr;
  for (const Ratio& ratio : ratios) {
    const bool first =
        before == nullptr || before->benchmark != ratio.benchmark || before->name != ratio.name;
    if (first && ratio.worse()) return 1;
    before = &ratio;
  }
  return 0;
}

}  // namespace

void add_against(Command& bench, const std::vector<std::string>& arguments) {
  for (Command& command : bench.commands()) {
    auto options = std::make_shared<AgainstOptions>();
    options->arguments = arguments;
    command.option("--against", options->other, "FILE",
                   "Another emblem program: run both alternately and print the ratio of their "
                   "results with a 95 % interval");
    command.option("--pairs", options->pairs, "N", "Pairs of runs of --against").range(6, 10000);
    command.run_instead([options](const std::function<int()>& benchmark) {
      return options->other.empty() ? benchmark() : run(*options);
    });
  }
}

}  // namespace emblem
