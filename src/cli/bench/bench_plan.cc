#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "bench/plan/plan_bench.h"
#include "cli/bench/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "cli/rank_body.h"
#include "cli/rank_options.h"
#include "comm/mpi/mpi.h"
#include "core/files/file.h"
#include "core/math/hash.h"
#include "core/system/log.h"
#include "core/system/process.h"
#include "core/system/subprocess.h"
#include "core/text/joined.h"
#include "core/text/text.h"

namespace emblem {
namespace {

struct PlanOptionsOfCli : PlanBenchOptions {
  PipelineOptions device;
  RankOptions ranks;
  std::vector<std::string> transports;
  std::vector<int> sizes_of_job = {1, 2, 4, 8};
  std::string json;
  bool quick = false;

  void make_quick() {
    batches = {128, 512};
    seconds = 0.01;
    probe_seconds = 0.005;
  }
};

void print_plans(const std::vector<BenchResult>& results) {
  std::printf("%s\n", plan_table(results).c_str());
  std::fflush(stdout);
}

// All ranks that this process is, or is one of.
std::vector<BenchResult> bench_here(const PlanOptionsOfCli& options, const std::string& transport,
                                    int thread_ranks) {
  std::vector<BenchResult> results;
  const RankJob job{
      .device = options.device,
      .ranks = options.ranks,
      .transport = transport,
      .thread_ranks = thread_ranks,
      .configuration = hash_string(cat(joined(options.dims, ","), " ", joined(options.batches, ","),
                                       " ", joined(options.kinds, ",")))};
  run_ranks(job, [&](const Workers& workers, Communicator& control, Communicator& exchange) {
    std::vector<BenchResult> own = bench_plan(workers.context, control, exchange, options);
    if (control.rank() == 0) results = std::move(own);
  });
  return results;
}

std::vector<std::string> options_of_rank(const PlanOptionsOfCli& options,
                                         const std::string& transport, const std::string& json) {
  std::vector<std::string> words = {"bench",           "plan",
                                    "--transport",     transport,
                                    "--dims",          joined(options.dims, ","),
                                    "--batches",       joined(options.batches, ","),
                                    "--kinds",         joined(options.kinds, ","),
                                    "--seconds",       cat(options.seconds),
                                    "--probe-seconds", cat(options.probe_seconds),
                                    "--repeats",       cat(options.repeats),
                                    "--device",        options.device.device,
                                    "--json",          json};
  if (options.device.threads > 0)
    words.insert(words.end(), {"--threads", cat(options.device.threads)});
  return words;
}

// Why a job failed: the last two lines of Emblem, which are those of a rank, or of a rank and of
// emblem launch.
std::string reason_in(const std::string& log) {
  const std::string mark = "emblem: ";
  std::string before, last = "no reason was printed";
  for (const std::string& line : split(log, '\n')) {
    if (!line.starts_with(mark) || line.substr(mark.size()) == last) continue;
    before = std::exchange(last, line.substr(mark.size()));
  }
  return last.starts_with("rank ") ? cat(before, "; ", last) : last;
}

// Processes that a launcher starts on this machine.
std::vector<BenchResult> bench_processes(const PlanOptionsOfCli& options,
                                         const std::string& transport, int size) {
  const std::string base =
      cat(std::filesystem::temp_directory_path().string(), "/emblem-plan-", ::getpid());
  Subprocess job{.log = base + ".log"};
  if (transport == "mpi") {
    job.arguments = {"mpirun", "-n", std::to_string(size), program_path()};
    // For Open MPI: more ranks than cores, ranks that are not tied to cores, root in containers.
    job.environment = {{"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                       {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                       {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                       {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  } else {
    job.arguments = {program_path(), "launch", "--ranks", std::to_string(size), "--"};
  }
  for (std::string& word : options_of_rank(options, transport, base + ".json"))
    job.arguments.push_back(std::move(word));
  const SubprocessResult ended = run_subprocess(job);
  if (ended.end == SubprocessEnd::kInterrupted)
    throw Error(ErrorCode::kCancelled, "bench plan: interrupted");
  std::string problem;
  if (!ended.succeeded()) {
    problem = cat(size, " ranks over ", transport, ": ", to_text(ended), ": ",
                  reason_in(read_text_file(job.log)));
  }
  std::vector<BenchResult> results;
  if (problem.empty()) results = read_bench_results(base + ".json");
  std::error_code ignored;
  for (const char* ending : {".json", ".log"}) std::filesystem::remove(base + ending, ignored);
  if (!problem.empty()) throw Error(ErrorCode::kUnavailable, problem);
  return results;
}

std::vector<BenchResult> bench_local(const PlanOptionsOfCli& options) {
  std::vector<std::string> transports = options.transports;
  if (transports.empty() && options.device.device == "cuda") transports = {"threads"};
  if (transports.empty()) {
    transports = {"threads", "tcp"};
    if (find_mpi_module().empty())
      log_info("MPI is not measured: there is no libemblem_mpi.so");
    else
      transports.push_back("mpi");
  }
  std::vector<BenchResult> all;
  for (const std::string& transport : transports) {
    for (const int size : options.sizes_of_job) {
      if (size == 1 && transport != "threads") continue;
      std::vector<BenchResult> results = transport == "threads"
                                             ? bench_here(options, "auto", size)
                                             : bench_processes(options, transport, size);
      print_plans(results);
      all.insert(all.end(), results.begin(), results.end());
    }
  }
  return all;
}

int run(const PlanOptionsOfCli& options) {
  for (const int size : options.sizes_of_job)
    EMBLEM_REQUIRE(size >= 1 && size <= 1024, "--ranks ", size, ": expected 1 to 1024");
  EMBLEM_REQUIRE(!options.dims.empty() && !options.batches.empty() && !options.kinds.empty(),
                 "--dims, --batches and --kinds need at least one value each");
  const RankPlace place = find_rank_place(options.ranks);
  const bool is_local = place.size == 1;
  EMBLEM_REQUIRE(is_local || options.transports.size() <= 1, "a rank started by ",
                 name_of(place.launcher), " has one transport: --transport tcp or mpi");
  std::vector<BenchResult> results;
  if (is_local) {
    results = bench_local(options);
  } else {
    results = bench_here(options, options.transports.empty() ? "auto" : options.transports[0], 1);
    if (place.rank != 0) return 0;
    print_plans(results);
  }
  std::printf("%s", to_text(summarize_plans(results)).c_str());
  write_json(results, options.json);
  return 0;
}

}  // namespace

void add_plan_bench(Command& bench) {
  auto options = std::make_shared<PlanOptionsOfCli>();
  Command command = bench.add_command("plan",
                                      "Predicted against measured step times and memory of plans "
                                      "for tables on several ranks: probes "
                                      "the machine, then trains a small DLRM with each plan; "
                                      "starts its ranks on this machine, or is "
                                      "one of those that mpirun, srun or emblem launch started");
  command.choices("--transport", options->transports, {"threads", "tcp", "mpi"},
                  "How ranks are connected (default: all that are there; on a GPU threads)");
  command.list("--ranks", options->sizes_of_job, "N,...", "Numbers of ranks to start here");
  command.list("--dims", options->dims, "N,...", "Embedding dimensions");
  const Option batches =
      command.list("--batches", options->batches, "N,...", "Rows of a rank's batch");
  command.choices("--kinds", options->kinds, plan_kinds(), "Plans to measure");
  Option seconds = command.option("--seconds", options->seconds, "S",
                                  "Time for the steps of each cell, 4 to 8 times");
  seconds.positive();
  Option probe_seconds = command.option("--probe-seconds", options->probe_seconds, "S",
                                        "Time for each measurement of the probe");
  probe_seconds.positive();
  command
      .option("--repeats", options->repeats, "N",
              "Repeat a probe and its cells up to N times where steps with rows over all ranks "
              "changed by more than 10 % between them")
      .range(0, 100);
  command
      .flag("--quick", options->quick,
            "Batches of 128 and 512 rows, and less time for each measurement")
      .excludes(batches)
      .excludes(seconds)
      .excludes(probe_seconds);
  add_device_options(command, options->device);
  add_rank_options(command, options->ranks);
  command.output("--json", options->json, "Also write the results to this file");
  command.run_interruptible([options] {
    if (options->quick) options->make_quick();
    return run(*options);
  });
}

}  // namespace emblem
