// store/memory_store.h - tables in the memory of this process: concurrent hash maps in partitions.
//
// Reads never wait, whatever writers do: rows are published whole and reused only when no reader
// can see them. Writers of the same partition wait for one another.
#pragma once

#include <map>
#include <mutex>

#include "core/math/hash.h"
#include "store/kv_store.h"
#include "store/memory_partition.h"

namespace emblem {

struct MemorySettings {
  int64_t partitions = 0;        // 0: as many as CPUs, at most 16
  Overflow overflow;             // overflow of each partition
  DType row_type = DType::kF32;  // that rows are rounded to
};

class MemoryTable : public KvTable {
 public:
  MemoryTable(std::string name, int64_t dim, const MemorySettings& settings,
              std::shared_ptr<ReadGate> gate);

  int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                std::span<uint8_t> found) const override;
  void insert(std::span<const int64_t> keys, std::span<const float> rows) override;
  void erase(std::span<const int64_t> keys) override;
  void clear() override;
  int64_t size() const override;
  size_t partitions() const override { return parts_.size(); }
  size_t partition_of(int64_t key) const override { return part_number(hash(key)); }
  uint64_t evicted() const override;
  void iterate(int64_t batch_rows, const Take& take) const override;

  // ---- rows in place ----
  const RowFormat& format() const { return format_; }
  // What find returns, a row in this format, stays valid and unchanged while the reader is inside
  // the gate, which all tables of a store share. A thread inside must not change tables.
  const ReadGate& gate() const { return *gate_; }
  static uint64_t hash(int64_t key) { return mix64(static_cast<uint64_t>(key)); }
  void prefetch(uint64_t hash) const { part(hash).prefetch(hash); }
  const std::byte* find(uint64_t hash, int64_t key) const { return part(hash).find(hash, key); }

 private:
  const MemoryPartition& part(uint64_t hash) const { return *parts_[part_number(hash)]; }
  // The high half chooses the partition, the low bits the slot in it.
  size_t part_number(uint64_t hash) const { return ((hash >> 32) * parts_.size()) >> 32; }
  std::vector<std::vector<uint32_t>> by_part(std::span<const int64_t> keys) const;

  RowFormat format_;
  std::shared_ptr<ReadGate> gate_;
  std::vector<std::unique_ptr<MemoryPartition>> parts_;
};

class MemoryStore : public KvStore {
 public:
  explicit MemoryStore(MemorySettings settings = {});

  std::shared_ptr<KvTable> open(const std::string& name, int64_t dim) override;
  void drop(const std::string& name) override;
  bool persistent() const override { return false; }
  std::optional<std::string> note(const std::string& name) const override;
  void set_note(const std::string& name, std::string_view text) override;
  std::string describe() const override { return "memory"; }

 private:
  MemorySettings settings_;
  std::shared_ptr<ReadGate> gate_ = std::make_shared<ReadGate>();
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<MemoryTable>> tables_;
  std::map<std::string, std::string> notes_;
};

}  // namespace emblem
