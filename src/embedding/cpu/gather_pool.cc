#include "embedding/cpu/gather_pool.h"

namespace emblem {

void gather_pool(const Context& context, const GatherPool& op) {
  EMBLEM_REQUIRE(op.rows.dim > 0, "gather_pool: rows have dimension ", op.rows.dim);
  EMBLEM_REQUIRE(op.out_stride >= op.rows.dim, "gather_pool: bags are ", op.out_stride,
                 " floats apart in the output, but a row has ", op.rows.dim);
  cpu::gather_pool(context, op);
}

}  // namespace emblem
