// embedding/files/delta_files.h - the rows that changed since the last delta, as folders that a
// server reads while training continues:
//
//   ROOT/delta-000000000017/manifest.json        sequence, time, tables with dim, rows, checksums
//   ROOT/delta-000000000017/TABLE/key            int64 x rows         } the layout of a
//   ROOT/delta-000000000017/TABLE/emb_vector     float32 x rows x dim } checkpoint's table
//
// A folder is written under another name, synced and renamed, and renamed again before it is
// removed, so that readers see complete ones only. Deltas are applied in the order of their
// sequence numbers, which begin at 1.
//
// The manifest has a checksum of itself and one of each file (core/math/checksum.h). Deltas without
// any, as older programs and other tools write them, are read all the same; one that has some has
// all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace emblem {

struct DeltaTable {
  struct Checksums {
    uint64_t keys = 0, rows = 0;
  };
  std::string name;
  int64_t dim = 0;
  int64_t rows = 0;
  // Checksums of the files; none: the delta was written without.
  std::optional<Checksums> checksums{};
};

// In training on a stream: what a delta contains, and when that was learned.
struct DeltaOrigin {
  std::vector<int64_t> stream_offsets;  // by partition: of the first message that is not in it
  int64_t step_begin_unix_ms = 0;       // begin of the last step before the delta
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

// Throws kCorruption when it is not a manifest, is damaged, or is not that of the folder's sequence
// number.
DeltaManifest read_delta_manifest(const DeltaFolder& delta);
// Reads the files of a table. Throws kCorruption when they do not have their checksums.
void check_delta_table(const DeltaFolder& delta, const DeltaTable& table);

// Writes one delta. Without finish, everything is removed.
class DeltaWriter {
 public:
  DeltaWriter(std::string root, int64_t sequence);
  ~DeltaWriter();
  DeltaWriter(const DeltaWriter&) = delete;

  // Rows of a table; may be called again for more of them. rows is [keys, dim]. Rows with NaN or
  // infinite values are not written; returns their number.
  int64_t add(const std::string& table, int64_t dim, std::span<const int64_t> keys,
              std::span<const float> rows);
  // Makes the delta visible; returns its path.
  std::string finish(const DeltaOrigin& origin = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
