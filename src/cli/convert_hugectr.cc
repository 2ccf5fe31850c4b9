#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "config/feature/features.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "embedding/files/table_files.h"
#include "hugectr/convert.h"
#include "model/check/check.h"
#include "ps/config/sparse_folder.h"
#include "train/learner/learner.h"
#include "train/state/run_state.h"

namespace emblem {
namespace {

struct ConvertHugectrArguments {
  std::string graph, dense, output;
  std::vector<std::string> sparse;
};

std::span<const float> floats_of(const MappedFile& file) {
  EMBLEM_REQUIRE(file.bytes().size() % sizeof(float) == 0, file.path(), " has ",
                 file.bytes().size(), " bytes, which are not whole float32 numbers");
  return {reinterpret_cast<const float*>(file.bytes().data()), file.bytes().size() / sizeof(float)};
}

// Sets the size of the tables in the configuration.
void set_capacities(const ConvertHugectrArguments& options, hugectr::ConvertedModel& model) {
  std::map<std::string, uint64_t> rows;
  for (const hugectr::ConvertedTable& table : model.tables) {
    EMBLEM_REQUIRE(table.embedding < options.sparse.size(), "the graph has embedding ",
                   table.embedding + 1, ", '", table.name, "', but --sparse was given ",
                   options.sparse.size(), " times; give one folder for each, in the graph's order");
    rows[table.name] = static_cast<uint64_t>(
        std::max<int64_t>(1, SparseFolder(options.sparse[table.embedding], table.dim).rows()));
  }
  for (auto& feature : *model.config.mutable_feature_configs()) {
    if (!feature.has_id_feature()) continue;
    const std::string& name = feature.id_feature().embedding_name();
    const auto found = rows.contains(name) ? rows.find(name) : rows.find(name + "_wide");
    feature.mutable_id_feature()->mutable_dynamicemb()->set_max_capacity(found->second);
  }
}

void copy_values(const std::map<std::string, std::vector<float>>& values,
                 std::span<const Parameter> parameters, View<float> to) {
  for (const Parameter& parameter : parameters) {
    const auto found = values.find(parameter.name);
    const auto floats = static_cast<size_t>(parameter.rows * parameter.cols);
    EMBLEM_REQUIRE(found != values.end() && found->second.size() == floats, "the files have ",
                   found == values.end() ? 0 : found->second.size(), " values for the parameter ",
                   parameter.name, ", which has ", floats);
    std::copy(found->second.begin(), found->second.end(), to.data + parameter.begin);
  }
}

// Statistics of BatchNorm layers, in a file next to the dense one.
std::vector<hugectr::Statistics> read_statistics(const ConvertHugectrArguments& options,
                                                 const hugectr::Graph& graph) {
  const auto count =
      std::count_if(graph.layers.begin(), graph.layers.end(),
                    [](const hugectr::Layer& layer) { return layer.type == "BatchNorm"; });
  if (count == 0) return {};
  const std::string file = options.dense + ".ntp.json";
  auto statistics = hugectr::parse_statistics(read_text_file(file), file);
  EMBLEM_REQUIRE(statistics.size() == static_cast<size_t>(count), file, " has statistics of ",
                 statistics.size(), " layers, but the graph has ", count, " of type BatchNorm");
  return statistics;
}

void load_tables(const ConvertHugectrArguments& options, const hugectr::ConvertedModel& model,
                 Learner& learner) {
  for (Table* table : learner.model().tables()) {
    const auto found = std::find_if(
        model.tables.begin(), model.tables.end(),
        [&](const hugectr::ConvertedTable& one) { return one.name == table->settings().name; });
    EMBLEM_REQUIRE(found != model.tables.end(), "table ", table->settings().name,
                   " has no embedding in the graph");
    load_table(learner.context(), options.sparse[found->embedding], LoadMode::kWeightsOnly, *table);
  }
}

void run(const ConvertHugectrArguments& options) {
  const hugectr::Graph graph = hugectr::parse_graph(read_text_file(options.graph), options.graph);
  const MappedFile file(options.dense);
  const hugectr::DenseFile dense(graph, floats_of(file), options.dense);
  hugectr::ConvertedModel model = hugectr::convert(graph, dense, read_statistics(options, graph));
  const auto embeddings =
      std::count_if(graph.layers.begin(), graph.layers.end(),
                    [](const hugectr::Layer& layer) { return layer.is_embedding(); });
  EMBLEM_REQUIRE(options.sparse.size() == static_cast<size_t>(embeddings), "--sparse was given ",
                 options.sparse.size(), " times, but the graph has ", embeddings,
                 " embeddings; give one folder for each, in the graph's order");
  set_capacities(options, model);
  model.config.set_model_dir(options.output);
  // Reading the text expands ranges of features.
  const config::PipelineConfig config = parse_pipeline(to_text(model.config), options.graph);
  check_pipeline(config);
  const FeatureLayout layout = layout_of(config);
  Learner learner(Context{}, config, layout, 1);
  Graph& network = learner.model().graph();
  copy_values(model.parameters, network.parameter_list(), network.parameters());
  copy_values(model.statistics, network.statistic_list(), network.statistics());
  load_tables(options, model, learner);
  const std::string checkpoint = save_run(options.output, learner, {}, config);
  std::printf("wrote %s: %s\n", checkpoint.c_str(), learner.model().name().c_str());
}

}  // namespace

void add_convert_hugectr(Command& program) {
  auto options = std::make_shared<ConvertHugectrArguments>();
  Command command = program.add_command(
      "convert-hugectr", "Convert a model that HugeCTR trained to a checkpoint of Emblem");
  command.option("--graph", options->graph, "FILE", "The model's JSON graph").required();
  command
      .option("--dense", options->dense, "FILE",
              "Its dense parameters, *_dense_*.model; with BatchNorm also FILE.ntp.json")
      .required();
  command
      .repeatable(
          "--sparse", options->sparse, "DIR",
          "Its sparse model, a folder with key and emb_vector; repeat it for each embedding "
          "in the graph's order")
      .required();
  command
      .option("--output", options->output, "DIR",
              "Model directory to write, which eval, predict and export take")
      .required();
  command.run([options] { run(*options); });
}

}  // namespace emblem
