#include "serve/engine/retrieval/rank_inputs.h"

#include <algorithm>
#include <cstring>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "serve/engine/request_sequence.h"
#include "serve/engine/retrieval/id_lists.h"

namespace emblem {
namespace {

constexpr const char* kOffsetsSuffix = ".offsets";

const InputTensor* find_input(const InferRequest& request, const std::string& name) {
  const auto found = std::ranges::find(request.inputs, name, &InputTensor::name);
  return found == request.inputs.end() ? nullptr : &*found;
}

bool is_input_or_companion(const std::string& tensor, const std::string& name) {
  return tensor == name || RequestSequence::is_companion(tensor, name);
}

// Rows of a tensor of users that the model has checked: elements of its first dimension, one for
// each row, or as many as offsets say.
class TensorRows {
 public:
  TensorRows(const InferRequest& request, const InputTensor& tensor, int64_t rows)
      : tensor_(tensor), offsets_(find_input(request, tensor.name + kOffsetsSuffix)) {
    int64_t each = 1;  // values of an element
    for (size_t i = 1; i < tensor.shape.size(); ++i) each *= tensor.shape[i];
    const auto bytes = static_cast<int64_t>(element_bytes(tensor.type));
    std::span<const std::byte> strings = tensor.data;
    for (int64_t row = 0; row <= rows; ++row) {
      const int64_t end = offsets_ != nullptr ? integer_at(*offsets_, row) : row;
      if (tensor.type == DataType::kBytes && row > 0)
        for (int64_t i = ends_.back() * each; i < end * each; ++i) detail::take_string(strings);
      ends_.push_back(end);
      byte_ends_.push_back(tensor.type == DataType::kBytes
                               ? std::ssize(tensor.data) - std::ssize(strings)
                               : end * each * bytes);
    }
  }

  bool is_ragged() const { return offsets_ != nullptr; }
  int64_t elements(int64_t row) const { return ends_[row + 1] - ends_[row]; }
  std::span<const std::byte> bytes(int64_t row) const {
    return tensor_.data.subspan(byte_ends_[row], byte_ends_[row + 1] - byte_ends_[row]);
  }

 private:
  const InputTensor& tensor_;
  const InputTensor* offsets_;
  std::vector<int64_t> ends_, byte_ends_;
};

// What the inputs of a request point to.
struct RankMemory {
  MemoryBudget::Lease lease;
  std::vector<std::vector<std::byte>> data;

  // An input whose parts are those of `items`.
  template <class PartOf>
  void add(InferRequest& request, InputTensor tensor, std::span<const FoundItem> items,
           const PartOf& part_of) {
    size_t bytes = 0;
    for (const FoundItem& item : items) bytes += part_of(item).size();
    lease.grow(bytes);
    std::vector<std::byte>& values = data.emplace_back();
    values.reserve(bytes);
    for (const FoundItem& item : items) {
      const std::span<const std::byte> part = part_of(item);
      values.insert(values.end(), part.begin(), part.end());
    }
    tensor.data = values;
    request.inputs.push_back(std::move(tensor));
  }
};

// The BYTES element of column `at`, with its length.
std::span<const std::byte> element_of(std::string_view texts, size_t at) {
  std::span<const std::byte> rest = std::as_bytes(std::span(texts));
  for (; at > 0; --at) detail::take_string(rest);
  std::span<const std::byte> after = rest;
  detail::take_string(after);
  return rest.first(rest.size() - after.size());
}

void add_of_users(const InferRequest& users, const InputTensor& tensor, int64_t rows,
                  std::span<const FoundItem> items, RankMemory& memory, InferRequest& request) {
  const TensorRows of_users(users, tensor, rows);
  InputTensor made{.name = tensor.name,
                   .type = tensor.type,
                   .shape = tensor.shape,
                   .data = {},
                   .in_shared_memory = tensor.in_shared_memory};
  made.shape.at(0) = std::ssize(items);
  if (of_users.is_ragged()) {
    std::vector<int64_t> offsets = {0};
    for (const FoundItem& item : items)
      offsets.push_back(offsets.back() + of_users.elements(item.user));
    made.shape[0] = offsets.back();
    const auto bytes = std::as_bytes(std::span(offsets));
    memory.lease.grow(bytes.size());
    memory.data.emplace_back(bytes.begin(), bytes.end());
    request.inputs.push_back({tensor.name + kOffsetsSuffix,
                              DataType::kInt64,
                              {std::ssize(offsets)},
                              memory.data.back()});
  }
  memory.add(request, std::move(made), items,
             [&](const FoundItem& item) { return of_users.bytes(item.user); });
}

}  // namespace

RankInputs::RankInputs(const InferRequest& request, const Servable& model,
                       const std::string& output, const StoredColumns& columns)
    : columns_(columns) {
  take_inputs(request, model);
  check(request, model, output);
}

void RankInputs::take_inputs(const InferRequest& request, const Servable& model) {
  const std::vector<std::string>& stored = columns_.names();
  for (const TensorMetadata& input : model.inputs()) {
    const auto at = std::ranges::find(stored, input.name);
    if (at != stored.end()) of_columns_.push_back(static_cast<size_t>(at - stored.begin()));
    for (const InputTensor& tensor : request.inputs) {
      if (!is_input_or_companion(tensor.name, input.name)) continue;
      EMBLEM_REQUIRE(at == stored.end(), "input '", tensor.name,
                     "' is a column that is stored with the items; omit the input");
      users_.inputs.push_back(tensor);
    }
  }
}

// The model checks a request with the inputs of users, and texts for the rest.
void RankInputs::check(const InferRequest& request, const Servable& model,
                       const std::string& output) {
  InferRequest checked = users_;
  checked.model = request.then_rank;
  checked.outputs = {{output}};
  int64_t rows = 1;
  if (!users_.inputs.empty()) {
    const InputTensor& first = users_.inputs.front();
    const InputTensor* const offsets = find_input(users_, first.name + kOffsetsSuffix);
    const std::vector<int64_t>& shape = (offsets != nullptr ? *offsets : first).shape;
    rows = shape.empty() ? 0 : shape[0] - (offsets != nullptr ? 1 : 0);
    EMBLEM_REQUIRE(rows >= 1 && rows <= kMostRanked, "input '", first.name, "' has ", rows,
                   " rows; a request whose items are ranked has 1 to ", kMostRanked);
    rows_ = rows;
  }
  const std::vector<std::byte> empty(static_cast<size_t>(rows) * sizeof(uint32_t));
  for (const size_t at : of_columns_)
    checked.inputs.push_back({columns_.names()[at], DataType::kBytes, {rows, 1}, empty});
  const RequestSize size = model.check(checked);
  EMBLEM_REQUIRE(size.answer_bytes == static_cast<uint64_t>(rows) * sizeof(float), "output '",
                 output, "' of model '", request.then_rank,
                 "' has several values for each row; choose another by parameter rank_output");
}

bool RankInputs::reads(const std::string& input) const {
  return find_input(users_, input) != nullptr;
}

void RankInputs::check_rows(int64_t rows) const {
  EMBLEM_REQUIRE(rows_ == 0 || rows_ == rows, "the inputs of the ranking model have ", rows_,
                 " rows, but those of the search have ", rows);
}

void RankInputs::fill(InferRequest& request, std::span<const FoundItem> items,
                      MemoryBudget* budget) const {
  auto memory = std::make_shared<RankMemory>();
  memory->lease = lease_of(budget);
  memory->data.reserve(2 * (users_.inputs.size() + of_columns_.size()));
  for (const InputTensor& tensor : users_.inputs) {
    const bool is_made = std::ranges::any_of(users_.inputs, [&](const InputTensor& other) {
      return tensor.name == other.name + kOffsetsSuffix;
    });
    if (!is_made) add_of_users(users_, tensor, rows_, items, *memory, request);
  }
  for (const size_t at : of_columns_)
    memory->add(request, {columns_.names()[at], DataType::kBytes, {std::ssize(items), 1}, {}},
                items, [&](const FoundItem& item) { return element_of(item.texts, at); });
  request.memory = std::move(memory);
}

std::string rank_output_of(const Servable& model, const std::string& asked) {
  if (!asked.empty()) return asked;
  const std::vector<TensorMetadata> outputs = model.outputs();
  EMBLEM_REQUIRE(outputs.size() == 1, "the model has the outputs ",
                 joined(outputs, ", ", &TensorMetadata::name),
                 "; choose one by parameter rank_output");
  return outputs[0].name;
}

}  // namespace emblem
