// Real files in the spellings in which they circulate. EMBLEM_REAL_DATA names a folder with
// frappe.tar.xz and criteo.tar.xz.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "core/math/hash.h"
#include "data/format/reader.h"
#include "data/test_data.h"

namespace emblem {
namespace {

class RealData : public testing::Test {
 protected:
  // Unpacks an archive into a folder of the test; skips the test without one.
  bool unpack(const std::string& archive) {
    const char* data = std::getenv("EMBLEM_REAL_DATA");
    if (data == nullptr) return false;
    const std::string path = std::string(data) + "/" + archive;
    if (!std::filesystem::exists(path)) return false;
    return std::system(("tar -xJf '" + path + "' -C '" + folder_.path() + "'").c_str()) == 0;
  }
  TempFolder folder_;
};

// Fields split at a delimiter, without a thought of quotes: the files have none.
std::vector<std::vector<std::string>> plain_rows(const std::string& path, char delimiter) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == delimiter) {
        fields.emplace_back();
      } else {
        fields.back() += c;
      }
    }
    rows.push_back(fields);
  }
  return rows;
}

std::string criteo_features() {
  std::string features;
  for (int i = 1; i <= 13; ++i) {
    features += "feature_configs { raw_feature { feature_name: 'I" + std::to_string(i) +
                "' default_value: '-7' } }";
  }
  for (int i = 1; i <= 26; ++i) {
    features += "feature_configs { id_feature { feature_name: 'C" + std::to_string(i) +
                "' embedding_dim: 4 dynamicemb { max_capacity: 100 } } }";
  }
  return features;
}

TEST_F(RealData, CriteoHeadsReadAsAPlainParserReadsThem) {
  if (!unpack("criteo.tar.xz"))
    GTEST_SKIP() << "set EMBLEM_REAL_DATA to the folder of criteo.tar.xz";
  struct File {
    const char *name, *config;
    char delimiter;
    int label;  // its field; the numbers follow
    bool header, text_keys;
  };
  const std::string header = "with_header: true label_fields: 'Label'";
  for (const File& file :
       {File{"autoint_first10k.txt", "dataset_type: CriteoTsvDataset", '\t', 0, false, false},
        File{"criteo_10k.csv", "with_header: true", ',', 0, true, true},
        File{"criteo_tiny2k_train.csv", header.c_str(), ',', 1, true, true},
        File{"criteo_tiny2k_test.csv", header.c_str(), ',', 1, true, true},
        File{"deepctr_criteo_sample_200.csv", "with_header: true", ',', 0, true, true}}) {
    LoaderOptions options;
    options.input = folder_.path(std::string("criteo/") + file.name);
    options.batch_size = 777;
    options.piece_bytes = 50000;
    options.workers = 2;
    auto rows = plain_rows(options.input, file.delimiter);
    if (file.header) rows.erase(rows.begin());
    const TestPipeline pipeline(std::string("data_config { fg_mode: FG_DAG ") + file.config + " }" +
                                criteo_features());
    Loader loader(pipeline.config.data_config(), pipeline.features, options);
    size_t at = 0;
    Batch batch;
    while (loader.next(batch)) {
      for (int64_t i = 0; i < batch.rows; ++i, ++at) {
        const std::vector<std::string>& row = rows.at(at);
        ASSERT_EQ(batch.labels[i], std::stof(row[file.label]));
        for (int d = 0; d < 13; ++d) {
          const std::string& field = row[file.label + 1 + d];
          ASSERT_EQ(batch.dense[13 * i + d], field.empty() ? -7.0f : std::stof(field))
              << file.name << ":" << at;
        }
        for (int c = 0; c < 26; ++c) {
          const std::string& field = row[file.label + 14 + c];
          const SparseColumn& column = batch.sparse[c];
          const bool plain = column.offsets.empty();
          const int64_t begin = plain ? i : column.offsets[i];
          ASSERT_EQ(plain ? 1 : column.offsets[i + 1] - begin, field.empty() ? 0 : 1);
          if (field.empty()) continue;
          const auto expected = static_cast<int64_t>(
              file.text_keys ? fg_hash(field) % INT64_MAX : std::stoull(field, nullptr, 16));
          ASSERT_EQ(column.keys[begin], expected) << file.name << ":" << at;
        }
      }
    }
    EXPECT_EQ(at, rows.size()) << file.name;
  }
}

TEST_F(RealData, FrappeReadsAsAPlainParserReadsIt) {
  if (!unpack("frappe.tar.xz"))
    GTEST_SKIP() << "set EMBLEM_REAL_DATA to the folder of frappe.tar.xz";
  std::string features;
  for (int i = 1; i <= 10; ++i) {
    features += "feature_configs { id_feature { feature_name: 'f" + std::to_string(i) +
                "' num_buckets: 5382 embedding_dim: 4 } }";
  }
  const TestPipeline pipeline("data_config { dataset_type: LibfmDataset fg_mode: FG_DAG }" +
                              features);
  LoaderOptions options;
  options.input = folder_.path("frappe_nfm/frappe.test.libfm");
  options.batch_size = 4096;
  options.workers = 2;
  const auto rows = plain_rows(options.input, ' ');
  ASSERT_EQ(rows.size(), 28860u);
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  size_t at = 0;
  Batch batch;
  while (loader.next(batch)) {
    for (int64_t i = 0; i < batch.rows; ++i, ++at) {
      ASSERT_EQ(batch.labels[i], rows[at][0] == "1" ? 1.0f : 0.0f);
      for (int f = 0; f < 10; ++f) {
        ASSERT_EQ(batch.sparse[f].keys[i], std::stoll(rows[at][f + 1])) << at;
      }
    }
  }
  EXPECT_EQ(at, rows.size());
}

TEST_F(RealData, FormatsOfTheFilesAreGuessed) {
  if (!unpack("criteo.tar.xz") || !unpack("frappe.tar.xz")) GTEST_SKIP() << "set EMBLEM_REAL_DATA";
  EXPECT_EQ(guess_format(folder_.path("criteo/autoint_first10k.txt")), config::CriteoTsvDataset);
  EXPECT_EQ(guess_format(folder_.path("criteo/criteo_10k.csv")), config::CsvDataset);
  EXPECT_TRUE(guess_source(folder_.path("criteo/criteo_10k.csv")).with_header);
  EXPECT_EQ(guess_format(folder_.path("frappe_nfm/frappe.test.libfm")), config::LibfmDataset);
}

}  // namespace
}  // namespace emblem
