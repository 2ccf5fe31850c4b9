#include "train/run/rank_agreement.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "comm/bytes.h"
#include "config/feature/items.h"
#include "config/load/assets.h"
#include "config/load/evaluation_input.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "core/files/output_file.h"
#include "core/math/checksum.h"
#include "core/math/hash.h"
#include "core/text/text.h"
#include "data/items/id_file.h"
#include "data/source/remote_storage.h"
#include "data/source/uri.h"
#include "data/source/whole_text.h"
#include "emblem/error.h"
#include "kafka/address.h"
#include "train/state/input_files.h"

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

struct InputFacts {
  uint64_t bytes = 0;
  std::string content;  // distinguishes it from other content of this size
};

InputFacts facts_of_input(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  const uint64_t bytes = fs::file_size(path, error);
  if (error) return {};
  return {bytes, checksum_digits(checksum_of_ends(path, bytes))};
}

// By path. What the store says of objects: listings of S3 have no ETags.
std::map<std::string, InputFacts> facts_of_objects(const std::string& input,
                                                   const Storage& storage) {
  std::map<std::string, InputFacts> facts;
  for (const std::string& item : split(input, ',')) {
    const std::string uri(trim(item));
    if (!is_object_uri(uri)) continue;
    for (const ObjectInfo& object : storage_for(storage, uri).expand(uri))
      facts[object.uri] = {static_cast<uint64_t>(object.bytes), object.etag + object.checksum};
  }
  return facts;
}

Listing list(const std::string& input, const Storage& storage) {
  Listing listing;
  if (input.empty()) return listing;
  const std::map<std::string, InputFacts> objects = facts_of_objects(input, storage);
  for (const std::string& path : expand_inputs(input, storage)) {
    const auto object = objects.find(path);
    const InputFacts facts = object == objects.end() ? facts_of_input(path) : object->second;
    ++listing.files;
    listing.bytes += facts.bytes;
    listing.hash = hash_string(cat(listing.hash, " ", path, " ", facts.bytes, " ", facts.content));
  }
  return listing;
}

std::string to_text(const Listing& listing) {
  return cat(listing.files, listing.files == 1 ? " file" : " files", " with ", listing.bytes,
             " bytes");
}

// Throws on all ranks what rank 0 has found; "": nothing.
void throw_everywhere(const World& world, std::string problem) {
  broadcast_bytes(*world.ranks, problem);
  if (!problem.empty()) throw CommonError(ErrorCode::kInvalidArgument, problem);
}

// Calls own() and gives rank 0 what it returned on each rank; other ranks get nothing. Where it
// throws on one rank, all throw. One rank has nothing to compare it with, and reads nothing.
template <class Own>
std::vector<std::string> gather_texts(const World& world, const Own& own) {
  if (world.size() == 1) return {""};
  std::string text, problem;
  try {
    text = own();
  } catch (const Error& error) {
    problem = error.what();
  }
  const std::vector<std::string> problems = gather_bytes(*world.ranks, problem);
  problem.clear();
  for (size_t rank = 0; rank < problems.size() && problem.empty(); ++rank)
    if (!problems[rank].empty()) problem = cat(name_of(world, rank), ": ", problems[rank]);
  throw_everywhere(world, problem);
  return gather_bytes(*world.ranks, text);
}

// The first rank whose text is not that of rank 0; 0: there is none.
size_t first_other(const std::vector<std::string>& texts) {
  for (size_t rank = 1; rank < texts.size(); ++rank)
    if (texts[rank] != texts[0]) return rank;
  return 0;
}

// The first line of `text` that `other` does not have at the same place.
std::string first_difference(const std::string& text, const std::string& other) {
  std::istringstream lines(text), others(other);
  std::string line, there;
  while (std::getline(lines, line))
    if (!std::getline(others, there) || there != line) return line;
  return std::getline(others, there) ? there : "";
}

// `names` returns a line for each file: its content as a hash, '_' and its name.
template <class Names>
void require_same_content(const World& world, const Names& names, const std::string& readers) {
  const std::vector<std::string> all = gather_texts(world, names);
  std::string problem;
  if (const size_t rank = first_other(all); rank > 0) {
    const std::string name = first_difference(all[rank], all[0]);
    problem = cat(name_of(world, rank), " has other content in ",
                  name.substr(std::min(name.size(), name.find('_') + 1)), " than ",
                  name_of(world, 0), ": files that ", readers,
                  " must be the same on all ranks; copy them, or keep them in a folder that all "
                  "share");
  }
  throw_everywhere(world, problem);
}

// A file for others to look for. Removed as an unfinished file (checkpoint/) if this process is
// killed.
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

void require_same_input(const World& world, const std::string& input, const Storage& storage) {
  if (world.size() == 1) return;
  const std::vector<Listing> all = gather(world, list(input, storage));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const bool is_size = all[rank].files != all[0].files || all[rank].bytes != all[0].bytes;
    throw CommonError(
        ErrorCode::kInvalidArgument,
        cat(name_of(world, rank), " has ", to_text(all[rank]), " in ", input, ", ",
            name_of(world, 0), " has ", to_text(all[0]),
            is_size ? "" : " of other names, sizes or content", "; give all ranks the same data"));
  }
}

void require_same_data(const World& world, const config::PipelineConfig& config,
                       const Storage& storage) {
  if (!is_kafka_address(config.train_input_path()))
    require_same_input(world, config.train_input_path(), storage);
  require_same_input(world, evaluation_input(config), storage);
}

void require_files_of_run(const World& world, const std::optional<InputFiles>& then,
                          const std::optional<InputFiles>& now, const std::string& input) {
  std::string problem;
  if (world.writes() && then && now && are_other_files(*then, *now)) {
    const bool is_alike = then->files == now->files && then->bytes == now->bytes;
    problem = cat(input, " has ", to_text(*now), ", but the run that stopped within an epoch read ",
                  to_text(*then), is_alike ? " of other names, sizes or content" : "",
                  ", and would continue with other data: give it those files, or begin with what "
                  "it has learned by --init-from");
  }
  throw_everywhere(world, problem);
}

void require_same_files(const World& world, const config::PipelineConfig& config) {
  const auto names = [&] {
    config::PipelineConfig copy = config;
    std::string text;  // which follows from the content
    for (const Asset& asset : take_assets(&copy)) text += asset.name + "\n";
    return text;
  };
  require_same_content(world, names, "features read (vocab_file, stop_char_file)");
}

void require_same_samples(const World& world, const config::PipelineConfig& config,
                          const Storage& storage) {
  const std::vector<std::string> paths = item_files(config);
  if (paths.empty()) return;
  const auto names = [&] {
    const Storage with = storage_of_files(config.data_config(), paths, storage);
    std::string text;
    for (const std::string& path : paths)
      text += cat(checksum_digits(checksum_of(read_whole_text(path, with))), "_",
                  fs::path(path).filename().string(), "\n");
    return text;
  };
  require_same_content(world, names, "samplers of items or logq_correction read");
}

void require_same_start(const World& world, const std::string& checkpoint) {
  const std::string share =
      "; the checkpoint to begin with must be in a folder that all ranks share";
  const std::vector<std::string> names =
      gather_bytes(*world.ranks, fs::path(checkpoint).filename().string());
  const auto found = [&](size_t rank) {
    return cat(name_of(world, rank), " finds ",
               names[rank].empty() ? "no checkpoint" : names[rank]);
  };
  std::string problem;
  if (const size_t rank = first_other(names); rank > 0)
    problem = cat(found(rank), " to begin with, but ", found(0), share);
  throw_everywhere(world, problem);
  if (checkpoint.empty()) return;
  const std::vector<std::string> manifests =
      gather_texts(world, [&] { return manifest_text(read_manifest(checkpoint)); });
  if (const size_t rank = first_other(manifests); rank > 0)
    problem = cat(name_of(world, rank), " has other content in ", checkpoint, " than ",
                  name_of(world, 0), share);
  throw_everywhere(world, problem);
}

void require_same_model(const World& world, const std::string& checkpoint,
                        const config::PipelineConfig& config) {
  if (world.size() == 1) return;
  require_same_files(world, config);
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
  if (world.size() == 1) return;
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
