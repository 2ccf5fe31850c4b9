#include <cstdio>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "cli/rank_options.h"
#include "config/load/evaluation_input.h"
#include "core/files/file.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "ranks/ranks.h"
#include "train/learner/lookup_report.h"
#include "train/predict/full_retrieval.h"
#include "train/predict/tree_retrieval.h"
#include "train/state/restored.h"

namespace emblem {
namespace {

struct EvalArguments : CheckpointOptions {
  std::string input, json;
  std::vector<std::string> filters;
  FullRetrievalOptions retrieval;  // --items or --tree, and what belongs to it
  std::string tree;
  RankOptions ranks;
  TransportOptions transport;
};

void print(const Evaluation& evaluation) {
  std::printf("%s\n", to_text(evaluation).c_str());
  std::printf("%ld rows in %s (%s rows/s)\n", static_cast<long>(evaluation.rows),
              format_duration(evaluation.seconds).c_str(),
              format_count(static_cast<double>(evaluation.rows) / evaluation.seconds).c_str());
  if (evaluation.bad_rows > 0)
    std::printf("skipped %ld bad rows\n", static_cast<long>(evaluation.bad_rows));
}

void report(const EvalArguments& options, const RestoredModel& restored,
            const Evaluation& evaluation) {
  print(evaluation);
  log_missing_values(evaluation.lookups, LookupPass::kEvaluation);
  if (!options.json.empty())
    write_text_file_atomically(options.json,
                               to_json(evaluation, restored.checkpoint(), restored.step()) + "\n");
}

// The metrics of a search of all items, or of a tree, in place of those of the configuration.
void run_retrieval(const EvalArguments& options) {
  const bool has_tree = !options.tree.empty();
  const Storage storage = open_storage(options.remote);
  const Workers workers = make_workers(options, 0);
  RestoredModel restored(workers.context, find_checkpoint(options.checkpoint, storage),
                         options.config, overrides_of(options), World::alone(),
                         has_tree ? RestoredFor::kEvaluation : RestoredFor::kPrediction);
  FullRetrievalOptions retrieval = options.retrieval;
  EMBLEM_REQUIRE(!options.input.empty(), has_tree ? "--tree" : "--items",
                 " needs --input, rows of what users chose");
  EMBLEM_REQUIRE(has_tree || !retrieval.item_id.empty(),
                 "--items needs --item-id, the column with the ids of items");
  retrieval.input = options.input;
  retrieval.filters = options.filters;
  refuse_input_or_checkpoint_as_output("--json", options.json, options, restored.checkpoint(),
                                       cat(options.input, ",", retrieval.items));
  const PassWatch watch = watch_pass("evaluating");
  report(options, restored,
         has_tree
             ? evaluate_tree_retrieval(workers.context, restored, {options.tree, retrieval}, watch)
             : evaluate_full_retrieval(workers.context, restored, retrieval, watch));
}

void run_as_rank(const EvalArguments& options, JobRanks& ranks) {
  if (!options.retrieval.items.empty() || !options.tree.empty()) {
    EMBLEM_REQUIRE(ranks.world().size() == 1,
                   "--items and --tree are for one process, not for ranks");
    return run_retrieval(options);
  }
  const FullRetrievalOptions& retrieval = options.retrieval;
  EMBLEM_REQUIRE(retrieval.item_id.empty() && retrieval.user_id.empty() &&
                     retrieval.most == FullRetrievalOptions().most,
                 "--item-id, --user-id, --seen and --k need --items or --tree, what is searched");
  const Storage storage = open_storage(options.remote);  // holds a copy that is fetched
  const std::string checkpoint = ranks.find_common_checkpoint(options.checkpoint, storage);
  if (options.input.empty() && options.eval_input.empty())
    refuse_two_endpoints(options, checkpoint);
  const Workers workers = make_workers(options, 0);
  ranks.open_device(workers.context, options.transport.device);
  RestoredModel restored(workers.context, checkpoint, options.config, overrides_of(options),
                         ranks.world());
  refuse_input_or_checkpoint_as_output(
      "--json", options.json, options, restored.checkpoint(),
      options.input.empty() ? evaluation_input(restored.config()) : options.input);
  const Evaluation evaluation =
      restored.evaluate(options.input, options.filters, watch_pass("evaluating"));
  if (!ranks.reports()) return;
  report(options, restored, evaluation);
  const std::string undefined =
      undefined_metrics_reason(evaluation, restored.config().data_config().label_positive());
  if (!undefined.empty()) log_warn(undefined);
}

void run(const EvalArguments& options) {
  std::string command = cat("eval ", options.checkpoint, " ", options.input);
  for (const std::string& filter : options.filters) command += cat(" --filter ", filter);
  ModelRanks ranks(options.ranks, options.transport.ranks, command);
  ranks.run([&] { run_as_rank(options, ranks); });
}

void add_retrieval_options(Command& command, FullRetrievalOptions& options, std::string& tree) {
  const Option items = command.option("--items", options.items, "PATH",
                                      "All items of a matching model, or their vectors as a faiss "
                                      "folder (faiss_index, id_mapping): "
                                      "search them for each user, and report recall, hit rate, "
                                      "NDCG and MRR in place of the model's "
                                      "metrics. --input are rows of what users chose");
  command
      .option(
          "--tree", tree, "DIR",
          "Folder of a tree of items (emblem tree), of a model with tdm_sampler: search the tree "
          "for each user, and report the same")
      .excludes(items);
  command.option("--item-id", options.item_id, "COLUMN",
                 "Column of --items, --input and --seen with the ids of items: whole numbers "
                 "(default with --tree: item_id_field of the sampler)");
  const Option user = command.option(
      "--user-id", options.user_id, "COLUMN",
      "Column of --input and --seen: rows of the same value are of one user, who has the features "
      "of the first one (default: each row is a user)");
  command
      .option("--seen", options.seen, "PATH",
              "Rows of what users chose before, as the training data: items that are not searched")
      .needs(user);
  command.list("--k", options.most, "N,...", "Items that are found for a user");
}

}  // namespace

void add_eval(Command& program) {
  auto options = std::make_shared<EvalArguments>();
  Command command = program.add_command("eval", "Evaluate a checkpoint on a data set");
  add_checkpoint_options(command, *options);
  command.option("--input", options->input, "PATH",
                 "Data set (default: eval_input_path, or the rows held out of training)");
  add_filter_option(command, options->filters);
  add_retrieval_options(command, options->retrieval, options->tree);
  command.output("--json", options->json, "Also write the metrics to this file");
  add_rank_options(command, options->ranks);
  add_transport_options(command, options->transport);
  command.run([options] { run(*options); });
}

}  // namespace emblem
