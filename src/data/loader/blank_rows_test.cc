// Bad rows that keep their place (BadRowHandling::kBlank), and columns that are kept as text.
#include <gmock/gmock.h>

#include "core/text/text.h"
#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// How a row is written: as it is, with an id outside of its table, with a field that is not a
// number, or with too few fields. Binary formats can hold only the first two.
enum class Kind { kGood, kBadId, kBadField, kTooShort };

struct InputRow {
  TestRow row;
  Kind kind = Kind::kGood;
};

// What predict keeps of a row: columns C1 and label.
struct KeptText {
  std::string id, label;
  std::string line() const { return id + "," + label; }
};

std::string tsv_line(const InputRow& input) {
  if (input.kind == Kind::kTooShort) return "1\t2\n";
  std::string line = as_tsv({input.row});
  return input.kind == Kind::kBadField
             ? cat(line.substr(0, 2), "abc", line.substr(line.find('\t', 2)))
             : line;
}
KeptText tsv_kept(const InputRow& input) {
  if (input.kind == Kind::kTooShort) return {};
  char id[16];
  std::snprintf(id, sizeof id, "%08x", input.row.categories[0]);
  return {id, std::to_string(input.row.label)};
}

std::string csv_line(const InputRow& input) {
  if (input.kind == Kind::kTooShort) return "1,2\n";
  const std::string text = as_csv({input.row});
  const std::string line = text.substr(text.find('\n') + 1);
  return input.kind == Kind::kBadField
             ? cat(line.substr(0, 2), "abc", line.substr(line.find(',', 2)))
             : line;
}
KeptText csv_kept(const InputRow& input) {
  if (input.kind == Kind::kTooShort) return {};
  return {std::to_string(input.row.categories[0]), std::to_string(input.row.label)};
}

std::string libfm_line(const InputRow& input) {
  if (input.kind == Kind::kTooShort) return "0 :1\n";
  const std::string line = as_libfm({input.row});
  const size_t first = line.find(' ');
  return input.kind == Kind::kBadField
             ? cat(line.substr(0, first), " abc", line.substr(line.find(' ', first + 1)))
             : line;
}
KeptText libfm_kept(const InputRow& input) {
  if (input.kind == Kind::kTooShort) return {":1", "0"};
  return {input.kind == Kind::kBadField ? "abc" : cat(input.row.categories[0], ":1"),
          input.row.label == 0 ? "-1" : "1"};
}

template <class Line>
std::string as_text(const std::vector<InputRow>& rows, const std::string& header, Line line) {
  std::string text = header;
  for (const InputRow& row : rows) text += line(row);
  return text;
}

std::vector<TestRow> rows_of(const std::vector<InputRow>& inputs) {
  std::vector<TestRow> rows;
  for (const InputRow& input : inputs) rows.push_back(input.row);
  return rows;
}

struct BlankFormat {
  const char* name;
  const char* data_config;
  const char* id_column;
  bool is_text;
  // Writes a file or folder `name` and returns its path.
  std::string (*write)(const TempFolder& folder, const std::string& name,
                       const std::vector<InputRow>& rows);
  KeptText (*kept)(const InputRow& input);
};

const BlankFormat kBlankFormats[] = {
    {"Tsv", "dataset_type: CriteoTsvDataset num_dense: 2 num_sparse: 3", "C1", true,
     [](const TempFolder& folder, const std::string& name, const std::vector<InputRow>& rows) {
       return folder.write(name, as_text(rows, "", tsv_line));
     },
     tsv_kept},
    {"Csv", "dataset_type: CsvDataset with_header: true", "C1", true,
     [](const TempFolder& folder, const std::string& name, const std::vector<InputRow>& rows) {
       return folder.write(name, as_text(rows, "label,I1,I2,C1,C2,C3\n", csv_line));
     },
     csv_kept},
    {"Libfm", "dataset_type: LibfmDataset", "f1", true,
     [](const TempFolder& folder, const std::string& name, const std::vector<InputRow>& rows) {
       return folder.write(name, as_text(rows, "", libfm_line));
     },
     libfm_kept},
    {"Raw", "dataset_type: RawDataset num_dense: 2 num_sparse: 3", "C1", false,
     [](const TempFolder& folder, const std::string& name, const std::vector<InputRow>& rows) {
       return folder.write(name, as_raw(rows_of(rows)));
     },
     csv_kept},
    {"SplitMatrix", "dataset_type: SplitDataset num_dense: 2 num_sparse: 3", "C1", false,
     [](const TempFolder& folder, const std::string& name, const std::vector<InputRow>& rows) {
       return write_split_matrix(folder, name, rows_of(rows));
     },
     csv_kept},
    {"SplitColumns", "dataset_type: SplitDataset num_dense: 2 num_sparse: 3", "C1", false,
     [](const TempFolder& folder, const std::string& name, const std::vector<InputRow>& rows) {
       return write_split_columns(folder, name, rows_of(rows));
     },
     csv_kept},
};

void PrintTo(const BlankFormat& format, std::ostream* out) { *out << format.name; }

// Batches of 16: bad at both ends, a whole batch, and here and there.
constexpr int kBatch = 16;

std::vector<InputRow> rows_with_bad_ones(int count, bool is_text, uint64_t seed) {
  Random random{seed, 3};
  std::vector<InputRow> inputs;
  for (const TestRow& row : random_rows(count, seed)) {
    const int at = static_cast<int>(inputs.size());
    InputRow input{row};
    const bool whole_batch = at >= 2 * kBatch && at < 4 * kBatch;
    if (at < 2 || at == count - 1 || whole_batch || random.below(9) == 0)
      input.kind = is_text ? static_cast<Kind>(1 + random.below(3)) : Kind::kBadId;
    if (input.kind == Kind::kBadId) input.row.categories[0] = 101;
    inputs.push_back(input);
  }
  return inputs;
}

class BlankRowsTest : public testing::TestWithParam<BlankFormat> {
 protected:
  TestPipeline pipeline() const {
    std::string text = cat("data_config { fg_mode: FG_DAG ", GetParam().data_config, " }");
    text += cat("feature_configs { id_feature { feature_name: 'id' expression: '",
                GetParam().id_column, "' num_buckets: 100 embedding_dim: 4 } }");
    if (std::string_view(GetParam().name) != "Libfm")
      text += "feature_configs { raw_feature { feature_name: 'I1' } }";
    return TestPipeline(text);
  }

  LoaderOptions options(const std::string& input) const {
    LoaderOptions options;
    options.input = input;
    options.batch_size = kBatch;
    options.piece_bytes = 200;
    options.max_bad_rows = 1 << 20;
    options.bad_rows = BadRowHandling::kBlank;
    options.keep = {GetParam().id_column, "label"};
    return options;
  }

  // "C1,label=key", or "C1,label=bad"; then the row's number of keys, and its label.
  std::vector<std::string> expected(const std::vector<InputRow>& inputs) const {
    std::vector<std::string> lines;
    for (const InputRow& input : inputs) {
      const bool good = input.kind == Kind::kGood;
      lines.push_back(cat(GetParam().kept(input).line(), "=",
                          good ? std::to_string(input.row.categories[0]) : "bad", " ",
                          good ? input.row.label : 0));
    }
    return lines;
  }
  std::vector<std::string> read(const LoaderOptions& options) const {
    const TestPipeline from = pipeline();
    Loader loader(from.config.data_config(), from.features, options);
    std::vector<std::string> lines;
    for (Batch batch; loader.next(batch);) {
      const SparseColumn& column = batch.sparse[0];
      for (int64_t row = 0; row < batch.rows; ++row) {
        const bool bad = !batch.bad.empty() && batch.bad[static_cast<size_t>(row)] != 0;
        const bool has_offsets = !column.offsets.empty();
        const int32_t begin = has_offsets ? column.offsets[row] : static_cast<int32_t>(row);
        const int32_t end = has_offsets ? column.offsets[row + 1] : begin + 1;
        EXPECT_EQ(end - begin, bad ? 0 : 1);
        lines.push_back(cat(batch.kept[static_cast<size_t>(row)], "=",
                            bad ? "bad" : std::to_string(column.keys[begin]), " ",
                            batch.labels[row]));
      }
    }
    return lines;
  }

  const TempFolder folder_;
};

TEST_P(BlankRowsTest, KeepTheirPlaceOverFilesPiecesBatchesAndWorkers) {
  const std::vector<InputRow> first = rows_with_bad_ones(300, GetParam().is_text, 1);
  const std::vector<InputRow> second = rows_with_bad_ones(77, GetParam().is_text, 2);
  const std::string input =
      cat(GetParam().write(folder_, "a", first), ",", GetParam().write(folder_, "b", second));
  std::vector<std::string> lines = expected(first);
  for (std::string& line : expected(second)) lines.push_back(std::move(line));
  for (const int workers : {1, 4}) {
    for (const int64_t batch : {1, 7, kBatch, 1000}) {
      LoaderOptions loading = options(input);
      loading.workers = workers;
      loading.batch_size = batch;
      EXPECT_EQ(read(loading), lines) << workers << " workers, batches of " << batch;
    }
  }
}

TEST_P(BlankRowsTest, MayBeAllRows) {
  std::vector<InputRow> inputs = rows_with_bad_ones(50, GetParam().is_text, 3);
  for (InputRow& input : inputs) {
    if (input.kind == Kind::kGood) input.kind = Kind::kBadId;
    if (input.kind == Kind::kBadId) input.row.categories[0] = 101;
  }
  EXPECT_EQ(read(options(GetParam().write(folder_, "a", inputs))), expected(inputs));
}

TEST_P(BlankRowsTest, CountTowardsTheLimit) {
  const std::vector<InputRow> inputs = rows_with_bad_ones(100, GetParam().is_text, 4);
  int64_t bad = 0;
  for (const InputRow& input : inputs) bad += input.kind == Kind::kGood ? 0 : 1;
  LoaderOptions loading = options(GetParam().write(folder_, "a", inputs));
  loading.max_bad_rows = bad;
  EXPECT_EQ(read(loading), expected(inputs));
  loading.max_bad_rows = bad - 1;
  EXPECT_THAT([&] { read(loading); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("max_bad_rows")));
}

TEST_P(BlankRowsTest, AKeptColumnThatDoesNotExistIsAnError) {
  LoaderOptions loading = options(GetParam().write(folder_, "a", rows_with_bad_ones(20, false, 5)));
  loading.keep = {"town"};
  EXPECT_THAT([&] { read(loading); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(testing::HasSubstr("no column"), testing::HasSubstr("town"))));
}

INSTANTIATE_TEST_SUITE_P(Formats, BlankRowsTest, testing::ValuesIn(kBlankFormats),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace emblem
