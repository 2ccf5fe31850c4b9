// ps/updates/updates_test.h - what tests of updates share.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/threads/becomes_true_test.h"
#include "embedding/files/delta_files.h"
#include "ps/parameter_server.h"
#include "ps/tables/served_test.h"

namespace emblem {

// The interval of watchers that tests ask to look.
inline constexpr std::chrono::milliseconds kNever{3600 * 1000};

inline void write_delta(const std::string& root, int64_t sequence, const std::vector<int64_t>& keys,
                        float value, const std::string& table = "a", int64_t dim = 2) {
  DeltaWriter writer(root, sequence);
  writer.add(table, dim, keys, std::vector<float>(keys.size() * dim, value));
  writer.finish();
}

// A model m with the table a, whose keys are 0 to 99.
class UpdatesTest : public testing::Test {
 protected:
  std::vector<TableSource> tables() {
    return {{.name = "a", .folder = write_ramp(folder_, "a", 0, 100, 2), .dim = 2}};
  }
  PsConfig on_disk(const std::string& name = "rocks") const {
    PsConfig config;
    config.persistent_db = {
        .type = PsPersistent::Type::kRocksDb, .path = folder_.path(name), .num_threads = 2};
    return config;
  }
  std::string deltas() const { return folder_.path("deltas"); }
  void write(int64_t sequence, const std::vector<int64_t>& keys, float value) const {
    write_delta(deltas(), sequence, keys, value);
  }

  TempFolder folder_;
};

}  // namespace emblem
