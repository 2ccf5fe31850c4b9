// model/onnx/onnx_tables.h - rows of tables as initializers of an ONNX model, and the keys of
// dynamic tables as files beside it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "embedding/table.h"
#include "nn/onnx/onnx_graph.h"

namespace emblem {

// Where rows are: in the model's file, which can have 2 GB, or in a file beside it.
enum class OnnxRows { kInModel, kBeside };

// Files are written below a folder.
class OnnxTables {
 public:
  static constexpr const char* kRowsFile = "model.onnx.data";
  static constexpr const char* kKeysFolder = "keys";

  OnnxTables(OnnxGraph& to, std::string folder, OnnxRows place);

  // Features that read several dynamic tables have one number for a key: these tables have the
  // same list of keys, that of all of them. Called for all features, before the other functions.
  void add_feature(const std::string& feature, const std::vector<const Table*>& tables);

  // The initializer with the rows of a table [n + 1, dim], or of a dynamic one [n + 2, dim]: row
  // i is that of key i, or of key i of the list of keys; row n of a dynamic table is what unknown
  // keys read; the last one has zeros.
  std::string rows(const Table& table);
  // How many rows there are; for a dynamic table the number of unknown keys.
  int64_t rows_of(const Table& table) const;
  // The file with the keys of a feature, rising, as int64 of NumPy: "keys/NAME.npy"; "" where its
  // tables are static.
  std::string keys_file(const std::string& feature);

  void finish();
  uint64_t bytes_beside() const { return bytes_beside_; }

 private:
  // The keys of some tables that features read together.
  struct Keys {
    std::string name;
    std::vector<const Table*> tables;
    std::vector<int64_t> keys;
    bool is_written = false;
  };
  class Rows;
  void gather(Keys& keys);
  void write_rows(const Table& table, Rows& to);

  OnnxGraph& to_;
  std::string folder_;
  OnnxRows place_;
  std::map<const Table*, std::shared_ptr<Keys>> keys_;  // of dynamic tables
  std::map<std::string, std::shared_ptr<Keys>> keys_of_features_;
  std::map<const Table*, std::string> initializers_;
  std::unique_ptr<FileWriter> beside_;
  uint64_t bytes_beside_ = 0;
};

}  // namespace emblem
