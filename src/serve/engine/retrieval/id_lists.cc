#include "serve/engine/retrieval/id_lists.h"

#include <limits>

#include "core/text/text.h"
#include "emblem/error.h"
#include "serve/engine/request_sequence.h"
#include "serve/engine/tensor_values.h"

namespace emblem {
namespace {

constexpr int64_t kNoId = std::numeric_limits<int64_t>::min();

}  // namespace

int64_t integer_at(const InputTensor& tensor, int64_t at) {
  return tensor.type == DataType::kInt32 ? value_at<int32_t>(tensor, at)
                                         : value_at<int64_t>(tensor, at);
}

IdLists::IdLists(const InferRequest& request, const char* name) : request_(request), name_(name) {
  for (const InputTensor& tensor : request.inputs) {
    if (!has(name, tensor.name)) continue;
    const InputTensor*& place = tensor.name == name_                ? values_
                                : tensor.name == name_ + ".lengths" ? lengths_
                                                                    : offsets_;
    EMBLEM_REQUIRE(place == nullptr, "input '", tensor.name, "' is given twice");
    place = &tensor;
  }
}

bool IdLists::has(const char* name, const std::string& tensor) {
  return tensor == name || RequestSequence::is_companion(tensor, name);
}

void IdLists::check(int64_t rows) const {
  if (values_ == nullptr) {
    EMBLEM_REQUIRE(lengths_ == nullptr && offsets_ == nullptr, "input '", name_,
                   lengths_ != nullptr ? ".lengths" : ".offsets", "' is given without '", name_,
                   "'");
    return;
  }
  EMBLEM_REQUIRE(values_->type == DataType::kInt64, "input '", name_, "' is ",
                 name_of(values_->type), ", expected INT64");
  EMBLEM_REQUIRE(values_->shape.size() == (offsets_ != nullptr ? 1 : 2), "input '", name_,
                 "' has shape ", shape_text(values_->shape), ", expected ",
                 offsets_ != nullptr ? "[ids]" : "[rows,ids]");
  const int64_t found = RequestSequence(request_, name_).check();
  EMBLEM_REQUIRE(found == rows, "input '", name_, "' has ", found, " rows, but the request has ",
                 rows);
  const auto require_most = [&](int64_t ids, int64_t row) {
    EMBLEM_REQUIRE(ids <= kMostListedIds, "input '", name_, "' has ", ids, " ids in row ", row,
                   "; at most ", kMostListedIds, " are possible");
  };
  for (int64_t row = 0; row < rows && offsets_ != nullptr; ++row)
    require_most(integer_at(*offsets_, row + 1) - integer_at(*offsets_, row), row);
  if (offsets_ == nullptr) require_most(values_->shape[1], 0);
}

std::vector<int64_t> IdLists::of_row(int64_t row) const {
  int64_t begin = 0, end = 0;
  if (offsets_ != nullptr) {
    begin = integer_at(*offsets_, row);
    end = integer_at(*offsets_, row + 1);
  } else {
    begin = row * values_->shape[1];
    end = begin + (lengths_ != nullptr ? integer_at(*lengths_, row) : values_->shape[1]);
  }
  std::vector<int64_t> ids;
  ids.reserve(static_cast<size_t>(end - begin));
  for (int64_t at = begin; at < end; ++at) {
    const auto id = value_at<int64_t>(*values_, at);
    if (id != kNoId) ids.push_back(id);
  }
  return ids;
}

}  // namespace emblem
