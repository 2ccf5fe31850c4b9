#include "train/state/warm_start.h"

#include <algorithm>
#include <set>
#include <span>

#include "checkpoint/checkpoint.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "embedding/files/table_files.h"
#include "train/state/dense_values.h"
#include "train/state/run_state.h"
#include "train/state/saved_tables.h"

namespace emblem {
namespace {

constexpr size_t kMostNamesShown = 5;

// Which parts of a model a checkpoint has, and which parts of either have no counterpart.
struct Matches {
  std::vector<Table*> tables;
  std::set<std::string> tensors;  // names in dense.safetensors
  int64_t parameters = 0;
  std::vector<std::string> fresh, unused;
};

// Why the saved table does not fit; empty when it does.
std::string misfit(const Table& table, const ManifestTable& saved) {
  const std::string kind = table.is_static() ? "static" : "dynamic";
  if (saved.kind != kind) return cat("is ", kind, " here and ", saved.kind, " there");
  if (const int64_t dim = table.settings().row_dim(); saved.dim != dim)
    return cat("has dimension ", dim, " here and ", saved.dim, " there");
  if (table.is_static() && saved.rows != table.settings().capacity)
    return cat("has ", table.settings().capacity, " rows here and ", saved.rows, " there");
  return "";
}

void match_tables(const Manifest& manifest, Learner& learner, Matches& matches) {
  std::set<std::string> known;
  for (Table* table : learner.model().tables()) {
    const std::string& name = table->settings().name;
    known.insert(name);
    const auto saved = std::find_if(manifest.tables.begin(), manifest.tables.end(),
                                    [&](const ManifestTable& one) { return one.name == name; });
    const std::string why =
        saved == manifest.tables.end() ? "is not in the checkpoint" : misfit(*table, *saved);
    if (why.empty())
      matches.tables.push_back(table);
    else
      matches.fresh.push_back(cat("table ", name, " ", why));
  }
  for (const ManifestTable& saved : manifest.tables)
    if (!known.contains(saved.name)) matches.unused.push_back(cat("table ", saved.name));
}

// Parameters and running statistics.
void match_tensors(const SafetensorsFile& file, Learner& learner, Matches& matches) {
  std::map<std::string, std::vector<int64_t>> saved;
  for (const TensorRef& tensor : file.tensors())
    if (!is_training_tensor(tensor.name)) saved[tensor.name] = tensor.shape;
  const auto match = [&](const std::string& tensor, const Parameter& part) {
    const std::vector<int64_t> shape = {part.rows, part.cols};
    const auto found = saved.find(tensor);
    if (found == saved.end()) {
      matches.fresh.push_back(cat("parameter ", tensor, " is not in the checkpoint"));
    } else if (found->second != shape) {
      matches.fresh.push_back(cat("parameter ", tensor, " is ", shape_text(shape), " here and ",
                                  shape_text(found->second), " there"));
    } else {
      matches.tensors.insert(tensor);
    }
    saved.erase(tensor);
    return matches.tensors.contains(tensor);
  };
  Graph& graph = learner.model().graph();
  for (const Parameter& parameter : graph.parameter_list())
    matches.parameters += match(parameter.name, parameter) ? 1 : 0;
  for (const Parameter& statistic : graph.statistic_list())
    match(statistic_tensor(statistic), statistic);
  for (const auto& [name, shape] : saved) matches.unused.push_back(cat("parameter ", name));
}

void load_tensors(const SafetensorsFile& file, const Matches& matches, Learner& learner) {
  Graph& graph = learner.model().graph();
  DenseValues values = read_dense(learner);
  for (const Parameter& parameter : graph.parameter_list())
    if (matches.tensors.contains(parameter.name))
      file.read<float>(parameter.name, part_of<float>(values.parameters, parameter));
  for (const Parameter& statistic : graph.statistic_list())
    if (matches.tensors.contains(statistic_tensor(statistic)))
      file.read<float>(statistic_tensor(statistic), part_of<float>(values.statistics, statistic));
  write_dense(learner, values);
}

std::string list(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNamesShown);
  std::string text = joined(std::span(names).first(shown));
  if (shown < names.size()) text += cat(", and ", names.size() - shown, " more");
  return text;
}

void require_complete(const Checkpoint& checkpoint, const Matches& matches) {
  if (matches.fresh.empty() && matches.unused.empty()) return;
  std::string text = list(matches.fresh);
  if (!matches.unused.empty())
    text += cat(text.empty() ? "" : "; ", "the model has no ", list(matches.unused));
  throw Error(ErrorCode::kInvalidArgument,
              cat("cannot initialize the model from ", checkpoint.path, ": ", text,
                  "; --init-partial loads what matches and leaves the rest at its initial values"));
}

}  // namespace

WarmStartSummary load_weights(const std::string& path, Learner& learner, WarmStart mode) {
  const Checkpoint checkpoint = open_checkpoint(path);
  const SafetensorsFile dense(checkpoint.file(kDenseFile));
  Matches matches;
  match_tables(checkpoint.manifest, learner, matches);
  match_tensors(dense, learner, matches);
  if (mode == WarmStart::kAll) require_complete(checkpoint, matches);
  EMBLEM_REQUIRE(!matches.tables.empty() || !matches.tensors.empty(), "nothing in ",
                 checkpoint.path, " matches a table or parameter of the model by name and shape");
  for (Table* table : matches.tables)
    load_table(learner.context(), checkpoint.file(table_folder(*table)), LoadMode::kWeightsOnly,
               *table);
  load_tensors(dense, matches, learner);
  WarmStartSummary summary{.checkpoint = checkpoint.path,
                           .step = checkpoint.manifest.step,
                           .tables = static_cast<int64_t>(matches.tables.size()),
                           .parameters = matches.parameters,
                           .fresh = std::move(matches.fresh),
                           .unused = std::move(matches.unused)};
  for (const Table* table : matches.tables) summary.rows += table->size();
  return summary;
}

std::string to_text(const WarmStartSummary& summary) {
  std::string text = cat("initialized from ", summary.checkpoint, ": ", summary.tables,
                         " tables with ", format_count(static_cast<double>(summary.rows)),
                         " rows and ", summary.parameters, " dense tensors");
  if (!summary.fresh.empty()) text += "; at its initial values: " + list(summary.fresh);
  if (!summary.unused.empty()) text += "; not used: " + list(summary.unused);
  return text;
}

}  // namespace emblem
