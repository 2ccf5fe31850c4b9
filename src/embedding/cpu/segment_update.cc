#include "embedding/cpu/segment_update.h"

namespace emblem {

void segment_update(const Context& context, const SegmentUpdate& op) {
  EMBLEM_REQUIRE(op.rows.dim > 0, "segment_update: rows have dimension ", op.rows.dim);
  cpu::segment_update(context, op);
}

}  // namespace emblem
