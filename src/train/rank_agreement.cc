#include "train/rank_agreement.h"

#include <chrono>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "comm/bytes.h"
#include "config/evaluation_input.h"
#include "config/print.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/output_file.h"
#include "data/source/remote_storage.h"
#include "data/source/uri.h"
#include "emblem/error.h"
#include "kafka/address.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Network file systems show a new file to other hosts after a while.
constexpr auto kVisibleWithin = std::chrono::seconds(5);

std::string name_of(const World& world, size_t rank) {
  return name_of_rank(static_cast<int>(rank), world.ranks->hosts()[rank].name);
}

// What every rank has, by rank.
template <class T>
std::vector<T> gather(const World& world, T own) {
  std::vector<T> all(static_cast<size_t>(world.size()));
  world.ranks->gather_all(Context{}, {&own, sizeof(T)}, {all.data(), all.size() * sizeof(T)});
  return all;
}

struct Listing {
  uint64_t files = 0, bytes = 0, hash = 0;
  bool operator==(const Listing&) const = default;
};

Listing list(const std::string& input) {
  Listing listing;
  if (input.empty()) return listing;
  for (const std::string& path : expand_inputs(input)) {
    std::error_code error;
    const uint64_t bytes = is_object_uri(path) ? 0 : fs::file_size(path, error);
    ++listing.files;
    if (!error) listing.bytes += bytes;
    listing.hash = hash_string(cat(listing.hash, " ", path, " ", error ? 0 : bytes));
  }
  return listing;
}

std::string to_text(const Listing& listing) {
  return cat(listing.files, listing.files == 1 ? " file" : " files", " with ", listing.bytes,
             " bytes");
}

// For others to look for. Removed as an unfinished file (checkpoint/) if this process is killed.
class Mark {
 public:
  explicit Mark(const std::string& folder)
      : path_(unfinished_path(cat(folder, "/ranks-", std::random_device()()))) {
    FileWriter(path_).finish();
  }
  ~Mark() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

bool becomes_visible(const std::string& path) {
  const auto deadline = Clock::now() + kVisibleWithin;
  std::error_code error;
  while (!fs::exists(path, error)) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

}  // namespace

void require_same_input(const World& world, const std::string& input) {
  const std::vector<Listing> all = gather(world, list(input));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const bool is_size = all[rank].files != all[0].files || all[rank].bytes != all[0].bytes;
    throw CommonError(
        ErrorCode::kInvalidArgument,
        cat(name_of(world, rank), " has ", to_text(all[rank]), " in ", input, ", ",
            name_of(world, 0), " has ", to_text(all[0]), is_size ? "" : " of other names or sizes",
            "; give all ranks the same data"));
  }
}

void require_same_data(const World& world, const config::PipelineConfig& config) {
  if (!is_kafka_address(config.train_input_path()))
    require_same_input(world, config.train_input_path());
  require_same_input(world, evaluation_input(config));
}

void require_same_model(const World& world, const std::string& checkpoint,
                        const config::PipelineConfig& config) {
  const auto require_same = [&](const std::string& text, const std::string& what) {
    const std::vector<uint64_t> all = gather(world, hash_string(text));
    for (size_t rank = 1; rank < all.size(); ++rank)
      if (all[rank] != all[0])
        throw CommonError(ErrorCode::kInvalidArgument,
                          cat(name_of(world, rank), " has another ", what, " than ",
                              name_of(world, 0), "; give all ranks the same"));
  };
  require_same(manifest_text(read_manifest(checkpoint)), checkpoint);
  require_same(to_stored_text(config), "configuration");
}

void require_shared_folder(const World& world, const std::string& folder) {
  std::optional<Mark> mark;
  std::string path;
  if (world.rank() == 0) path = mark.emplace(folder).path();
  broadcast_bytes(*world.ranks, path);
  const std::vector<uint8_t> sees = gather<uint8_t>(world, mark || becomes_visible(path));
  for (size_t rank = 1; rank < sees.size(); ++rank)
    if (sees[rank] == 0)
      throw CommonError(ErrorCode::kInvalidArgument,
                        cat(name_of(world, rank), " does not see what ", name_of(world, 0),
                            " writes into ", folder,
                            "; model_dir must be a folder that all ranks share, as on a "
                            "network file system"));
}

}  // namespace emblem
