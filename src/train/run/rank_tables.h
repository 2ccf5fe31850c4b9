// train/run/rank_tables.h - the tables of a model, of which every rank has a part.
#pragma once

#include "model/lookup/model_lookup.h"
#include "train/run/rank_exchange.h"
#include "train/run/world.h"

namespace emblem {

// Null where the tables are whole.
MakeRankTables rank_tables_of(const Context& context, const World& world,
                              const RankExchange& exchange = {});

}  // namespace emblem
