// embedding/files/delta_files.h - the rows that changed since the last delta, as folders that a
// server reads while training continues:
//
//   ROOT/delta-000000000017/manifest.json        sequence, time, tables with dim and rows
//   ROOT/delta-000000000017/TABLE/key            int64 x rows         } the layout of a
//   ROOT/delta-000000000017/TABLE/emb_vector     float32 x rows x dim } checkpoint's table
//
// A folder is written under another name, synced and renamed, and renamed again before it is
// removed, so that readers see complete ones only. Deltas are applied in the order of their
// sequence numbers, which begin at 1.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace emblem {

struct DeltaTable {
  std::string name;
  int64_t dim = 0;
  int64_t rows = 0;
};

// Of training on a stream: what a delta contains, and when that was learned.
struct DeltaOrigin {
  std::vector<int64_t> stream_offsets;  // by partition: of the first message that is not in it
  int64_t step_begin_unix_ms = 0;       // of the last step before the delta
  int64_t step_end_unix_ms = 0;
};

struct DeltaManifest {
  int64_t sequence = 0;
  int64_t created_unix_ms = 0;
  std::vector<DeltaTable> tables;
  DeltaOrigin origin;  // empty of training on files
};

struct DeltaFolder {
  int64_t sequence = 0;
  std::string path;
};

// The deltas in a folder, in order; empty when there is no such folder. Throws kUnavailable when it
// cannot be read.
std::vector<DeltaFolder> list_deltas(const std::string& root);

// Removes what writers that were killed left. No other process may be writing.
void remove_unfinished_deltas(const std::string& root);

// Removes the deltas up to number `last`. Each disappears in one step.
void remove_deltas(const std::string& root, int64_t last);

// Throws kCorruption when it is not a manifest, or not that of the folder's sequence number.
DeltaManifest read_delta_manifest(const DeltaFolder& delta);

// Writes one delta. Without finish, everything is removed.
class DeltaWriter {
 public:
  DeltaWriter(std::string root, int64_t sequence);
  ~DeltaWriter();
  DeltaWriter(const DeltaWriter&) = delete;

  // Rows of a table; may be called again for more of them. rows is [keys, dim].
  void add(const std::string& table, int64_t dim, std::span<const int64_t> keys,
           std::span<const float> rows);
  // Makes the delta visible; returns its path.
  std::string finish(const DeltaOrigin& origin = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
