// train/run/rank_exchange.h - how rows and gradients travel between the ranks of a training.
#pragma once

#include "config/proto/pipeline.pb.h"
#include "core/math/half.h"
#include "shard/sharded_lookup.h"
#include "train/run/world.h"

namespace emblem {

struct RankExchange {
  DType precision = DType::kF32;
  HostDedup host_dedup = HostDedup::kNone;
};

// What ranks that share hosts do together where they do: sums of a host's gradients depend on who
// shares it, so not where results must not.
HostDedup kind_of_host_dedup(const config::TrainConfig& config);
// What `config` asks of ranks on these hosts. Throws Error for what their device cannot do.
HostDedup host_dedup_of(const config::TrainConfig& config, const std::vector<RankHost>& hosts,
                        Device device);

// As `config` says; a line in the log says so where rows come to a host once.
RankExchange rank_exchange_of(const Context& context, const World& world,
                              const config::TrainConfig& config);

}  // namespace emblem
