#include "train/run/rank_positions.h"

#include <algorithm>

#include "comm/bytes.h"
#include "core/files/byte_io.h"

namespace emblem {
namespace {

std::string to_bytes(const std::vector<DataPosition>& positions) {
  ByteWriter bytes;
  bytes.add(static_cast<uint64_t>(positions.size()));
  for (const DataPosition& each : positions) {
    bytes.add(each.epoch).add(each.piece).add(each.row).add(each.emitted).add(each.rows_in_epoch);
    bytes.add(static_cast<uint64_t>(each.stream.size()));
    for (const StreamPosition& at : each.stream) bytes.add(at.partition).add(at.offset).add(at.row);
  }
  return std::move(bytes).bytes();
}

void read(std::string_view from, std::vector<DataPosition>& positions) {
  ByteReader bytes(from, "the position of a rank");
  for (size_t left = bytes.read_count(6 * sizeof(int64_t)); left > 0; --left) {
    DataPosition& each = positions.emplace_back();
    for (int64_t* value : {&each.epoch, &each.piece, &each.row, &each.emitted, &each.rows_in_epoch})
      bytes.read(*value);
    each.stream.resize(bytes.read_count(sizeof(int32_t) + 2 * sizeof(int64_t)));
    for (StreamPosition& at : each.stream) {
      bytes.read(at.partition);
      bytes.read(at.offset);
      bytes.read(at.row);
    }
  }
  bytes.end();
}

}  // namespace

StoredPositions gather_positions(const World& world, const std::vector<DataPosition>& own,
                                 int64_t epoch) {
  if (world.shards == 1) return {.all = own[0]};
  StoredPositions stored{.all = {.epoch = epoch}};
  for (const std::string& of_rank : gather_bytes(*world.ranks, to_bytes(own)))
    read(of_rank, stored.shards);
  join_streams(stored.shards, stored.all);
  return stored;
}

void join_streams(const std::vector<DataPosition>& shards, DataPosition& position) {
  DataPosition joined;
  for (const DataPosition& each : shards) {
    joined.rows_in_epoch += each.rows_in_epoch;
    joined.stream.insert(joined.stream.end(), each.stream.begin(), each.stream.end());
  }
  if (joined.stream.empty()) return;
  std::sort(joined.stream.begin(), joined.stream.end(),
            [](const auto& a, const auto& b) { return a.partition < b.partition; });
  position = std::move(joined);
}

std::vector<DataPosition> divide_stream(const DataPosition& joined,
                                        const std::vector<DataPosition>& stored, int64_t shards) {
  std::vector<DataPosition> divided(static_cast<size_t>(shards));
  if (stored.size() == divided.size())
    divided = stored;
  else
    divided[0].rows_in_epoch = joined.rows_in_epoch;
  for (DataPosition& each : divided) each.stream = joined.stream;
  return divided;
}

}  // namespace emblem
