#include "data/synth/pipeline_items.h"

#include <filesystem>
#include <map>
#include <set>

#include "core/files/file.h"
#include "core/text/joined.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "data/synth/pipeline_text.h"
#include "data/tree/item_table.h"
#include "data/tree/tree_files.h"

namespace emblem {
namespace {

// The texts of a row in the order of schema.columns.
class RowTexts {
 public:
  RowTexts(const PipelineSchema& schema, const PipelineTruth& truth)
      : schema_(schema), truth_(truth) {}

  void set(const PipelineRow& row) { write_fields(schema_, truth_, row, fields_); }
  const std::string& operator[](size_t column) const {
    return fields_[fields_.size() - schema_.columns.size() + column];
  }

 private:
  const PipelineSchema& schema_;
  const PipelineTruth& truth_;
  std::vector<std::string> fields_;
};

// Calls take(rank, texts of the attributes) for all items.
template <class Take>
void each_item(const PipelineSchema& schema, const PipelineTruth& truth, const Take& take) {
  const PipelineItems& items = *schema.items;
  PipelineRow row;
  truth.draw(SynthSplit::kTest, 0, row);
  RowTexts texts(schema, truth);
  const int64_t count = schema.domains[schema.columns[items.id].domain].values;
  for (int64_t rank = 0; rank < count; ++rank) {
    truth.draw_item(rank, row);
    texts.set(row);
    std::vector<std::string> attributes;
    for (const size_t at : items.attributes) attributes.push_back(texts[at]);
    take(rank, attributes);
  }
}

int64_t write_items(const std::string& path, const PipelineSchema& schema,
                    const PipelineTruth& truth) {
  const PipelineItems& items = *schema.items;
  const char between = items.sampler.field_delimiter;
  const size_t domain = schema.columns[items.id].domain;
  FileWriter file(path);
  file.write(cat("id:int64", between, "weight:float", between, "attrs:string\n"));
  each_item(schema, truth, [&](int64_t rank, const std::vector<std::string>& texts) {
    file.write(cat(truth.number_of(domain, rank), between, 1e6 * truth.probability_of(domain, rank),
                   between, joined(texts, std::string(1, items.sampler.attr_delimiter)), "\n"));
  });
  file.finish();
  return static_cast<int64_t>(file.bytes_written());
}

// The tree of all items by their first attribute besides the id; returns the bytes.
int64_t write_tree_of_items(const std::string& folder, const PipelineSchema& schema,
                            const PipelineTruth& truth) {
  const PipelineItems& items = *schema.items;
  TreeItems table;
  ItemTableColumns columns;
  for (const size_t at : items.attributes)
    if (at != items.id) columns.attributes.push_back(schema.columns[at].name);
  table.attributes.resize(columns.attributes.size());
  each_item(schema, truth, [&](int64_t, const std::vector<std::string>& texts) {
    size_t column = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      if (items.attributes[i] == items.id)
        table.ids.push_back(parse_number<int64_t>(texts[i]).value());
      else
        table.attributes[column++].push_back(texts[i]);
    }
    table.categories.push_back(table.attributes.empty() ? "" : table.attributes[0].back());
  });
  write_item_tree(table, columns, order_by_category(table), 2, items.sampler.attr_delimiter,
                  folder);
  int64_t bytes = 0;
  for (const char* name : {kNodeTable, kEdgeTable, kPredictEdgeTable})
    bytes += static_cast<int64_t>(std::filesystem::file_size(folder + "/" + name));
  return bytes;
}

using EdgesOfUsers = std::map<std::string, std::set<int64_t>>;  // ids of items, by user

int64_t write_users(const std::string& path, char between,
                    const std::map<std::string, int64_t>& rows_of_users) {
  FileWriter file(path);
  file.write(cat("id:int64", between, "weight:float\n"));
  for (const auto& [user, rows] : rows_of_users) file.write(cat(user, between, rows, "\n"));
  file.finish();
  return static_cast<int64_t>(file.bytes_written());
}

int64_t write_edges(const std::string& path, char between, const EdgesOfUsers& edges) {
  FileWriter file(path);
  file.write(cat("userid:int64", between, "itemid:int64", between, "weight:float\n"));
  for (const auto& [user, items] : edges)
    for (const int64_t item : items) file.write(cat(user, between, item, between, "1\n"));
  file.finish();
  return static_cast<int64_t>(file.bytes_written());
}

}  // namespace

int64_t write_sampler_files(const std::string& folder, const PipelineSchema& schema,
                            const PipelineTruth& truth, int64_t rows) {
  const PipelineItems& items = *schema.items;
  if (items.have_tree) return write_tree_of_items(folder, schema, truth);
  const int64_t bytes = write_items(folder + "/items.txt", schema, truth);
  if (!items.user) return bytes;
  std::map<std::string, int64_t> rows_of_users;
  EdgesOfUsers positive, hard;
  RowTexts texts(schema, truth);
  PipelineRow row;
  for (int64_t i = 0; i < rows; ++i) {
    truth.draw(SynthSplit::kTrain, i, row);
    texts.set(row);
    const std::string& user = texts[*items.user];
    if (user.empty()) continue;
    const int64_t item =
        truth.number_of(schema.columns[items.id].domain, row.columns[items.id].ranks.at(0));
    ++rows_of_users[user];
    (row.labels.at(0) > 0 ? positive : hard)[user].insert(item);
  }
  for (auto& [user, of_user] : hard)
    if (const auto chosen = positive.find(user); chosen != positive.end())
      std::erase_if(of_user, [&](int64_t item) { return chosen->second.contains(item); });
  const char between = items.sampler.field_delimiter;
  return bytes + write_users(folder + "/users.txt", between, rows_of_users) +
         write_edges(folder + "/positive_edges.txt", between, positive) +
         write_edges(folder + "/hard_edges.txt", between, hard);
}

}  // namespace emblem
