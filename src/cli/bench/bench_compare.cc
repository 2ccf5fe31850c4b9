#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench/judge/compare.h"
#include "cli/commands.h"

namespace emblem {
namespace {

struct BenchCompareArguments {
  std::string a, b;
};

int run(const BenchCompareArguments& options) {
  const auto comparisons =
      compare_results(read_bench_results(options.a), read_bench_results(options.b));
  std::printf("A  %s\nB  %s\n\n%s", options.a.c_str(), options.b.c_str(),
              to_text(comparisons).c_str());
  return std::any_of(comparisons.begin(), comparisons.end(), [](auto& one) { return one.worse(); });
}

}  // namespace

void add_compare_bench(Command& bench) {
  auto options = std::make_shared<BenchCompareArguments>();
  Command command = bench.add_command(
      "compare",
      "Compare two result files: a significance test and an effect size per metric; exit "
      "status 1 if B is worse in one");
  command.argument("A", options->a, "Results (.json), before").required();
  command.argument("B", options->b, "Results (.json), after").required();
  command.run([options] { return run(*options); });
}

}  // namespace emblem
