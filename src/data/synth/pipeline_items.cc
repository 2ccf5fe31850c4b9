#include "data/synth/pipeline_items.h"

#include <map>
#include <set>

#include "core/files/file.h"
#include "core/text/text.h"
#include "data/synth/pipeline_text.h"

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

int64_t write_items(const std::string& path, const PipelineSchema& schema,
                    const PipelineTruth& truth) {
  const PipelineItems& items = *schema.items;
  const char between = items.sampler.field_delimiter;
  const size_t domain = schema.columns[items.id].domain;
  FileWriter file(path);
  file.write(cat("id:int64", between, "weight:float", between, "attrs:string\n"));
  PipelineRow row;
  truth.draw(SynthSplit::kTest, 0, row);
  RowTexts texts(schema, truth);
  for (int64_t rank = 0; rank < schema.domains[domain].values; ++rank) {
    truth.draw_item(rank, row);
    texts.set(row);
    std::string attributes;
    for (const size_t at : items.attributes) {
      if (!attributes.empty()) attributes += items.sampler.attr_delimiter;
      attributes += texts[at];
    }
    file.write(cat(truth.number_of(domain, rank), between, 1e6 * truth.probability_of(domain, rank),
                   between, attributes, "\n"));
  }
  file.finish();
  return static_cast<int64_t>(file.bytes_written());
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
