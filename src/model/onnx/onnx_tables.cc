#include "model/onnx/onnx_tables.h"

#include <algorithm>

#include "emblem/error.h"
#include "nn/onnx/onnx.pb.h"

namespace emblem {
namespace {

constexpr int64_t kRowsAtOnce = 4096;
constexpr uint64_t kPage = 4096;  // where tensors of a file begin, so that it can be mapped

// What evaluation reads for unknown keys.
std::vector<float> missing_row(const Table& table) {
  const Initializer& missing = table.settings().missing;
  if (missing.kind != Initializer::Kind::kConstant)
    throw Error(ErrorCode::kUnsupported,
                cat("this model cannot be exported to ONNX: table \"", table.settings().name,
                    "\" has a random row for each unknown key; set eval_initializer_args { mode: "
                    "\"constant\" } of its features"));
  return std::vector<float>(static_cast<size_t>(table.dim()), missing.a);
}

// The head of a file of NumPy with a vector of int64.
std::string npy_header(size_t count) {
  std::string header = cat("{'descr': '<i8', 'fortran_order': False, 'shape': (", count, ",), }");
  constexpr size_t kBefore = 10, kAlignment = 64;
  const size_t end = (kBefore + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header.resize(end - kBefore - 1, ' ');
  header += '\n';
  const auto size = static_cast<uint16_t>(header.size());
  return cat(std::string("\x93NUMPY\x01\x00", 8), static_cast<char>(size & 0xff),
             static_cast<char>(size >> 8), header);
}

}  // namespace

// Takes the rows of a table one after the other.
class OnnxTables::Rows {
 public:
  Rows(onnx::TensorProto& tensor, FileWriter* beside, uint64_t bytes)
      : tensor_(tensor), beside_(beside) {
    if (beside_ != nullptr) return;
    tensor_.mutable_raw_data()->reserve(bytes);
  }
  void add(std::span<const float> values) {
    if (beside_ != nullptr)
      beside_->write(values.data(), values.size_bytes());
    else
      tensor_.mutable_raw_data()->append(reinterpret_cast<const char*>(values.data()),
                                         values.size_bytes());
  }

 private:
  onnx::TensorProto& tensor_;
  FileWriter* beside_;
};

OnnxTables::OnnxTables(OnnxGraph& to, std::string folder, OnnxRows place)
    : to_(to), folder_(std::move(folder)), place_(place) {}

void OnnxTables::add_feature(const std::string& feature, const std::vector<const Table*>& tables) {
  std::shared_ptr<Keys>& keys = keys_of_features_[feature];
  for (const Table* table : tables) {
    if (table->is_static()) continue;
    std::shared_ptr<Keys>& of_table = keys_[table];
    if (keys == nullptr) keys = of_table;
    if (keys == nullptr) keys = std::make_shared<Keys>(Keys{.name = table->settings().name});
    if (of_table == keys) continue;
    if (of_table == nullptr) {
      of_table = keys;
      keys->tables.push_back(table);
      continue;
    }
    // What both have is one list from now on.
    const std::shared_ptr<Keys> other = of_table;
    keys->tables.insert(keys->tables.end(), other->tables.begin(), other->tables.end());
    for (auto& [_, list] : keys_)
      if (list == other) list = keys;
    for (auto& [_, list] : keys_of_features_)
      if (list == other) list = keys;
  }
}

void OnnxTables::gather(Keys& keys) {
  const Context context;
  for (const Table* table : keys.tables) {
    const auto middle = static_cast<std::ptrdiff_t>(keys.keys.size());
    table->export_rows(context, kRowsAtOnce, [&](const RowBatch& batch) {
      keys.keys.insert(keys.keys.end(), batch.keys.begin(), batch.keys.end());
    });
    std::inplace_merge(keys.keys.begin(), keys.keys.begin() + middle, keys.keys.end());
  }
  keys.keys.erase(std::unique(keys.keys.begin(), keys.keys.end()), keys.keys.end());
}

std::string OnnxTables::keys_file(const std::string& feature) {
  const std::shared_ptr<Keys> keys = keys_of_features_.at(feature);
  if (keys == nullptr) return "";
  const std::string name = cat(kKeysFolder, "/", keys->name, ".npy");
  if (!keys->is_written) {
    gather(*keys);
    make_folders(cat(folder_, "/", kKeysFolder));
    FileWriter file(cat(folder_, "/", name));
    file.write(npy_header(keys->keys.size()));
    file.write(keys->keys.data(), keys->keys.size() * sizeof(int64_t));
    file.finish();
    bytes_beside_ += file.bytes_written();
    keys->is_written = true;
  }
  return name;
}

int64_t OnnxTables::rows_of(const Table& table) const {
  return table.is_static() ? table.settings().capacity : std::ssize(keys_.at(&table)->keys);
}

std::string OnnxTables::rows(const Table& table) {
  std::string& name = initializers_[&table];
  if (!name.empty()) return name;
  name = "tables/" + table.settings().name;
  const int64_t rows = rows_of(table) + (table.is_static() ? 1 : 2);
  const auto bytes = static_cast<uint64_t>(rows * table.dim()) * sizeof(float);
  onnx::TensorProto& tensor = to_.tensor(name, {rows, table.dim()});
  if (place_ == OnnxRows::kBeside) {
    if (beside_ == nullptr) beside_ = std::make_unique<FileWriter>(cat(folder_, "/", kRowsFile));
    const std::string gap((kPage - beside_->bytes_written() % kPage) % kPage, '\0');
    beside_->write(gap);
    const auto add = [&](const char* key, const std::string& value) {
      onnx::StringStringEntryProto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    add("location", kRowsFile);
    add("offset", std::to_string(beside_->bytes_written()));
    add("length", std::to_string(bytes));
  }
  Rows to(tensor, beside_.get(), bytes);
  write_rows(table, to);
  to.add(std::vector<float>(static_cast<size_t>(table.dim())));
  return name;
}

void OnnxTables::write_rows(const Table& table, Rows& to) {
  const Context context;
  if (table.is_static()) {
    table.export_rows(context, kRowsAtOnce, [&](const RowBatch& batch) { to.add(batch.weights); });
    return;
  }
  const std::vector<float> missing = missing_row(table);
  const std::vector<int64_t>& keys = keys_.at(&table)->keys;
  const auto dim = static_cast<size_t>(table.dim());
  size_t at = 0;  // in `keys`
  table.export_rows(context, kRowsAtOnce, [&](const RowBatch& batch) {
    for (size_t i = 0; i < batch.keys.size(); ++i, ++at) {
      for (; keys[at] < batch.keys[i]; ++at) to.add(missing);
      to.add(batch.weights.subspan(i * dim, dim));
    }
  });
  for (; at <= keys.size(); ++at) to.add(missing);  // and the row of unknown keys
}

void OnnxTables::finish() {
  if (beside_ == nullptr) return;
  beside_->finish();
  bytes_beside_ += beside_->bytes_written();
}

}  // namespace emblem
