#include <cstdio>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "config/feature/matching.h"
#include "core/math/half.h"
#include "core/text/text.h"
#include "retrieval/index.h"
#include "serve/engine/retrieval/stored_columns.h"
#include "serve/repository/export.h"
#include "train/learner/lookup_report.h"
#include "train/predict/item_vectors.h"

namespace emblem {
namespace {

struct IndexArguments : PipelineOptions {
  std::string checkpoint, items, out, kind = "flat", dtype = "fp32";
  ItemColumns columns;
  std::vector<std::string> filters;
  int64_t lists = 0, probes = 0, version = 0;
  double recall = 0.0;
};

std::unique_ptr<Index> build_index(const Context& context, const IndexArguments& options,
                                   config::Similarity similarity, const EncodedItems& items) {
  IndexSettings settings{
      .dim = items.dim,
      .similarity = similarity == config::COSINE ? Similarity::kCosine : Similarity::kInnerProduct,
      .dtype = parse_dtype(options.dtype).value(),
      .kind = options.kind == "flat" ? IndexKind::kFlat : IndexKind::kIvfFlat,
      .lists = options.lists,
      .attributes = options.columns.attributes};
  if (options.probes > 0) settings.probes = options.probes;
  const auto count = static_cast<int64_t>(items.ids.size());
  auto index = Index::build(context, settings,
                            {.ids = items.ids,
                             .vectors = {items.vectors.data(), count, items.dim},
                             .attributes = items.attributes});
  if (options.recall > 0.0)
    index->choose_probes(context, options.recall);
  else if (settings.kind == IndexKind::kIvfFlat)
    index->measure_recall(context);
  return index;
}

void print_lists(const Index& index) {
  if (index.settings().kind != IndexKind::kIvfFlat) return;
  const int64_t probes = index.settings().probes;
  std::printf("lists: searches look at %ld; recall@%ld is %.4f for items as queries\n",
              static_cast<long>(probes), static_cast<long>(Index::kRecallK),
              *index.settings().recall);
}

void run(const IndexArguments& options) {
  for (const auto& [option, given] : {std::pair{"--lists", options.lists > 0},
                                      {"--probes", options.probes > 0},
                                      {"--recall", options.recall > 0.0}})
    EMBLEM_REQUIRE(!given || options.kind == "ivf_flat", option, " needs --kind ivf_flat");
  EMBLEM_REQUIRE(options.probes == 0 || options.recall == 0.0,
                 "--recall chooses the probes; give it or --probes");
  check_model_folder(options.out, options.version);
  const Storage storage = open_storage(options.remote);
  const std::string checkpoint = find_checkpoint(options.checkpoint, storage);
  const Workers workers = make_workers(options, 0);
  RestoredModel restored(workers.context, checkpoint, "", overrides_of(options), World::alone(),
                         RestoredFor::kPrediction);
  const MatchingSpec model = require_towers(restored.config().model_config(), "an index");
  const EncodedItems items = encode_items(restored, options.items, options.columns, options.filters,
                                          watch_pass("encoding items"));
  const Context cpu{.threads = workers.context.threads};
  const auto index = build_index(cpu, options, model.similarity, items);
  const StoredColumns columns(options.columns.stored, items.ids, items.stored);
  const ExportedModel written = export_model(checkpoint, options.out, options.version, nullptr,
                                             storage, store_lock_options(), index.get(), &columns);
  std::printf("wrote %s (step %ld, %s)%s\n", written.folder.c_str(),
              static_cast<long>(written.step),
              format_bytes(static_cast<double>(written.bytes)).c_str(),
              written.wrote_config ? " and config.pbtxt" : "");
  std::printf("index: %ld items of %ld elements, %s %s, %s\n", static_cast<long>(index->count()),
              static_cast<long>(items.dim), options.kind.c_str(), options.dtype.c_str(),
              name_of(index->settings().similarity));
  print_lists(*index);
  if (items.pass.bad_rows > 0)
    std::printf("skipped %ld bad rows\n", static_cast<long>(items.pass.bad_rows));
  log_missing_values(items.pass.lookups, LookupPass::kEvaluation);
}

}  // namespace

void add_index(Command& program) {
  auto options = std::make_shared<IndexArguments>();
  Command command = program.add_command(
      "index", "Write the tower of users and an index of items as a model that emblem serve loads");
  command
      .option("--checkpoint", options->checkpoint, "DIR",
              "Checkpoint of a matching model, or model directory (its latest one)")
      .required();
  command
      .option("--items", options->items, "PATH",
              "Items, in any format that has the columns of the item tower; others are not read")
      .required();
  command
      .option("--id", options->columns.id, "COLUMN",
              "Column with the ids of items: whole numbers, each once")
      .required();
  command.repeatable("--filter", options->filters, "CONDITION",
                     "Read only items that fulfil this, as 'price > 10' or 'country in [de, fr]' "
                     "(repeatable; default: all)");
  command
      .option("--out", options->out, "DIR",
              "REPOSITORY/NAME: the model's folder; a new version is added to it")
      .required();
  command.option("--version", options->version, "N", "Version number (default: the next one)")
      .positive();
  command.choice("--kind", options->kind, {"flat", "ivf_flat"},
                 "flat: searches are exact; ivf_flat: they look at the lists with the nearest "
                 "centroids");
  command.option("--lists", options->lists, "N", "Lists of an ivf_flat (default: 2 sqrt(items))")
      .positive();
  command
      .option("--probes", options->probes, "N",
              "Lists of an ivf_flat that a search looks at (default: 16)")
      .positive();
  command
      .option(
          "--recall", options->recall, "SHARE",
          "Choose the least --probes with which searches find this share of the best 100 items, "
          "as measured with items as queries")
      .range(0, 1);
  command.choice("--dtype", options->dtype, {"fp32", "fp16", "bf16", "int8"},
                 "Type of the stored vectors");
  command.list("--attributes", options->columns.attributes, "NAME,...",
               "Columns of 1, 0, true or false that requests may filter items by; at most 64");
  command.list("--columns", options->columns.stored, "NAME,...",
               "Columns that are stored with the items, for models that rank them (then_rank)");
  add_device_options(command, *options);
  add_remote_options(command, options->remote);
  command.run_interruptible([options] {
    run(*options);
    return 0;
  });
}

}  // namespace emblem
