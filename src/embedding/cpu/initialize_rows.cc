#include "embedding/cpu/initialize_rows.h"

namespace emblem {

void initialize_rows(const Context& context, const InitializeRows& op) {
  EMBLEM_REQUIRE(op.rows.dim > 0, "initialize_rows: rows have dimension ", op.rows.dim);
  cpu::initialize_rows(context, op);
}

}  // namespace emblem
