#include "retrieval/cluster_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/math/part.h"
#include "emblem/error.h"
#include "retrieval/clusters.h"

namespace emblem {
namespace {

constexpr int64_t kPointsPerCluster = 1024;  // that k-means is trained with

class BalancedSplit {
 public:
  BalancedSplit(const Context& context, const ItemRows& rows, int64_t clusters, uint64_t seed)
      : context_(context), rows_(rows), clusters_(clusters), seed_(seed) {}

  // Sorts positions of more than `clusters` rows: those of each part, one part after the other.
  void sort(std::span<int64_t> part) {
    find_distances(part);
    const auto count = std::ssize(part);
    std::vector<std::pair<double, int64_t>> left;  // by what a centroid is nearer than others
    for (int64_t i = 0; i < count; ++i) left.emplace_back(0.0, i);
    std::vector<int64_t> sorted;
    for (int64_t cluster = 0; cluster + 1 < clusters_; ++cluster) {
      for (auto& [by, row] : left) by = distance(row, cluster) - nearest_after(row, cluster);
      std::ranges::sort(left);
      const int64_t size =
          part_begin(0, count, cluster + 1, clusters_) - part_begin(0, count, cluster, clusters_);
      for (int64_t i = 0; i < size; ++i) sorted.push_back(part[left[i].second]);
      left.erase(left.begin(), left.begin() + size);
    }
    std::ranges::sort(left, {}, &std::pair<double, int64_t>::second);
    for (const auto& [by, row] : left) sorted.push_back(part[row]);
    std::ranges::copy(sorted, part.begin());
  }

 private:
  double distance(int64_t row, int64_t cluster) const {
    return distances_[row * clusters_ + cluster];
  }
  double nearest_after(int64_t row, int64_t cluster) const {
    double least = std::numeric_limits<double>::infinity();
    for (int64_t other = cluster + 1; other < clusters_; ++other)
      least = std::min(least, distance(row, other));
    return least;
  }

  void find_distances(std::span<const int64_t> part) {
    const int64_t dim = rows_.dim();
    ItemRows own(rows_.type(), dim);
    for (const int64_t row : part) own.append(rows_, row);
    const auto centroids = train_clusters(
        context_, own, {.lists = clusters_, .seed = seed_, .points_per_list = kPointsPerCluster});
    std::vector<float> values(static_cast<size_t>(clusters_ * dim)), row(static_cast<size_t>(dim));
    for (int64_t cluster = 0; cluster < clusters_; ++cluster)
      centroids->items().rows.read(cluster, values.data() + cluster * dim);
    distances_.assign(part.size() * static_cast<size_t>(clusters_), 0.0);
    for (int64_t i = 0; i < std::ssize(part); ++i) {
      own.read(i, row.data());
      for (int64_t cluster = 0; cluster < clusters_; ++cluster) {
        double& sum = distances_[i * clusters_ + cluster];
        for (int64_t k = 0; k < dim; ++k) {
          const double by = row[k] - values[cluster * dim + k];
          sum += by * by;
        }
      }
    }
  }

  const Context& context_;
  const ItemRows& rows_;
  int64_t clusters_;
  uint64_t seed_;
  std::vector<double> distances_;  // [rows, clusters]
};

}  // namespace

std::vector<int64_t> cluster_order(const Context& context, const ItemRows& rows, int64_t clusters,
                                   uint64_t seed,
                                   const std::function<void(int64_t placed)>& placed) {
  EMBLEM_REQUIRE(clusters >= 2, "rows are cut into ", clusters, " clusters, expected at least 2");
  std::vector<int64_t> order(static_cast<size_t>(rows.count()));
  std::iota(order.begin(), order.end(), int64_t{0});
  BalancedSplit split(context, rows, clusters, seed);
  std::vector<std::pair<int64_t, int64_t>> open = {{0, rows.count()}};
  int64_t done = 0;
  while (!open.empty()) {
    const auto [begin, end] = open.back();
    open.pop_back();
    if (end - begin <= clusters) {
      done += end - begin;
      if (placed) placed(done);
      continue;
    }
    split.sort(std::span(order).subspan(begin, end - begin));
    for (int64_t part = clusters; part-- > 0;)
      open.emplace_back(part_begin(begin, end, part, clusters),
                        part_begin(begin, end, part + 1, clusters));
  }
  return order;
}

}  // namespace emblem
