#include "train/run/rank_exchange.h"

#include "core/system/log.h"
#include "shard/host_groups.h"

namespace emblem {
namespace {

DType precision_of(const config::TrainConfig& config) {
  if (config.exchange_precision() == "BF16") return DType::kBf16;
  return config.exchange_precision() == "FP16" ? DType::kF16 : DType::kF32;
}

}  // namespace

HostDedup kind_of_host_dedup(const config::TrainConfig& config) {
  const bool is_exact = config.deterministic() || config.logical_shards() > 0;
  return is_exact ? HostDedup::kRows : HostDedup::kRowsAndSums;
}

HostDedup host_dedup_of(const config::TrainConfig& config, const std::vector<RankHost>& hosts,
                        Device device) {
  const std::string& wanted = config.dedup_per_host();
  const HostDedup kind = kind_of_host_dedup(config);
  if (wanted == "OFF") return HostDedup::kNone;
  if (wanted == "AUTO") {
    // It has not been measured on GPUs of several hosts yet.
    const bool is_on = device == Device::kCpu && hosts_have_many_ranks(hosts);
    return is_on ? kind : HostDedup::kNone;
  }
  EMBLEM_REQUIRE(device == Device::kCpu || kind == HostDedup::kRowsAndSums,
                 "train_config.dedup_per_host is ON, but GPUs sum the gradients of a host then, so "
                 "that results depend on the hosts; remove deterministic and logical_shards, or "
                 "use AUTO or OFF");
  return hosts_share_ranks(hosts) ? kind : HostDedup::kNone;
}

RankExchange rank_exchange_of(const Context& context, const World& world,
                              const config::TrainConfig& config) {
  if (world.has_whole_tables) return {};
  const RankExchange found{precision_of(config),
                           host_dedup_of(config, world.ranks->hosts(), context.device)};
  if (found.host_dedup != HostDedup::kNone)
    log_info(
        cat("each row is sent once per step to each of ",
            HostGroups(world.ranks->hosts(), 0).hosts(), " hosts (dedup_per_host)",
            found.host_dedup == HostDedup::kRowsAndSums ? "; so is the sum of its gradients" : ""));
  return found;
}

}  // namespace emblem
