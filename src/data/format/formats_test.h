// data/format/formats_test.h - for tests: the same rows in every format.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "data/format/columnar/columnar_decoder.h"
#include "data/test_data.h"

namespace emblem {

inline const char* const kFormatFeatures = R"(
  feature_configs { raw_feature { feature_name: "I1" normalizer: "method=log,offset=3" } }
  feature_configs { raw_feature { feature_name: "I2" } }
  feature_configs { id_feature { feature_name: "C1" num_buckets: 100 embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "C2" hash_bucket_size: 1000 embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "C3" embedding_dim: 4 dynamicemb { max_capacity: 100 } } }
)";
inline const char* const kLibfmFeatures = R"(
  feature_configs { id_feature { feature_name: "C1" expression: "f1" num_buckets: 100 embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "C2" expression: "f2" hash_bucket_size: 1000 embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "C3" expression: "f3" embedding_dim: 4 dynamicemb { max_capacity: 100 } } }
)";

// How rows are written, and data_config for reading them.
struct TestFormat {
  const char* name;
  const char* data_config;
  std::string (*write)(const TempFolder&, const std::vector<TestRow>&);
  bool has_dense = true;

  bool is_columnar() const {
    const std::string data = data_config;
    return data.find("Parquet") != std::string::npos || data.find("Orc") != std::string::npos ||
           data.find("Arrow") != std::string::npos;
  }
  // Formats that this program was built without cannot be tested.
  bool is_there() const { return !is_columnar() || has_columnar_formats(); }
  TestPipeline pipeline() const {
    return TestPipeline(std::string("data_config { fg_mode: FG_DAG ") + data_config + " }" +
                        (has_dense ? kFormatFeatures : kLibfmFeatures));
  }
};

inline std::string write_tsv(const TempFolder& folder, const std::vector<TestRow>& rows) {
  return folder.write("rows.tsv", as_tsv(rows));
}
inline std::string write_csv(const TempFolder& folder, const std::vector<TestRow>& rows) {
  return folder.write("rows.csv", as_csv(rows));
}
inline std::string write_raw(const TempFolder& folder, const std::vector<TestRow>& rows) {
  return folder.write("rows.bin", as_raw(rows));
}
inline std::string write_matrix(const TempFolder& folder, const std::vector<TestRow>& rows) {
  return write_split_matrix(folder, "split", rows);
}
inline std::string write_columns(const TempFolder& folder, const std::vector<TestRow>& rows) {
  return write_split_columns(folder, "split", rows);
}
inline std::string write_libfm(const TempFolder& folder, const std::vector<TestRow>& rows) {
  return folder.write("rows.libfm", as_libfm(rows));
}

// Compression, rows of a row group and, of Parquet, whether values that repeat are stored once.
#define EMBLEM_COLUMNAR(format, compression, rows, dictionaries)                         \
  [](const TempFolder& folder, const std::vector<TestRow>& test_rows) {                  \
    return write_columnar(folder, test_rows, format, {compression, rows, dictionaries}); \
  }

inline const TestFormat kFormats[] = {
    {"Tsv", "dataset_type: CriteoTsvDataset num_dense: 2 num_sparse: 3", write_tsv},
    {"Csv",
     R"(dataset_type: CsvDataset with_header: true
        input_fields { input_name: "C2" input_type: INT64 }
        input_fields { input_name: "C3" input_type: INT64 })",
     write_csv},
    {"Raw", "dataset_type: RawDataset num_dense: 2 num_sparse: 3", write_raw},
    {"SplitMatrix", "dataset_type: SplitDataset num_dense: 2 num_sparse: 3", write_matrix},
    {"SplitColumns", "dataset_type: SplitDataset num_dense: 2 num_sparse: 3", write_columns},
    {"Libfm", "dataset_type: LibfmDataset", write_libfm, false},
    {"ParquetSnappy", "dataset_type: ParquetDataset",
     EMBLEM_COLUMNAR("parquet", "snappy", 1100, true)},
    {"ParquetPlain", "dataset_type: ParquetDataset", EMBLEM_COLUMNAR("parquet", "none", 64, false)},
    {"ParquetZstd", "dataset_type: ParquetDataset", EMBLEM_COLUMNAR("parquet", "zstd", 777, true)},
    {"ParquetGzip", "dataset_type: ParquetDataset",
     EMBLEM_COLUMNAR("parquet", "gzip", 65536, false)},
    {"ParquetLz4", "dataset_type: ParquetDataset", EMBLEM_COLUMNAR("parquet", "lz4", 600, true)},
    {"ParquetBrotli", "dataset_type: ParquetDataset",
     EMBLEM_COLUMNAR("parquet", "brotli", 2000, true)},
    {"OrcZstd", "dataset_type: OrcDataset", EMBLEM_COLUMNAR("orc", "zstd", 500, true)},
    {"OrcPlain", "dataset_type: OrcDataset", EMBLEM_COLUMNAR("orc", "none", 500, true)},
    {"ArrowPlain", "dataset_type: ArrowDataset", EMBLEM_COLUMNAR("arrow", "none", 900, true)},
    {"ArrowLz4", "dataset_type: ArrowDataset", EMBLEM_COLUMNAR("arrow", "lz4", 65536, true)},
};

inline void PrintTo(const TestFormat& format, std::ostream* out) { *out << format.name; }

#undef EMBLEM_COLUMNAR

}  // namespace emblem
