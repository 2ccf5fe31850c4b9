// bench/collection/recorded_ranks.h - one rank of several whose others are not there: their
// requests are recorded, rows and gradients do not move.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"

namespace emblem {

// What a rank asks of this one for a batch: keys by table, one after the other.
struct RecordedRequests {
  std::vector<int32_t> counts;  // by table
  Buffer<int64_t> keys;         // on the device; padded to 16 bytes
};

// Rank 0. For the messages of a sharded lookup on a GPU with one shard a rank: sizes in host
// memory, then keys, rows and gradients in device memory.
class RecordedRanks : public Communicator {
 public:
  // batches[b][r - 1]: what rank r asks in batch b.
  RecordedRanks(int size, std::vector<std::vector<RecordedRequests>> batches);

  void begin_batch(int64_t batch);

  int rank() const override { return 0; }
  int size() const override { return static_cast<int>(hosts_.size()); }
  const std::vector<RankHost>& hosts() const override { return hosts_; }
  const char* transport() const override { return "recorded"; }
  void fail(const std::string&) noexcept override {}
  void check() const override {}

 protected:
  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) override;

 private:
  std::vector<RankHost> hosts_;
  std::vector<std::vector<RecordedRequests>> batches_;
  size_t batch_ = 0;
  bool keys_come_next_ = true;
};

}  // namespace emblem
