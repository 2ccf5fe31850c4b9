#include "data/loader/piece_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kPiecesOfStream = 4;  // at least, where the data is large enough

int64_t size_of(const Extent& range) { return range.end - range.begin; }

// Pieces of a range that is not empty.
int64_t pieces_of(const Extent& range, int64_t piece_size) {
  return (size_of(range) - 1) / piece_size + 1;
}

template <class Take>
void for_each_part(const Decoder& decoder, const Take& take) {
  for (int file = 0; file < static_cast<int>(decoder.files().size()); ++file)
    for (const Extent& part : decoder.parts(file))
      if (size_of(part) > 0) take(file, part);
}

// The largest size, `largest` at most, at which parts are cut into kPiecesOfStream for each stream.
int64_t size_for_streams(const Decoder& decoder, int64_t largest, int64_t streams) {
  int64_t size = 0, pieces = 0;
  for_each_part(decoder, [&](int, const Extent& part) {
    size += size_of(part);
    pieces += pieces_of(part, largest);
  });
  if (pieces >= kPiecesOfStream * streams) return largest;
  return std::clamp<int64_t>(size / (kPiecesOfStream * streams), 1, largest);
}

constexpr int64_t kWholePart = std::numeric_limits<int64_t>::max();

}  // namespace

int64_t piece_size_for(const Decoder& decoder, int64_t largest, int64_t streams) {
  return streams == 1 ? largest : size_for_streams(decoder, largest, streams);
}

PieceOrder::PieceOrder(const Decoder& decoder, int64_t piece_size, ReadOrder order, uint64_t seed,
                       StreamShare share)
    : piece_size_(piece_size),
      order_(order),
      seed_(seed),
      share_(share),
      reads_forward_(decoder.reads_forward()) {
  const int64_t run_size = largest_run(decoder);
  int64_t count = 0;
  for_each_part(decoder, [&](int file, const Extent& part) {
    count += pieces_of(part, piece_size);
    EMBLEM_REQUIRE(count < (int64_t{1} << 32), "the data set has ", count,
                   " pieces; expected fewer than 2^32: use a larger batch");
    // Runs that are dealt out are of equal sizes: no stream has all the short ends.
    const int64_t runs = pieces_of(part, run_size);
    const int64_t step = share_.streams == 1 ? run_size : pieces_of(part, runs);
    for (Extent run = part; run.begin < part.end; run.begin = run.end) {
      run.end = part.end - run.begin > step ? run.begin + step : part.end;
      runs_.push_back({file, run, pieces_of(run, piece_size)});
    }
  });
}

int64_t PieceOrder::largest_run(const Decoder& decoder) const {
  if (share_.streams == 1)
    return reads_forward_ || order_ == ReadOrder::kAsStored ? kWholePart : piece_size_;
  if (!reads_forward_) return piece_size_;
  return std::max(piece_size_, size_for_streams(decoder, kWholePart, share_.streams));
}

void PieceOrder::deal(int64_t epoch) {
  if (dealt_epoch_ == epoch || (dealt_epoch_ >= 0 && order_ == ReadOrder::kAsStored)) return;
  std::vector<uint32_t> order(runs_.size());
  std::iota(order.begin(), order.end(), 0u);
  if (order_ == ReadOrder::kShuffled) {
    shuffle_items(order,
                  Random{seed_, mix64(0x7069656365730000ull + static_cast<uint64_t>(epoch))});
  }
  own_.clear();
  first_.assign(1, 0);
  const auto streams = static_cast<size_t>(share_.streams);
  for (auto i = static_cast<size_t>(share_.stream); i < order.size(); i += streams) {
    own_.push_back(order[i]);
    first_.push_back(first_.back() + runs_[order[i]].pieces);
  }
  dealt_epoch_ = epoch;
}

int64_t PieceOrder::count(int64_t epoch) {
  deal(epoch);
  return first_.back();
}

int64_t PieceOrder::size(int64_t epoch) {
  deal(epoch);
  int64_t size = 0;
  for (const uint32_t run : own_) size += size_of(runs_[run].range);
  return size;
}

std::pair<size_t, int64_t> PieceOrder::find(int64_t epoch, int64_t index) {
  deal(epoch);
  const auto next = std::upper_bound(first_.begin(), first_.end(), index);
  const auto place = static_cast<size_t>(next - first_.begin() - 1);
  return {place, index - first_[place]};
}

FilePiece PieceOrder::at(int64_t epoch, int64_t index) {
  const auto [place, piece] = find(epoch, index);
  const Run& run = run_at(place);
  const int64_t begin = run.range.begin + piece * piece_size_;
  return {run.file, {begin, std::min(begin + piece_size_, run.range.end)}};
}

int64_t PieceOrder::run_number(int64_t epoch, int64_t index) {
  return own_[find(epoch, index).first];
}

int64_t PieceOrder::run_length(int64_t epoch, int64_t index) {
  if (!reads_forward_) return 1;
  const auto [place, piece] = find(epoch, index);
  return run_at(place).pieces - piece;
}

}  // namespace emblem
