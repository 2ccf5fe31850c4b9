// data/test_data.h - for tests: data sets written the plain way, batches as text.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/load/load.h"
#include "core/files/temp_folder_test.h"
#include "core/math/half.h"
#include "core/math/random.h"
#include "data/format/writer.h"
#include "data/loader/loader.h"

namespace emblem {

// A row that every format can hold.
struct TestRow {
  int label = 0;
  int dense[2] = {};
  uint32_t categories[3] = {};  // below 100, below 30000, any
};

inline std::vector<TestRow> random_rows(int count, uint64_t seed) {
  Random random{seed, 77};
  std::vector<TestRow> rows(static_cast<size_t>(count));
  for (TestRow& row : rows) {
    row.label = static_cast<int>(random.below(2));
    row.dense[0] = static_cast<int>(random.below(2000)) - 2;
    row.dense[1] = static_cast<int>(random.below(10));
    row.categories[0] = static_cast<uint32_t>(random.below(100));
    row.categories[1] = static_cast<uint32_t>(random.below(30000));
    row.categories[2] = static_cast<uint32_t>(random.bits());
  }
  return rows;
}

template <class T>
void append_bytes(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline std::string as_tsv(const std::vector<TestRow>& rows) {
  std::string text;
  for (const TestRow& row : rows) {
    char line[128];
    std::snprintf(line, sizeof line, "%d\t%d\t%d\t%08x\t%08x\t%08x\n", row.label, row.dense[0],
                  row.dense[1], row.categories[0], row.categories[1], row.categories[2]);
    text += line;
  }
  return text;
}

inline std::string as_csv(const std::vector<TestRow>& rows) {
  std::ostringstream text;
  text << "label,I1,I2,C1,C2,C3\n";
  for (const TestRow& row : rows) {
    text << row.label << ',' << row.dense[0] << ',' << row.dense[1] << ',' << row.categories[0]
         << ',' << row.categories[1] << ',' << row.categories[2] << '\n';
  }
  return text.str();
}

inline std::string as_raw(const std::vector<TestRow>& rows) {
  std::string bytes;
  for (const TestRow& row : rows) {
    append_bytes<int32_t>(bytes, row.label);
    for (const int value : row.dense) append_bytes<int32_t>(bytes, value);
    for (const uint32_t value : row.categories) append_bytes<uint32_t>(bytes, value);
  }
  return bytes;
}

inline std::string write_split_matrix(const TempFolder& folder, const std::string& name,
                                      const std::vector<TestRow>& rows) {
  std::string label, dense, category;
  for (const TestRow& row : rows) {
    append_bytes(label, static_cast<float>(row.label));
    for (const int value : row.dense) append_bytes<int32_t>(dense, value);
    for (const uint32_t value : row.categories) append_bytes<uint32_t>(category, value);
  }
  folder.write(name + "/label.bin", label);
  folder.write(name + "/dense.bin", dense);
  folder.write(name + "/category.bin", category);
  folder.write(name + "/metadata.json",
               R"({"vocab_sizes":[100,30000,4294967296],"label_raw_type":"float32",)"
               R"("dense_raw_type":"int32","category_raw_type":"int32","dense_log":true})");
  return folder.path(name);
}

inline std::string write_split_columns(const TempFolder& folder, const std::string& name,
                                       const std::vector<TestRow>& rows) {
  std::string label, dense, first, second, third;
  for (const TestRow& row : rows) {
    append_bytes(label, static_cast<uint8_t>(row.label));
    for (const int value : row.dense)
      append_bytes(dense, F16::from(static_cast<float>(value)).bits);
    append_bytes(first, static_cast<int8_t>(row.categories[0]));
    append_bytes(second, static_cast<int16_t>(row.categories[1]));
    append_bytes(third, row.categories[2]);
  }
  folder.write(name + "/label.bin", label);
  folder.write(name + "/dense.bin", dense);
  folder.write(name + "/category_0.bin", first);
  folder.write(name + "/category_1.bin", second);
  folder.write(name + "/category_2.bin", third);
  return folder.path(name);
}

inline std::string as_libfm(const std::vector<TestRow>& rows) {
  std::ostringstream text;
  for (const TestRow& row : rows) {
    text << (row.label == 0 ? -1 : 1);
    for (const uint32_t value : row.categories) text << ' ' << value << ":1";
    text << '\n';
  }
  return text.str();
}

// The rows as a folder of a format with columns of types (data/format/writer.h).
inline std::string write_columnar(const TempFolder& folder, const std::vector<TestRow>& rows,
                                  const std::string& format, const ColumnarOptions& columnar) {
  WriterOptions options;
  options.columnar = columnar;
  const std::string path = folder.path(format);
  const auto writer = make_writer(format, path, criteo_schema(2, 3), options);
  for (size_t begin = 0; begin < rows.size(); begin += 300) {
    Block block;
    block.rows = static_cast<int64_t>(std::min<size_t>(300, rows.size() - begin));
    block.columns.resize(6);
    for (size_t c = 0; c < 6; ++c) {
      block.columns[c].type = c < 3 ? ColumnType::kFloat : ColumnType::kInt64;
      for (int64_t i = 0; i < block.rows; ++i) {
        const TestRow& row = rows[begin + static_cast<size_t>(i)];
        if (c >= 3) block.columns[c].ints.push_back(row.categories[c - 3]);
        if (c < 3)
          block.columns[c].floats.push_back(
              static_cast<float>(c == 0 ? row.label : row.dense[c - 1]));
      }
    }
    writer->write(block);
  }
  writer->finish();
  return path;
}

// A pipeline from protobuf text, and its features.
struct TestPipeline {
  explicit TestPipeline(const std::string& text)
      : config(parse_pipeline(text, "test.config")), features(layout_of(config)) {}
  PipelineConfig config;
  FeatureLayout features;
};

// All that a reader of a batch can see, so that batches compare by value and differences can be
// read.
inline std::string describe(const Batch& batch) {
  std::ostringstream out;
  out.precision(9);
  const auto put = [&](const char* name, const auto& values) {
    out << name;
    for (const auto& value : values) out << ' ' << value;
    out << '\n';
  };
  out << "rows " << batch.rows << (batch.last_in_epoch ? " last" : "") << '\n';
  put("labels", batch.labels);
  put("weights", batch.sample_weights);
  put("dense", batch.dense);
  for (const SparseColumn& column : batch.sparse) {
    put("keys", column.keys);
    put("offsets", column.offsets);
    put("weights", column.weights);
    if (column.sequence >= 0) out << "of sequence " << column.sequence << '\n';
  }
  for (const SequenceColumn& sequence : batch.sequences) {
    put("elements", sequence.offsets);
    put("numbers", sequence.numbers);
  }
  return out.str();
}

inline std::string describe(const DataPosition& at) {
  std::ostringstream out;
  out << "epoch " << at.epoch << " piece " << at.piece << " row " << at.row << " emitted "
      << at.emitted << " rows " << at.rows_in_epoch;
  for (const StreamPosition& each : at.stream)
    out << " partition " << each.partition << " offset " << each.offset << " row " << each.row;
  return out.str();
}

struct SeenBatch {
  std::string content;
  DataPosition next;
  bool last_in_epoch;
};

inline std::vector<SeenBatch> read_all(const TestPipeline& pipeline, const LoaderOptions& options) {
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  std::vector<SeenBatch> seen;
  Batch batch;
  while (loader.next(batch)) {
    seen.push_back({describe(batch) + describe(batch.next), batch.next, batch.last_in_epoch});
  }
  return seen;
}

// What the loader says about bad data; "" when it says nothing.
inline std::string loader_error(const TestPipeline& pipeline, const LoaderOptions& options) {
  try {
    read_all(pipeline, options);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace emblem
