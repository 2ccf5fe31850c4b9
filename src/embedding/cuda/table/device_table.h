// embedding/cuda/table/device_table.h - a table on the GPU.
#pragma once

#include <memory>

#include "core/device/stream.h"
#include "core/memory/buffer.h"
#include "embedding/cuda/table/growable_memory.h"
#include "embedding/cuda/table/key_space_memory.h"
#include "embedding/row_share.h"
#include "embedding/table.h"
#include "embedding/transfer/host_rows.h"

namespace emblem::cuda {

class PinnedMemory;
struct DeviceTableRef;
struct ImportedKeys;
struct RowFilter;
struct TableErrors;

// A row and its key, listed for an export.
struct ListedRow {
  int64_t key;
  int64_t score;  // 0 in static tables
  uint32_t row;
};

// The semantics of a HostTable. Row numbers, and with them the addresses of rows, differ from run
// to run; the content does not, except for the last bits of sums
// (embedding/cuda/update/update_rows.h).
//
// A table with a capacity allocates all its memory at once. Without one it grows between passes,
// when the next might need more rows than it has; a captured pass cannot grow it, so reserve() the
// rows that it needs before.
class DeviceTable : public Table {
 public:
  DeviceTable(const Context& context, TableSettings settings);
  ~DeviceTable() override;

  int64_t size() const override;
  int64_t bytes() const override;
  bool read(int64_t key, std::span<float> weights, std::span<float> state = {}) const override;
  std::optional<int64_t> score(int64_t key) const override;
  void lookup_rows(const Context& context, std::span<const int64_t> keys, Phase phase,
                   View<float> out) override;
  int64_t erase(std::span<const int64_t> keys) override;
  void clear() override;
  void import_rows(const Context& context, const RowBatch& batch) override;
  void set_next_score(int64_t score) override;
  void set_score(std::span<const int64_t> keys, int64_t score) override;
  void export_rows(const Context& context, int64_t batch_rows,
                   const std::function<void(const RowBatch&)>& take,
                   std::optional<int64_t> since = {}) const override;
  int64_t version() const override;
  CacheUse cache_use() const override;
  std::vector<KeyCount> export_admission() const override;
  void import_admission(std::span<const KeyCount> counts) override;
  int64_t clock() const override;
  void set_clock(int64_t clock) override;
  int64_t next_score() const override;

  // Makes room for that many rows, unless bins limit them. Synchronizes when the table grows.
  void reserve(int64_t rows);
  // Before a training pass of `lookups` keys: grows if they might not fit. Does nothing while the
  // pass is being captured; a replay that runs out of rows reports it as an error.
  void make_ready(const Context& context, int64_t lookups);
  // Throws errors of the passes that have run; does not wait for the others.
  void check_errors() const;
  // A prefetch is moving rows on another stream until `done`; null: none is. Work that reads or
  // moves rows must wait for it.
  void set_prefetch_done(const Event* done) { prefetch_done_ = done; }
  void wait_for_prefetch(const Context& context) const {
    if (prefetch_done_ != nullptr) prefetch_done_->make_wait(context.stream);
  }
  // The ref in device memory; updated when the table grows.
  const DeviceTableRef* ref() const { return reinterpret_cast<const DeviceTableRef*>(ref_.data()); }
  bool can_grow() const { return !is_static() && (settings_.capacity == 0 || waiting_); }
  int64_t ref_version() const { return ref_version_; }  // changes when its content does
  int64_t row_bytes() const { return stride_; }
  int64_t weight_bytes() const { return state_offset_; }  // weights of a row, in units of 16
  TableErrors* errors() const { return reinterpret_cast<TableErrors*>(errors_); }
  bool waits_in_pages() const { return waiting_ && waiting_->in_pages(); }
  bool has_cache() const { return settings_.placement != Placement::kDevice; }
  int64_t rows_end() const { return is_static() ? static_rows() : keys_->rows(); }

 private:
  int64_t static_rows() const { return local_rows(settings_.capacity, settings_.held); }
  // Where a static table has the row of a key that it holds.
  int64_t static_row(int64_t key) const {
    return settings_.held.is_everything() ? key : local_row(key, settings_.held);
  }
  // Before a host function works on rows: waits for prefetches and write-backs.
  void wait_for_transfers() const;
  DeviceTableRef make_ref() const;
  void publish_ref();
  void initialize_static();
  void make_cache(int64_t rows);
  void ensure_waiting(int64_t keys);
  void clear_waiting();
  // For `space`, or for a static table when it is null:
  int64_t rows_used(const KeySpaceMemory* space) const;  // row numbers are below
  // Appends rows [begin, end) that are wanted, and sorts all by key.
  void list_rows(const KeySpaceMemory* space, int64_t begin, int64_t end, const RowFilter& wanted,
                 std::vector<ListedRow>& into) const;
  std::vector<int64_t> range_ends(const KeySpaceMemory* space, int64_t rows, int64_t since) const;
  // Calls visit with ranges of keys, all ascending, of rows that changed after `since`, or of all
  // rows when it is negative. A range has a few percent of the keys, or a million.
  void for_each_range(const KeySpaceMemory* space, int64_t since,
                      const std::function<void(std::span<const ListedRow>)>& visit) const;
  // The rows of different keys, made where there are none, up to `limit` (0: none). With bins, keys
  // that are not among the highest have kNoRow.
  Buffer<uint32_t> rows_of(KeySpaceMemory& space, const Buffer<int64_t>& keys,
                           const int64_t* scores, uint32_t count, int64_t limit);
  void make_room_to_import(KeySpaceMemory& space, const ImportedKeys& keys, int64_t limit);
  Buffer<uint32_t> find_row(int64_t key) const;  // on the device
  void write_rows(const RowBatch& batch);        // keys are different

  Context context_;
  std::unique_ptr<KeySpaceMemory> keys_, waiting_;  // keys of dynamic tables
  std::unique_ptr<GrowableMemory> rows_;            // or the slots of the cache
  std::unique_ptr<HostRows> host_rows_;             // with a cache
  Buffer<unsigned long long> marks_;                // marks of static tables
  Buffer<char> clocks_;
  Buffer<char> ref_;
  std::unique_ptr<PinnedMemory> errors_memory_;
  char* errors_ = nullptr;  // TableErrors that kernels reach in host memory
  const Event* prefetch_done_ = nullptr;
  // Upper bounds of rows and of those of waiting keys; unknown once a pass is captured, which may
  // be replayed at any time.
  int64_t size_bound_ = 0, waiting_bound_ = 0;
  bool captured_ = false;
  int64_t ref_version_ = 0;
  int64_t stride_ = 0, state_offset_ = 0;
};

std::unique_ptr<Table> make_table(const Context& context, TableSettings settings);

}  // namespace emblem::cuda
