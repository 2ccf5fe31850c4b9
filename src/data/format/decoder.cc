#include "data/format/decoder.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/text/text.h"
#include "data/format/memory/table_file.h"
#include "emblem/error.h"

namespace emblem {

bool ColumnRequest::operator==(const ColumnRequest& other) const {
  const auto values = [](const ColumnRequest& each) {
    return std::tie(each.name, each.type, each.separators, each.sequence_delim, each.weighted,
                    each.hexadecimal, each.na_is_missing, each.label, each.label_positive,
                    each.number_form.format, each.number_form.part, each.number_form.day_first,
                    each.number_form.na_strings, each.numbers_as_text, each.trained);
  };
  return values(*this) == values(other);
}

std::unique_ptr<Decoder> make_decoder(const DataSource& source,
                                      const std::vector<ColumnRequest>* requests) {
  EMBLEM_REQUIRE(source.num_dense >= 0 && source.num_sparse >= 0, "num_dense is ", source.num_dense,
                 " and num_sparse is ", source.num_sparse, "; expected no negative number");
  if (is_memory_address(source.input))
    return make_table_decoder(source, requests, memory_tables(source.storage, source.input));
  switch (source.type) {
    case config::CriteoTsvDataset:
      return make_criteo_tsv_decoder(source, requests);
    case config::CsvDataset:
      return make_csv_decoder(source, requests);
    case config::LibfmDataset:
      return make_libfm_decoder(source, requests);
    case config::RawDataset:
      return make_raw_decoder(source, requests);
    case config::SplitDataset:
      return make_split_decoder(source, requests);
    case config::ParquetDataset:
    case config::OrcDataset:
    case config::ArrowDataset:
      return make_columnar_decoder(source, requests);
    default:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument,
              cat("dataset_type ", config::DatasetType_Name(source.type), " has no reader"));
}

Error too_many_bad_rows(int64_t count, int64_t allowed, const std::string& first) {
  if (allowed == 0) {
    return {ErrorCode::kCorruption,
            cat(first, "; fix the row or set data_config.max_bad_rows (--max-bad-rows N)")};
  }
  return {ErrorCode::kCorruption,
          cat(count, " rows cannot be read, data_config.max_bad_rows allows ", allowed,
              "; the first: ", first)};
}

int find_column(const std::vector<ColumnSpec>& columns, const std::string& name,
                const std::string& source) {
  const auto is_it = [&](const ColumnSpec& column) { return column.name == name; };
  const auto found = std::ranges::find_if(columns, is_it);
  if (found != columns.end()) {
    EMBLEM_REQUIRE(std::none_of(found + 1, columns.end(), is_it), source, " has several columns ",
                   in_quotes(name), "; give them different names");
    return static_cast<int>(found - columns.begin());
  }
  std::vector<std::string> names;
  for (const ColumnSpec& column : columns) names.push_back(printable(column.name));
  const auto nearest = nearest_name(name, names);
  std::string known = names.empty() ? "" : names.front();
  for (size_t i = 1; i < names.size() && known.size() < 200; ++i) known += ", " + names[i];
  throw Error(
      ErrorCode::kInvalidArgument,
      cat(source, " has no column ", in_quotes(name),
          nearest ? cat("; did you mean \"", *nearest, "\"? It has ") : "; it has ", known));
}

std::vector<int> find_columns(const std::vector<ColumnSpec>& schema,
                              const std::vector<ColumnRequest>* requests,
                              const std::string& source) {
  std::vector<int> found;
  if (requests == nullptr) {
    found.resize(schema.size());
    std::iota(found.begin(), found.end(), 0);
    return found;
  }
  for (const ColumnRequest& request : *requests) {
    found.push_back(find_column(schema, request.name, source));
  }
  return found;
}

std::string in_quotes(std::string_view value) {
  constexpr size_t kShown = 40;
  size_t shown = std::min(value.size(), kShown);
  for (int i = 0; i < 3 && shown < value.size() && (value[shown] & 0xc0) == 0x80; ++i)
    --shown;  // not within a UTF-8 sequence
  return cat('"', printable(value.substr(0, shown)), shown < value.size() ? "..." : "", '"');
}

}  // namespace emblem
