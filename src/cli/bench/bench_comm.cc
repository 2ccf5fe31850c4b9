#include <cmath>
#include <cstdio>
#include <list>
#include <memory>

#include "bench/comm/comm_bench.h"
#include "bench/result/result_table.h"
#include "cli/bench/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "cli/rank_body.h"
#include "cli/rank_options.h"
#include "core/math/hash.h"
#include "core/system/process.h"
#include "core/system/subprocess.h"
#include "core/text/joined.h"
#include "core/text/text.h"

namespace emblem {
namespace {

struct CommOptionsOfCli : CommBenchOptions {
  RankOptions ranks;
  std::string device = "cpu";
  std::vector<std::string> transports;
  std::vector<int> sizes_of_job = {2, 4};
  std::vector<std::string> size_words;
  std::string json;
};

std::string cell_of(const BenchResult& result, const char* metric) {
  const Measure* found = find_named(result.metrics, metric);
  return found == nullptr ? "" : format_metric(found->value, found->unit);
}

std::vector<std::string> row_of(const BenchResult& result) {
  const int64_t bytes = std::get<int64_t>(*find_named(result.settings, "bytes"));
  std::vector<std::string> row = {"  " + format_setting(*find_named(result.settings, "collective")),
                                  bytes == 0 ? "" : format_bytes(static_cast<double>(bytes)),
                                  cell_of(result, "seconds"), cell_of(result, "bytes_per_second")};
  if (find_named(result.metrics, "host_seconds") != nullptr)
    row.insert(row.begin() + 3, cell_of(result, "host_seconds"));
  row.push_back(result.ceilings.empty() ? "" : format_metric(result.ceilings[0].second, "s"));
  row.push_back(result.shares.empty() ? "" : cat(std::lround(100 * result.shares[0].second), " %"));
  return row;
}

void print_results(const std::vector<BenchResult>& results) {
  if (results.empty()) return;
  const auto setting = [&](const char* name) {
    return format_setting(*find_named(results.front().settings, name));
  };
  std::string floor = "floor";
  for (const BenchResult& result : results)
    if (!result.ceilings.empty()) floor = result.ceilings[0].first;
  if (floor.ends_with(" seconds")) floor.resize(floor.size() - 8);
  std::vector<std::vector<std::string>> rows = {
      {"", "bytes", "time", "rate per rank", floor, "share"}};
  const bool on_gpu = find_named(results.front().metrics, "host_seconds") != nullptr;
  if (on_gpu) rows[0].insert(rows[0].begin() + 3, "host time");
  for (const BenchResult& result : results) rows.push_back(row_of(result));
  std::printf("%s%s, %s ranks, hosts: %s\n%s\n", setting("transport").c_str(),
              on_gpu ? ", GPU memory" : "", setting("ranks").c_str(), setting("hosts").c_str(),
              align_columns(rows).c_str());
  std::fflush(stdout);
}

// On a GPU `device_transport` connects the ranks, of which "auto" is one.
RankJob job_of(const CommOptionsOfCli& options, const std::string& transport,
               const std::string& device_transport) {
  RankJob job{.ranks = options.ranks,
              .transport = transport,
              .device_transport = options.device == "cuda" ? device_transport : "auto",
              .configuration = hash_of(options) ^ hash_string(options.device)};
  job.device.device = options.device;
  job.device.threads = 1;
  return job;
}

// Measures on every rank; `results` are those of rank 0.
RankBody measure(const CommOptionsOfCli& options, std::vector<BenchResult>& results) {
  return [&](const Workers& workers, Communicator& control, Communicator& exchange) {
    std::vector<BenchResult> own =
        bench_comm(workers.context, exchange, options, [](const BenchResult&) {});
    if (control.rank() == 0) results = std::move(own);
  };
}

std::vector<BenchResult> bench_threads(int size, const CommOptionsOfCli& options) {
  std::vector<BenchResult> results;
  RankJob job = job_of(options, "auto", "auto");
  job.thread_ranks = size;
  run_thread_ranks(job, measure(options, results));
  return results;
}

// This process is rank 0 and starts the others on this machine.
std::vector<BenchResult> bench_processes(int size, const CommOptionsOfCli& options,
                                         const std::string& transport) {
  std::list<RunningSubprocess> others;
  const auto start_others = [&](uint16_t port) {
    std::vector<std::string> sizes;
    for (const int64_t one : options.sizes) sizes.push_back(std::to_string(one));
    for (int rank = 1; rank < size; ++rank)
      others.emplace_back(Subprocess{
          {program_path(), "bench", "comm", "--device", options.device, "--transport", transport,
           "--rank", std::to_string(rank), "--world", std::to_string(size), "--rendezvous",
           cat("127.0.0.1:", port), "--sizes", joined(sizes, ","), "--collectives",
           joined(options.collectives, ","), "--seconds", cat(options.seconds)}});
  };
  RankPlace place;
  place.size = size;
  place.address = "127.0.0.1";
  std::vector<BenchResult> results;
  run_process_rank(place, job_of(options, "tcp", transport), measure(options, results),
                   start_others);
  return results;
}

std::vector<BenchResult> bench_local(const CommOptionsOfCli& options) {
  std::vector<BenchResult> all;
  std::vector<std::string> transports = options.transports;
  if (transports.empty() && options.device == "cuda") transports = {"threads", "staged", "nccl"};
  if (transports.empty()) transports = {"threads", "tcp"};
  for (const std::string& transport : transports) {
    EMBLEM_REQUIRE(transport != "mpi",
                   "--transport mpi needs mpirun: mpirun -n 4 emblem bench comm --transport mpi");
    for (const int size : options.sizes_of_job) {
      const auto results = transport == "threads" ? bench_threads(size, options)
                                                  : bench_processes(size, options, transport);
      print_results(results);
      all.insert(all.end(), results.begin(), results.end());
    }
  }
  return all;
}

// One of the ranks that a launcher or a person started.
std::vector<BenchResult> bench_started(const RankPlace& place, const CommOptionsOfCli& options) {
  EMBLEM_REQUIRE(options.transports.size() <= 1 &&
                     (options.transports.empty() || options.transports[0] != "threads"),
                 "a rank started by ", name_of(place.launcher), " has one transport: --transport ",
                 options.device == "cuda" ? "staged or nccl" : "tcp or mpi");
  const std::string transport = options.transports.empty() ? "auto" : options.transports[0];
  std::vector<BenchResult> results;
  run_process_rank(place, job_of(options, options.device == "cuda" ? "auto" : transport, transport),
                   measure(options, results));
  print_results(results);
  return results;
}

void check_transports(const CommOptionsOfCli& options) {
  for (const std::string& transport : options.transports) {
    const bool of_gpu = transport == "staged" || transport == "nccl";
    const bool fits = transport == "threads" || of_gpu == (options.device == "cuda");
    EMBLEM_REQUIRE(fits, "--transport ", transport, " is for memory of ",
                   of_gpu ? "a GPU; add --device cuda" : "the host; use --device cpu");
  }
}

int run(CommOptionsOfCli& options) {
  check_transports(options);
  if (!options.size_words.empty()) {
    options.sizes.clear();
    for (const std::string& word : options.size_words)
      options.sizes.push_back(parse_size(word, "--sizes"));
  }
  if (options.collectives.empty())
    options.collectives = collectives_of(options.device == "cuda" ? Device::kCuda : Device::kCpu);
  for (const int size : options.sizes_of_job)
    EMBLEM_REQUIRE(size >= 1 && size <= 1024, "--ranks ", size, ": expected 1 to 1024");
  const RankPlace place = find_rank_place(options.ranks);
  const bool is_local =
      place.launcher == Launcher::kNone || (place.size == 1 && options.transports.empty());
  const std::vector<BenchResult> results =
      is_local ? bench_local(options) : bench_started(place, options);
  if (place.rank == 0) write_json(results, options.json);
  return 0;
}

}  // namespace

void add_comm_bench(Command& bench) {
  auto options = std::make_shared<CommOptionsOfCli>();
  Command command = bench.add_command(
      "comm",
      "Speed of collectives between ranks by size, compared with memory copies and loopback "
      "connections; starts its ranks on this machine, or is one of those that mpirun, srun or "
      "RANK and WORLD_SIZE describe");
  command.choice("--device", options->device, {"cpu", "cuda"}, "Device whose memory is exchanged");
  command.choices("--transport", options->transports, {"threads", "tcp", "mpi", "staged", "nccl"},
                  "How ranks are connected (default: threads,tcp; on a GPU threads,staged,nccl; "
                  "under a launcher tcp, on a GPU nccl)");
  command.list("--ranks", options->sizes_of_job, "N,...", "Numbers of ranks to start here");
  command.choices("--collectives", options->collectives, collective_names(),
                  "What to measure (default: all; on a GPU without sum_all)");
  command.list("--sizes", options->size_words, "SIZE,...",
               "Bytes of a rank's buffer (default: 8,1KiB,64KiB,1MiB,16MiB)");
  command.option("--seconds", options->seconds, "S", "Time for each measurement").positive();
  add_rank_options(command, options->ranks);
  command.output("--json", options->json, "Also write the results to this file");
  command.run_interruptible([options] { return run(*options); });
}

}  // namespace emblem
