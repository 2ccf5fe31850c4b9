#include "store/redis/redis_cluster.h"

#ifdef EMBLEM_WITH_REDIS

#include <algorithm>

#include "core/text/text.h"

namespace emblem {
namespace {

constexpr int kMostRounds = 8;  // rounds of commands that are sent on to other nodes

uint16_t crc16(std::string_view text) {  // XMODEM
  uint16_t crc = 0;
  for (const char byte : text) {
    crc = static_cast<uint16_t>(crc ^ (static_cast<unsigned char>(byte) << 8));
    for (int bit = 0; bit < 8; ++bit) {
      crc = static_cast<uint16_t>((crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1);
    }
  }
  return crc;
}

// Whether a failure says something about the server: a connection that was used before may have
// been closed meanwhile, but no connection explains a reply that does not come.
bool is_failure_of(const RedisNode::Lease& lease, Deadline deadline) {
  return !lease.used_before() || std::chrono::steady_clock::now() >= deadline;
}

[[noreturn]] void fail(const RedisEndpoint& at, ErrorCode code, std::string_view reason) {
  throw Error(code, cat("redis at ", at.text(), ": ", reason));
}

}  // namespace

uint16_t redis_slot(std::string_view key) {
  const size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  return crc16(key) % kRedisSlots;
}

RedisCluster::RedisCluster(RedisSettings settings)
    : settings_(std::move(settings)), resolver_(settings_.resolve), slots_(kRedisSlots) {
  const RedisTls& tls = settings_.tls;
  if (tls.enabled)
    tls_ = std::make_unique<ClientTlsContext>(
        ClientTls{tls.ca_certificate, tls.client_certificate, tls.client_key});
  for (const RedisEndpoint& endpoint : settings_.endpoints) node(endpoint);
}

RedisNode& RedisCluster::node(const RedisEndpoint& endpoint) {
  std::lock_guard lock(mutex_);
  auto& node = nodes_[endpoint.text()];
  if (node == nullptr)
    node = std::make_unique<RedisNode>(endpoint, settings_, tls_.get(), resolver_);
  return *node;
}

RedisNode& RedisCluster::owner(uint16_t slot) const {
  std::shared_lock lock(mutex_);
  if (slots_[slot] != nullptr) return *slots_[slot];
  throw Error(ErrorCode::kUnavailable, cat("redis: no node of the cluster serves slot ", slot));
}

std::vector<RedisNode*> RedisCluster::known_nodes() const {
  std::shared_lock lock(mutex_);
  std::vector<RedisNode*> nodes;
  for (const auto& [name, node] : nodes_) nodes.push_back(node.get());
  // Nodes that answered their last request come first.
  std::stable_partition(nodes.begin(), nodes.end(), [](RedisNode* at) { return !at->pausing(); });
  return nodes;
}

void RedisCluster::run(std::vector<RedisTask>& tasks) {
  if (tasks.empty()) return;
  const Deadline deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(settings_.request_timeout_ms);
  bool used_before = false;
  try {
    return run_once(tasks, deadline, used_before);
  } catch (const Error& error) {
    slots_known_ = false;  // other nodes may serve them by now
    if (error.code() != ErrorCode::kUnavailable || !used_before) throw;
  }
  // Connections that lay idle may have died with a server that is back: once more, with new ones.
  for (RedisNode* node : known_nodes()) node->close_idle();
  run_once(tasks, deadline, used_before);
}

void RedisCluster::run_once(std::vector<RedisTask>& tasks, Deadline deadline, bool& used_before) {
  if (!slots_known_) learn_slots(deadline);
  std::vector<Pending> pending;
  for (RedisTask& task : tasks) pending.push_back({&task});
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<Pipeline> pipelines = send(pending, deadline, used_before);
    pending.clear();
    for (Pipeline& pipeline : pipelines) receive(pipeline, deadline, pending);
    if (pending.empty()) return;
  }
  throw Error(ErrorCode::kUnavailable, "redis: the cluster keeps sending commands elsewhere");
}

std::vector<RedisCluster::Pipeline> RedisCluster::send(std::vector<Pending>& pending,
                                                       Deadline deadline, bool& used_before) {
  std::map<RedisNode*, std::vector<Pending>> by_node;
  for (const Pending& one : pending) {
    by_node[one.asked != nullptr ? one.asked : &owner(one.task->slot)].push_back(one);
  }
  std::vector<Pipeline> pipelines;
  static const std::string asking = redis_command({"ASKING"});
  for (auto& [node, group] : by_node) {
    pipelines.push_back({node, node->lease(deadline), std::move(group)});
    Pipeline& pipeline = pipelines.back();
    used_before |= pipeline.lease.used_before();
    std::string commands;
    for (const Pending& one : pipeline.pending) {
      if (one.asked != nullptr) commands += asking;
      commands += one.task->command;
    }
    // A process that was stopped meanwhile must not write what others have replaced since.
    if (std::chrono::steady_clock::now() >= deadline)
      fail(node->endpoint(), ErrorCode::kUnavailable, "timed out before a command was sent");
    try {
      pipeline.lease->send(commands, deadline);
    } catch (const Error&) {
      if (is_failure_of(pipeline.lease, deadline)) node->note_failure();
      throw;
    }
  }
  return pipelines;
}

void RedisCluster::receive(Pipeline& pipeline, Deadline deadline, Retry& retry) {
  try {
    for (const Pending& one : pipeline.pending) {
      if (one.asked != nullptr) pipeline.lease->next(deadline);  // +OK of ASKING
      const RedisItem first = pipeline.lease->next(deadline);
      if (first.kind == RedisItem::Kind::kError) {
        refused(pipeline, one, first.text, retry);
      } else {
        one.task->take(first, *pipeline.lease, deadline);
      }
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnavailable && is_failure_of(pipeline.lease, deadline)) {
      pipeline.node->note_failure();
    }
    throw;
  }
  pipeline.lease.give_back();
}

void RedisCluster::refused(const Pipeline& pipeline, Pending pending, std::string_view reason,
                           Retry& retry) {
  const RedisEndpoint& at = pipeline.node->endpoint();
  const std::vector<std::string> words = split(reason, ' ');
  if (words[0] == "WRONGTYPE" && pending.task->has_wrong_type)
    return pending.task->has_wrong_type();
  if (words.size() < 3 || (words[0] != "MOVED" && words[0] != "ASK")) {
    fail(at, words[0] == "WRONGTYPE" ? ErrorCode::kCorruption : ErrorCode::kUnavailable, reason);
  }
  const size_t colon = words[2].rfind(':');
  if (colon == std::string::npos) fail(at, ErrorCode::kCorruption, reason);
  const std::string host = words[2].substr(0, colon);
  RedisNode& there = node({host.empty() ? at.host : host, std::atoi(words[2].c_str() + colon + 1)});
  pending.asked = words[0] == "ASK" ? &there : nullptr;
  if (pending.asked == nullptr) {
    std::lock_guard lock(mutex_);
    slots_[pending.task->slot] = &there;
  }
  retry.push_back(pending);
}

void RedisCluster::learn_slots(Deadline deadline) {
  std::string reasons;
  for (RedisNode* node : known_nodes()) {
    try {
      return learn_slots_from(*node, deadline);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      reasons += cat(reasons.empty() ? "" : "; ", error.what());
    }
  }
  throw Error(ErrorCode::kUnavailable, reasons);
}

void RedisCluster::learn_slots_from(RedisNode& node, Deadline deadline) {
  auto lease = node.lease(deadline);
  RedisReply reply;
  try {
    lease->send(redis_command({"CLUSTER", "SLOTS"}), deadline);
    reply = lease->reply(deadline);
  } catch (const Error&) {
    if (is_failure_of(lease, deadline))
      node.note_failure();
    else
      node.close_idle();
    throw;
  }
  std::vector<RedisNode*> slots(kRedisSlots);
  if (reply.kind == RedisItem::Kind::kError) {
    if (reply.text.find("cluster support disabled") == std::string::npos) {
      node.note_failure();
      fail(node.endpoint(), ErrorCode::kUnavailable, reply.text);
    }
    std::fill(slots.begin(), slots.end(), &node);
  }
  for (const RedisReply& range : reply.items) {
    if (range.items.size() < 3 || range.items[2].items.size() < 2) {
      fail(node.endpoint(), ErrorCode::kCorruption, "CLUSTER SLOTS of an unknown form");
    }
    const std::string& host = range.items[2].items[0].text;
    RedisNode& owner = this->node({host.empty() ? node.endpoint().host : host,
                                   static_cast<int>(range.items[2].items[1].number)});
    const int64_t first = std::max<int64_t>(0, range.items[0].number);
    const int64_t last = std::min<int64_t>(kRedisSlots - 1, range.items[1].number);
    for (int64_t slot = first; slot <= last; ++slot) slots[static_cast<size_t>(slot)] = &owner;
  }
  lease.give_back();
  std::lock_guard lock(mutex_);
  slots_ = std::move(slots);
  slots_known_ = true;
}

}  // namespace emblem

#endif
