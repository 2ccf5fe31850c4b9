#include "embedding/transfer/staging_buffer.h"

#include <algorithm>
#include <new>

#include "core/device/cuda_check.h"
#include "core/math/divide.h"

namespace emblem::cuda {
namespace {

// The queue, then lists of rows, then buffers of rows.
struct Layout {
  int64_t in_rows, out_rows, in, out, end;
  Layout(int64_t rows, int64_t row_bytes, StagingBuffer::Direction direction) {
    const bool both = direction == StagingBuffer::Direction::kBoth;
    const int64_t list = round_up(rows * 8, 4096), buffer = round_up(rows * row_bytes, 4096);
    in_rows = round_up(sizeof(TransferQueue), 4096);
    out_rows = in_rows + list;
    in = out_rows + (both ? list : 0);
    out = in + buffer;
    end = out + (both ? buffer : 0);
  }
};

}  // namespace

std::unique_ptr<StagingBuffer> StagingBuffer::make(const Context& context, int64_t rows,
                                                   int64_t row_bytes, Direction direction,
                                                   const TransferSettings& settings) {
  if (row_bytes == 0 || row_bytes > kMaxTransferredRowBytes) return nullptr;
  rows = std::min(rows, settings.max_buffer_bytes / row_bytes);
  if (rows < std::max<int64_t>(1, settings.min_rows)) return nullptr;
  std::shared_ptr<HostTransfer> host_transfer = HostTransfer::of_process();
  if (!host_transfer) return nullptr;
  try {
    return std::unique_ptr<StagingBuffer>(
        new StagingBuffer(context, std::move(host_transfer), rows, row_bytes, direction, settings));
  } catch (const Error&) {
    return nullptr;
  }
}

StagingBuffer::StagingBuffer(const Context& context, std::shared_ptr<HostTransfer> host_transfer,
                             int64_t rows, int64_t row_bytes, Direction direction,
                             const TransferSettings& settings)
    : transfer_(std::move(host_transfer)),
      memory_(Layout(rows, row_bytes, direction).end),
      state_(Buffer<StagingState>::zeros(context, 1)) {
  const Layout at(rows, row_bytes, direction);
  char* data = memory_.data();
  ref_.memory.queue = new (data) TransferQueue();
  ref_.memory.in = data + at.in;
  ref_.memory.in_rows = reinterpret_cast<uint64_t*>(data + at.in_rows);
  if (direction == Direction::kBoth) {
    ref_.memory.out = data + at.out;
    ref_.memory.out_rows = reinterpret_cast<uint64_t*>(data + at.out_rows);
  }
  ref_.state = state_.data();
  ref_.rows = static_cast<uint32_t>(rows);
  const int64_t piece =
      std::max(settings.piece_bytes / row_bytes, (rows + kMaxPieces - 1) / kMaxPieces);
  ref_.piece_rows = static_cast<uint32_t>(round_up(std::max<int64_t>(1, piece), kRowsPerWrite));
  ref_.min_rows = static_cast<uint32_t>(std::max<int64_t>(1, settings.min_rows));
  ref_.direct_rows = static_cast<uint32_t>(std::clamp<int64_t>(settings.direct_rows, 0, 15));
  transfer_->add(ref_.memory);
}

StagingBuffer::~StagingBuffer() {
  cudaDeviceSynchronize();
  transfer_->remove(ref_.memory);
}

}  // namespace emblem::cuda
