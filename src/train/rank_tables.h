// train/rank_tables.h - the tables of a model, of which every rank has a part.
#pragma once

#include "core/half.h"
#include "model/model_lookup.h"
#include "train/world.h"

namespace emblem {

// `world` must outlive what it makes. Rows and gradients travel between ranks in `precision`.
MakeRankTables rank_tables_of(const Context& context, const World& world,
                              DType precision = DType::kF32);

}  // namespace emblem
