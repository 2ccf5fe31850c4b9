#include <algorithm>

#include "core/threads/thread_pool.h"
#include "embedding/cpu/initialize_rows.h"

namespace emblem::cpu {
namespace {

int64_t key_of(const InitializeRows& op, int64_t row) {
  return op.held.is_everything() ? row : key_of_local_row(row, op.held);
}

}  // namespace

void initialize_rows(const InitializeRows& op, int64_t begin, int64_t end) {
  with_weight_type(op.rows.dtype, [&](auto type) {
    using W = decltype(type);
    const Initializer draw = op.initializer;
    for (int64_t i = begin; i < end; ++i) {
      const auto row = op.row_numbers ? op.row_numbers[i] : static_cast<uint32_t>(op.first_row + i);
      if (row == kNoRow) continue;
      const auto key = static_cast<uint64_t>(op.row_numbers ? op.keys[i] : key_of(op, row));
      char* at = op.rows.row(row);
      for (int64_t d = 0; d < op.rows.dim; ++d) {
        store_weight(reinterpret_cast<W*>(at) + d, draw(op.seed, key, d));
      }
      std::fill_n(op.rows.state(at), op.state_floats, op.state);
    }
  });
}

}  // namespace emblem::cpu

namespace emblem {

void initialize_rows(const Context& context, const InitializeRows& op) {
  EMBLEM_REQUIRE(op.rows.dim > 0, "initialize_rows: rows have dimension ", op.rows.dim);
  parallel_for(context, op.count, 1024,
               [&](int64_t begin, int64_t end) { cpu::initialize_rows(op, begin, end); });
}

}  // namespace emblem
