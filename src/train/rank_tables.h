// train/rank_tables.h - the tables of a model, of which every rank has a part.
#pragma once

#include "model/model_lookup.h"
#include "train/rank_exchange.h"
#include "train/world.h"

namespace emblem {

// `world` must outlive what it makes.
MakeRankTables rank_tables_of(const Context& context, const World& world,
                              const RankExchange& exchange = {});

}  // namespace emblem
