#include "comm/nccl/rank_gpu.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "comm/tcp/launcher.h"
#include "core/text/text.h"

namespace emblem {
namespace {

constexpr char kVariable[] = "CUDA_VISIBLE_DEVICES";

// The files of the GPUs that this process may use: containers show no others. CUDA cannot be asked,
// since it reads the variable only once.
int gpus_of_machine() {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename().string();
    const std::string number = name.starts_with("nvidia") ? name.substr(6) : "";
    if (!number.empty() && std::all_of(number.begin(), number.end(),
                                       [](unsigned char c) { return std::isdigit(c) != 0; }))
      ++count;
  }
  return count;
}

}  // namespace

std::optional<std::string> gpu_of_rank(int local_rank, const std::optional<std::string>& visible,
                                       int gpus) {
  std::vector<std::string> choices;
  if (visible) {
    choices = split(*visible, ',');
  } else {
    for (int i = 0; i < gpus; ++i) choices.push_back(std::to_string(i));
  }
  if (choices.size() <= 1) return std::nullopt;
  return choices[static_cast<size_t>(local_rank) % choices.size()];
}

void choose_gpu(const Communicator& ranks, const SetVariable& set_variable) {
  if (!set_variable || ranks.transport() == std::string("threads")) return;
  const std::vector<RankHost>& hosts = ranks.hosts();
  const RankHost& own = hosts[static_cast<size_t>(ranks.rank())];
  const auto on_host = std::count_if(hosts.begin(), hosts.end(),
                                     [&](const RankHost& one) { return one.name == own.name; });
  if (on_host == 1) return;
  const auto chosen =
      gpu_of_rank(own.local_rank, process_environment(kVariable), gpus_of_machine());
  if (chosen) set_variable(kVariable, *chosen);
}

std::vector<GpuId> gather_gpus(Communicator& ranks, GpuId mine) {
  std::vector<GpuId> all(static_cast<size_t>(ranks.size()));
  ranks.gather_all(Context{}, {mine.data(), sizeof(mine)},
                   {all.data(), all.size() * sizeof(GpuId)});
  return all;
}

bool shares_gpu(std::span<const GpuId> gpus, size_t rank) {
  return std::count(gpus.begin(), gpus.end(), gpus[rank]) > 1;
}

size_t ranks_that_share(std::span<const GpuId> gpus) {
  size_t count = 0;
  for (size_t rank = 0; rank < gpus.size(); ++rank) count += shares_gpu(gpus, rank) ? 1 : 0;
  return count;
}

}  // namespace emblem
