#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "cli/rank_body.h"
#include "cli/rank_options.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "core/math/hash.h"
#include "core/text/text.h"
#include "plan/probe/probe.h"
#include "ranks/ranks.h"

namespace emblem {
namespace {

struct ProbeArguments : PipelineOptions {
  std::string out;
  int thread_ranks = 1;
  int64_t sample = 16;
  double seconds = 0.05;
  RankOptions ranks;
  TransportOptions transport;
};

void print_profile(const MachineProfile& profile, const std::string& out) {
  const auto milliseconds = [](double seconds) { return 1e3 * seconds; };
  std::printf("%d ranks (%s, %s, %d threads each) on %s\n", profile.ranks(), profile.device.c_str(),
              profile.transport.c_str(), profile.threads, profile.hosts.front().c_str());
  for (const CurvePoint& point : profile.exchange.even.points())
    std::printf("  exchange     %10s per rank %.3f ms\n", format_bytes(point.size).c_str(),
                milliseconds(point.seconds));
  for (const CurvePoint& point : profile.pass.dense.points())
    std::printf("  layers       %10.0f rows     %.3f ms\n", point.size,
                milliseconds(point.seconds));
  for (const TableCosts& costs : profile.tables) {
    const KernelCurves::Level& level = costs.gather.levels().back();
    const CurvePoint& gather = level.curve.points().back();
    const CurvePoint& update = costs.update.levels().back().curve.points().back();
    std::printf("  rows         %10.0f of %s: gather %.3f ms, update %.3f ms\n", gather.size,
                to_text(costs.table).c_str(), milliseconds(gather.seconds),
                milliseconds(update.seconds));
  }
  for (const StepCosts::Held& each : profile.steps.held) {
    const std::vector<CurvePoint>& points = each.seconds.points();
    const CurvePoint& middle = points[points.size() / 2];
    std::printf("  whole step   %10.0f rows     %.3f ms with %s%s\n", middle.size,
                milliseconds(middle.seconds), name_of(each.tables.holding),
                each.tables.every_second ? " for every second table" : "");
  }
  std::printf("written to %s; emblem plan --probe %s makes a plan\n", out.c_str(), out.c_str());
}

int run(const ProbeArguments& options) {
  silence_other_ranks(options.ranks);
  const config::PipelineConfig config = load(options);
  require_local_inputs(config);
  const FeatureLayout layout = layout_of(config);
  const RankJob job{.device = options,
                    .ranks = options.ranks,
                    .transport = options.transport.ranks,
                    .device_transport = options.transport.device,
                    .thread_ranks = options.thread_ranks,
                    .configuration = hash_string(to_stored_text(config)),
                    .configured_threads = config.train_config().num_threads()};
  run_ranks(job, [&](const Workers& workers, Communicator& control, Communicator& exchange) {
    const BatchShape shape = batch_shape_of(config, control.size());
    const Workload workload =
        sample_workload(config, layout, shape.rows, shape.shards, options.sample, 1.05);
    ProbeOptions probe{.rows = {std::max<int64_t>(1, shape.rows / 2), shape.rows, 2 * shape.rows},
                       .seconds = options.seconds};
    probe.batches = [&](const FeatureLayout& its_layout, int64_t rows, int64_t count) {
      return read_batches(config, its_layout, rows, count, control.rank(), control.size());
    };
    const MachineProfile profile =
        probe_machine(workers.context, {control, exchange}, config, workload, probe);
    if (control.rank() != 0) return;
    write_text_file_atomically(options.out, to_json(profile));
    print_profile(profile, options.out);
  });
  return 0;
}

}  // namespace

void add_probe(Command& program) {
  auto options = std::make_shared<ProbeArguments>();
  Command command = program.add_command(
      "probe",
      "Measure what emblem plan needs to know about the machines of a training: exchanges, tables, "
      "the model's own layers and whole steps, on all ranks at the same time. Start it as the "
      "training will be started (mpirun, emblem launch, ...), or with --ranks");
  add_config_options(command, *options);
  add_device_options(command, *options);
  command.output("--out", options->out, "File for the measurements (JSON)").required();
  command.option("--ranks", options->thread_ranks, "N", "Ranks as threads of this process")
      .range(1, 1024);
  command.option("--sample", options->sample, "N", "Batches of the data to count keys in; 0: none")
      .at_least(0);
  command.option("--seconds", options->seconds, "S", "Time for each of some hundred measurements")
      .positive();
  add_rank_options(command, options->ranks);
  add_transport_options(command, options->transport);
  command.run([options] { return run(*options); });
}

}  // namespace emblem
