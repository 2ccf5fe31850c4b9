#include "embedding/transfer/staging_buffer.h"

#include <algorithm>
#include <new>

#include "core/cuda_check.h"

namespace emblem::cuda {
namespace {

int64_t rounded_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Lists and buffers lie behind the queue, one after the other.
struct Layout {
  int64_t in_from, out_to, in, out, end;
  Layout(int64_t rows, int64_t row_bytes, StagingBuffer::Ways ways) {
    const bool both = ways == StagingBuffer::Ways::kInAndOut;
    const int64_t list = rounded_up(rows * 8, 4096), buffer = rounded_up(rows * row_bytes, 4096);
    in_from = rounded_up(sizeof(TransferQueue), 4096);
    out_to = in_from + list;
    in = out_to + (both ? list : 0);
    out = in + buffer;
    end = out + (both ? buffer : 0);
  }
};

}  // namespace

std::unique_ptr<StagingBuffer> StagingBuffer::make(const Context& context, int64_t rows,
                                                   int64_t row_bytes, Ways ways,
                                                   const TransferSettings& settings) {
  if (row_bytes == 0 || row_bytes > kLongestTransferredRow) return nullptr;
  rows = std::min(rows, settings.max_buffer_bytes / row_bytes);
  if (rows < std::max<int64_t>(1, settings.min_rows)) return nullptr;
  std::shared_ptr<HostTransfer> host_transfer = HostTransfer::of_process();
  if (!host_transfer) return nullptr;
  try {
    return std::unique_ptr<StagingBuffer>(
        new StagingBuffer(context, std::move(host_transfer), rows, row_bytes, ways, settings));
  } catch (const Error&) {
    return nullptr;
  }
}

StagingBuffer::StagingBuffer(const Context& context, std::shared_ptr<HostTransfer> host_transfer,
                             int64_t rows, int64_t row_bytes, Ways ways,
                             const TransferSettings& settings)
    : transfer_(std::move(host_transfer)),
      memory_(Layout(rows, row_bytes, ways).end),
      state_(Buffer<StagingState>::zeros(context, 1)) {
  const Layout at(rows, row_bytes, ways);
  char* data = memory_.data();
  ref_.memory.queue = new (data) TransferQueue();
  ref_.memory.in = data + at.in;
  ref_.memory.in_from = reinterpret_cast<uint64_t*>(data + at.in_from);
  if (ways == Ways::kInAndOut) {
    ref_.memory.out = data + at.out;
    ref_.memory.out_to = reinterpret_cast<uint64_t*>(data + at.out_to);
  }
  ref_.state = state_.data();
  ref_.rows = static_cast<uint32_t>(rows);
  const int64_t piece =
      std::max(settings.piece_bytes / row_bytes, (rows + kMostPieces - 1) / kMostPieces);
  ref_.piece_rows =
      static_cast<uint32_t>(rounded_up(std::max<int64_t>(1, piece), kRowsWrittenAtOnce));
  ref_.least_rows = static_cast<uint32_t>(std::max<int64_t>(1, settings.min_rows));
  ref_.direct = static_cast<uint32_t>(std::clamp<int64_t>(settings.direct_rows, 0, 15));
  transfer_->add(ref_.memory);
}

StagingBuffer::~StagingBuffer() {
  cudaDeviceSynchronize();
  transfer_->remove(ref_.memory);
}

}  // namespace emblem::cuda
