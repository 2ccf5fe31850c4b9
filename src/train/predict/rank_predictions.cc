#include "train/predict/rank_predictions.h"

#include <algorithm>

#include "comm/bytes.h"

namespace emblem {

RankPredictions::RankPredictions(Communicator& ranks, std::vector<HeadSpec> heads,
                                 std::vector<OutputSpec> outputs, PredictionFile* file)
    : ranks_(ranks),
      heads_(std::move(heads)),
      outputs_(std::move(outputs)),
      file_(file),
      waiting_(static_cast<size_t>(ranks.size())) {}

void RankPredictions::add(const Batch& batch, const std::vector<View<const float>>& logits) {
  if (ranks_.size() == 1) return file_->add(batch, logits);
  const auto values = output_values(heads_, outputs_, batch.rows, logits);
  size_t first = 0;
  for (const StoredRows& stored : batch.stored) {
    const auto rows = static_cast<size_t>(stored.rows);
    unsent_.add(stored.run).add(stored.rows);
    const auto bad = std::span(batch.bad).subspan(batch.bad.empty() ? 0 : first);
    unsent_.add_all(std::span<const uint8_t>(bad.first(std::min(rows, bad.size()))));
    unsent_.add(static_cast<uint64_t>(batch.kept.rows() == 0 ? 0 : rows));
    for (size_t row = first; row < first + rows && batch.kept.rows() > 0; ++row)
      unsent_.add_text(batch.kept[row]);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const auto cols = static_cast<size_t>(outputs_[i].cols);
      unsent_.add_all(std::span<const float>(values[i]).subspan(first * cols, rows * cols));
    }
    first += rows;
  }
  EMBLEM_REQUIRE(first == static_cast<size_t>(batch.rows), "a batch has no row positions");
}

void RankPredictions::send() {
  if (ranks_.size() == 1) return;
  const std::vector<std::string> all = gather_bytes(ranks_, unsent_.bytes());
  unsent_ = {};
  for (size_t r = 0; r < all.size(); ++r) read_parts(all[r], waiting_[r]);
  if (!all.empty()) write_in_order();
}

void RankPredictions::read_parts(std::string_view bytes, std::deque<Part>& parts) const {
  ByteReader reader(bytes, "the predictions of a rank");
  while (reader.left() > 0) {
    Part& part = parts.emplace_back();
    reader.read(part.run);
    reader.read(part.batch.rows);
    reader.read_all(part.batch.bad);
    for (size_t left = reader.read_count(sizeof(uint64_t)); left > 0; --left)
      part.batch.kept.append(reader.read_text());
    part.values.resize(outputs_.size());
    for (std::vector<float>& values : part.values) reader.read_all(values);
  }
}

// Run r is one of rank r modulo their number. It is complete when a later one of that rank comes.
void RankPredictions::write_in_order() {
  while (true) {
    std::deque<Part>& parts = waiting_[static_cast<size_t>(next_run_) % waiting_.size()];
    if (parts.empty()) return;
    if (parts.front().run > next_run_) {
      ++next_run_;
      continue;
    }
    file_->add(parts.front().batch, parts.front().values);
    parts.pop_front();
  }
}

void RankPredictions::finish() {
  if (file_ == nullptr) return;
  const auto has_rows = [](const std::deque<Part>& parts) { return !parts.empty(); };
  while (std::any_of(waiting_.begin(), waiting_.end(), has_rows)) {
    write_in_order();
    ++next_run_;  // it is complete, too
  }
}

}  // namespace emblem
