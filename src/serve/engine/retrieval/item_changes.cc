#include "serve/engine/retrieval/item_changes.h"

#include <algorithm>
#include <cstring>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "serve/engine/retrieval/retrieval_request.h"

namespace emblem {
namespace {

constexpr const char *kIds = "ids", *kVectors = "vectors", *kAttributes = "attributes";

// The inputs of a change, of the same number of items.
class ChangedItems {
 public:
  ChangedItems(const InferRequest& request, ItemChange change,
               const std::vector<std::string>& columns)
      : columns_(columns.size()) {
    EMBLEM_REQUIRE(!request.asks_for_items() && request.outputs.empty(),
                   "a change of items has inputs alone: no outputs, and no parameters of a search");
    const bool is_put = change == ItemChange::kPut;
    for (const InputTensor& tensor : request.inputs) {
      const auto column = std::ranges::find(columns, tensor.name);
      const InputTensor** const place =
          tensor.name == kIds                    ? &ids_
          : is_put && tensor.name == kVectors    ? &vectors_
          : is_put && tensor.name == kAttributes ? &attributes_
          : is_put && column != columns.end()
              ? &columns_[static_cast<size_t>(column - columns.begin())]
              : nullptr;
      EMBLEM_REQUIRE(place != nullptr, "unexpected input '", printable(tensor.name),
                     is_put ? cat("'; items have ids, vectors and attributes",
                                  columns.empty() ? "" : ", ", joined(columns))
                            : "'; items are removed by their ids");
      EMBLEM_REQUIRE(*place == nullptr, "input '", tensor.name, "' is given twice");
      *place = &tensor;
    }
    EMBLEM_REQUIRE(ids_ != nullptr, "input '", kIds, "' is missing");
    require(*ids_, DataType::kInt64, {ids_->shape.empty() ? -1 : ids_->shape[0]});
    if (!is_put) return;
    EMBLEM_REQUIRE(vectors_ != nullptr, "input '", kVectors, "' is missing");
    for (size_t i = 0; i < columns.size(); ++i)
      EMBLEM_REQUIRE(columns_[i] != nullptr, "input '", columns[i],
                     "' is missing, a column that is stored with the items");
  }

  int64_t count() const { return ids_->shape[0]; }
  size_t bytes_of_columns() const {
    size_t bytes = 0;
    for (const InputTensor* tensor : columns_) bytes += tensor == nullptr ? 0 : tensor->data.size();
    return bytes;
  }

  std::vector<int64_t> ids() const { return values_of<int64_t>(*ids_); }

  std::vector<float> vectors(int64_t dim) const {
    require(*vectors_, DataType::kFp32, {count(), dim});
    return values_of<float>(*vectors_);
  }

  std::vector<uint64_t> attributes(const std::vector<std::string>& names) const {
    std::vector<uint64_t> bits;
    if (attributes_ == nullptr) return bits;
    require(*attributes_, DataType::kBytes, {count()});
    bits.reserve(static_cast<size_t>(count()));
    for_each_string(attributes_->data, count(), [&](std::string_view text) {
      uint64_t of_item = 0;
      for (const std::string& name : names_in(text)) {
        const auto at = std::ranges::find(names, name);
        EMBLEM_REQUIRE(at != names.end(), "input '", kAttributes, "' names ",
                       attributes_->in_shared_memory
                           ? std::string("an unknown attribute")
                           : cat("the unknown attribute \"", printable(name), "\""),
                       "; ",
                       names.empty() ? std::string("the index has none")
                                     : cat("the index has ", joined(names)));
        of_item |= uint64_t{1} << (at - names.begin());
      }
      bits.push_back(of_item);
    });
    return bits;
  }

  // BYTES elements of the columns of each item.
  std::vector<std::string> columns() const {
    std::vector<std::string> texts(static_cast<size_t>(count()));
    for (const InputTensor* tensor : columns_) {
      require(*tensor, DataType::kBytes, {count()});
      size_t item = 0;
      for_each_string(tensor->data, count(),
                      [&](std::string_view text) { append_element(text, texts[item++]); });
    }
    return texts;
  }

 private:
  static void require(const InputTensor& tensor, DataType type, const std::vector<int64_t>& shape) {
    EMBLEM_REQUIRE(tensor.type == type, "input '", tensor.name, "' is ", name_of(tensor.type),
                   ", expected ", name_of(type));
    EMBLEM_REQUIRE(tensor.shape == shape, "input '", tensor.name, "' has shape ",
                   shape_text(tensor.shape), ", expected ", shape_text(shape));
    if (type != DataType::kBytes) check_bytes(tensor);
  }

  template <class T>
  static std::vector<T> values_of(const InputTensor& tensor) {
    std::vector<T> values(tensor.data.size() / sizeof(T));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    return values;
  }

  const InputTensor *ids_ = nullptr, *vectors_ = nullptr, *attributes_ = nullptr;
  std::vector<const InputTensor*> columns_;
};

// Of an item: the copies of its inputs, its row and panel, and what finds it.
size_t bytes_of_item(const IndexSettings& index, ItemChange change) {
  constexpr size_t kOfIds = 64;
  return kOfIds +
         (change == ItemChange::kPut ? 3 * sizeof(float) * static_cast<size_t>(index.dim) : 0);
}

}  // namespace

int64_t change_items(const Context& context, Index& index, StoredColumns& columns,
                     const InferRequest& request, ItemChange change, MemoryBudget::Lease& memory) {
  const ChangedItems items(request, change, columns.names());
  const IndexSettings& settings = index.settings();
  memory.grow(static_cast<size_t>(items.count()) * bytes_of_item(settings, change) +
              2 * items.bytes_of_columns());
  const std::vector<int64_t> ids = items.ids();
  if (change == ItemChange::kRemove) return index.remove(ids);
  const std::vector<float> vectors = items.vectors(settings.dim);
  const std::vector<uint64_t> attributes = items.attributes(settings.attributes);
  const Items put{ids, {vectors.data(), items.count(), settings.dim}, attributes};
  if (columns.names().empty()) return index.add(context, put, Existing::kReplace);
  // Columns come first: a search that sees the items finds these.
  std::vector<std::string> texts = items.columns();
  const int64_t number = index.changes() + 1;
  try {
    columns.put(number, ids, std::move(texts));
    return index.add(context, put, Existing::kReplace);
  } catch (...) {
    columns.drop(number, ids);
    throw;
  }
}

}  // namespace emblem
