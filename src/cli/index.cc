#include <cstdio>
#include <filesystem>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "config/feature/matching.h"
#include "core/math/half.h"
#include "core/text/text.h"
#include "retrieval/faiss_folder.h"
#include "retrieval/index.h"
#include "serve/engine/retrieval/stored_columns.h"
#include "serve/repository/export.h"
#include "train/learner/lookup_report.h"
#include "train/predict/item_vectors.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

struct IndexArguments : PipelineOptions {
  std::string checkpoint, items, out, faiss_out, kind, dtype = "fp32";
  ItemColumns columns;
  std::vector<std::string> filters;
  int64_t lists = 0, probes = 0, version = 0;
  double recall = 0.0;
};

IndexSettings settings_of(const IndexArguments& options, config::Similarity similarity,
                          int64_t dim) {
  IndexSettings settings{
      .dim = dim,
      .similarity = similarity == config::COSINE ? Similarity::kCosine : Similarity::kInnerProduct,
      .dtype = parse_dtype(options.dtype).value(),
      .kind = options.kind == "ivf_flat" ? IndexKind::kIvfFlat : IndexKind::kFlat,
      .lists = options.lists,
      .attributes = options.columns.attributes};
  if (options.probes > 0) settings.probes = options.probes;
  return settings;
}

void measure_lists(const Context& context, const IndexArguments& options, Index& index) {
  if (options.recall > 0.0)
    index.choose_probes(context, options.recall);
  else if (index.settings().kind == IndexKind::kIvfFlat)
    index.measure_recall(context);
}

struct MadeIndex {
  std::unique_ptr<Index> index;
  std::unique_ptr<StoredColumns> columns;
  PredictionPass pass;  // how the items were read
};

// Of items that the tower encodes.
MadeIndex encoded_index(const Context& context, const IndexArguments& options,
                        const MatchingSpec& model, RestoredModel& restored) {
  EMBLEM_REQUIRE(!options.columns.id.empty(), "--items needs --id, the column with the ids of ",
                 "items");
  const EncodedItems items = encode_items(restored, options.items, options.columns, options.filters,
                                          watch_pass("encoding items"));
  return {Index::build(context, settings_of(options, model.similarity, items.dim),
                       {.ids = items.ids,
                        .vectors = {items.vectors.data(), std::ssize(items.ids), items.dim},
                        .attributes = items.attributes}),
          std::make_unique<StoredColumns>(options.columns.stored, items.ids, items.stored),
          items.pass};
}

// Of the vectors of a faiss folder, whose lists stay unless the options ask for something else.
MadeIndex faiss_index(const Context& context, const IndexArguments& options,
                      const MatchingSpec& model) {
  EMBLEM_REQUIRE(options.columns.id.empty() && options.columns.attributes.empty() &&
                     options.columns.stored.empty() && options.filters.empty(),
                 "--items is a faiss folder, which has ids and vectors only: omit --id, "
                 "--attributes, --columns and --filter");
  const FaissFolder folder = read_faiss_items(options.items, model);
  IndexSettings settings = settings_of(options, model.similarity, folder.dim);
  if (folder.lists.empty() || options.kind == "flat" || options.lists > 0)
    return {Index::build(context, settings, folder.items()), nullptr, {}};
  settings.kind = IndexKind::kIvfFlat;
  if (options.probes == 0) settings.probes = folder.probes;
  return {Index::build(context, settings, folder.items(), folder.item_lists()), nullptr, {}};
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
  EMBLEM_REQUIRE(options.faiss_out.empty() || !fs::exists(options.faiss_out), "--faiss-out ",
                 options.faiss_out, " exists; give a new folder");
  EMBLEM_REQUIRE(options.probes == 0 || options.recall == 0.0,
                 "--recall chooses the probes; give it or --probes");
  check_model_folder(options.out, options.version);
  const Storage storage = open_storage(options.remote);
  const std::string checkpoint = find_checkpoint(options.checkpoint, storage);
  const Workers workers = make_workers(options, 0);
  RestoredModel restored(workers.context, checkpoint, "", overrides_of(options), World::alone(),
                         RestoredFor::kPrediction);
  const MatchingSpec model = require_towers(restored.config().model_config(), "an index");
  const Context cpu{.threads = workers.context.threads};
  const MadeIndex made = is_faiss_folder(options.items)
                             ? faiss_index(cpu, options, model)
                             : encoded_index(cpu, options, model, restored);
  Index* const index = made.index.get();
  measure_lists(cpu, options, *index);
  const ExportedModel written =
      export_model(checkpoint, options.out, options.version, nullptr, storage, store_lock_options(),
                   index, made.columns.get());
  std::printf("wrote %s (step %ld, %s)%s\n", written.folder.c_str(),
              static_cast<long>(written.step),
              format_bytes(static_cast<double>(written.bytes)).c_str(),
              written.wrote_config ? " and config.pbtxt" : "");
  std::printf("index: %ld items of %ld elements, %s %s, %s\n", static_cast<long>(index->count()),
              static_cast<long>(index->settings().dim), name_of(index->settings().kind),
              options.dtype.c_str(), name_of(index->settings().similarity));
  print_lists(*index);
  if (!options.faiss_out.empty()) {
    write_faiss_folder(*index, options.faiss_out);
    std::printf("wrote %s, a faiss index\n", options.faiss_out.c_str());
  }
  if (made.pass.bad_rows > 0)
    std::printf("skipped %ld bad rows\n", static_cast<long>(made.pass.bad_rows));
  log_missing_values(made.pass.lookups, LookupPass::kEvaluation);
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
      .option(
          "--items", options->items, "PATH",
          "Items, in any format that has the columns of the item tower; others are not read. Or "
          "a folder that faiss or TorchEasyRec's create_faiss_index wrote (faiss_index, "
          "id_mapping), whose vectors are taken as they are")
      .required();
  command.option("--id", options->columns.id, "COLUMN",
                 "Column with the ids of items: whole numbers, each once; not for a faiss folder");
  command.repeatable("--filter", options->filters, "CONDITION",
                     "Read only items that fulfil this, as 'price > 10' or 'country in [de, fr]' "
                     "(repeatable; default: all)");
  command
      .option("--out", options->out, "DIR",
              "REPOSITORY/NAME: the model's folder; a new version is added to it")
      .required();
  command.option("--faiss-out", options->faiss_out, "DIR",
                 "Also write the items' vectors as a new folder that faiss reads: faiss_index, "
                 "id_mapping");
  command.option("--version", options->version, "N", "Version number (default: the next one)")
      .positive();
  command.choice("--kind", options->kind, {"flat", "ivf_flat"},
                 "flat: searches are exact; ivf_flat: they look at the lists with the nearest "
                 "centroids (default: flat, or that of a faiss folder)");
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
