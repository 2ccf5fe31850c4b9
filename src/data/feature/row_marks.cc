#include "data/feature/row_marks.h"

#include "data/feature/row_gather.h"

namespace emblem {
namespace {

constexpr uint32_t kGood = 0, kBlank = 1;  // sources of runs

void add_row(uint32_t source, uint32_t row, std::vector<RowRun>& runs) {
  if (!runs.empty() && runs.back().source == source &&
      runs.back().begin + runs.back().count == row) {
    ++runs.back().count;
  } else {
    runs.push_back({source, row, 1});
  }
}

void replace_rows(Batch& batch, const std::vector<const Batch*>& sources,
                  const std::vector<RowRun>& runs) {
  Batch result = batch_in(batch.memory());
  gather_rows(sources, runs, result);
  batch = std::move(result);
}

}  // namespace

void RowMarks::drop_rows(Batch& batch) const {
  if (bad_.empty()) return;
  std::vector<RowRun> good;
  for (uint32_t row = 0; row < bad_.size(); ++row)
    if (bad_[row] == 0) add_row(kGood, row, good);
  replace_rows(batch, {&batch}, good);
  size_t kept = 0;
  for (size_t row = 0; row < bad_.size(); ++row)
    if (bad_[row] == 0) piece_.positions[kept++] = piece_.positions[row];
  piece_.positions.resize(kept);
}

void RowMarks::blank_rows(const Batch& blank, Batch& batch) const {
  const std::vector<int64_t>& unread = piece_.bad_positions;
  if (bad_.empty() && unread.empty()) return;
  std::vector<RowRun> runs;
  size_t next_unread = 0;
  const auto add_unread_before = [&](int64_t position) {
    for (; next_unread < unread.size() && unread[next_unread] < position; ++next_unread)
      runs.push_back({kBlank, 0, 1});
  };
  for (uint32_t row = 0; row < static_cast<uint32_t>(batch.rows); ++row) {
    add_unread_before(piece_.positions[row]);
    if (!bad_.empty() && bad_[row] != 0)
      runs.push_back({kBlank, 0, 1});
    else
      add_row(kGood, row, runs);
  }
  add_unread_before(INT64_MAX);
  replace_rows(batch, {&batch, &blank}, runs);
}

}  // namespace emblem
