#include "train/rank_pass.h"

#include "comm/bytes.h"
#include "train/lookup_report.h"

namespace emblem {

void write_lookups(ByteWriter& bytes, const std::vector<FeatureLookups>& lookups) {
  bytes.add(static_cast<uint64_t>(lookups.size()));
  for (const FeatureLookups& one : lookups)
    bytes.add_text(one.feature).add_text(one.table).add(one.counts.values).add(one.counts.missing);
}

std::vector<FeatureLookups> read_lookups(ByteReader& bytes) {
  std::vector<FeatureLookups> lookups(bytes.read_count(4 * sizeof(int64_t)));
  for (FeatureLookups& one : lookups) {
    one.feature = bytes.read_text();
    one.table = bytes.read_text();
    bytes.read(one.counts.values);
    bytes.read(one.counts.missing);
  }
  return lookups;
}

void write_pass(ByteWriter& bytes, const PredictionPass& pass) {
  bytes.add(pass.rows).add(pass.bad_rows);
  write_lookups(bytes, pass.lookups);
}

void read_pass(ByteReader& bytes, PredictionPass& sum) {
  int64_t rows = 0, bad_rows = 0;
  bytes.read(rows);
  bytes.read(bad_rows);
  sum.rows += rows;
  sum.bad_rows += bad_rows;
  add_lookups(read_lookups(bytes), sum.lookups);
}

PredictionPass sum_passes(Communicator& ranks, const PredictionPass& mine) {
  ByteWriter own;
  write_pass(own, mine);
  PredictionPass sum;
  std::string result;
  for (const std::string& of_rank : gather_bytes(ranks, own.bytes())) {
    ByteReader bytes(of_rank, "what a rank has predicted");
    read_pass(bytes, sum);
  }
  if (ranks.rank() == 0) {
    ByteWriter all;
    write_pass(all, sum);
    result = all.bytes();
  }
  broadcast_bytes(ranks, result);
  PredictionPass received;
  ByteReader bytes(result, "what all ranks have predicted");
  read_pass(bytes, received);
  return received;
}

void check_bad_rows(const PredictionPass& sum, const LoaderOptions& options) {
  if (sum.bad_rows > options.max_bad_rows)
    throw CommonError(ErrorCode::kCorruption,
                      cat(sum.bad_rows, " rows cannot be read in ", options.input,
                          ", data_config.max_bad_rows allows ", options.max_bad_rows));
}

}  // namespace emblem
