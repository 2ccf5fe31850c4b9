#include "retrieval/clusters.h"

#include <algorithm>
#include <numeric>

#include "core/math/random.h"

namespace emblem {
namespace {

constexpr int64_t kRowsAssignedAtOnce = 16384;

std::shared_ptr<const ItemSegment> segment_of(const Context& context, const ItemRows& rows,
                                              const cpu::TileKernel* kernel) {
  ItemTable table{.rows = rows};
  table.ids.resize(static_cast<size_t>(rows.count()));
  std::iota(table.ids.begin(), table.ids.end(), 0);
  table.attributes.resize(table.ids.size());
  return std::make_shared<const ItemSegment>(context, std::move(table),
                                             std::vector<int64_t>{rows.count()}, kernel);
}

// Vectors whose inner products are largest where clusters are nearest. By the squared distance
// these have one more element: of (x, 1) with (c, -c c / 2) the product is that of the least
// |x - c|.
class Nearest {
 public:
  Nearest(const Context& context, const std::vector<float>& centroids, int64_t dim,
          Similarity similarity, const cpu::TileKernel* kernel)
      : context_(context), dim_(dim), width_(similarity == Similarity::kCosine ? dim : dim + 1) {
    ItemRows rows(DType::kF32, width_);
    std::vector<float> row(static_cast<size_t>(width_));
    for (size_t at = 0; at < centroids.size(); at += static_cast<size_t>(dim)) {
      const std::span<const float> centroid(centroids.data() + at, static_cast<size_t>(dim));
      std::copy(centroid.begin(), centroid.end(), row.begin());
      if (width_ > dim) {
        const double length = length_of(centroid);
        row.back() = static_cast<float>(-0.5 * length * length);
      }
      rows.append(row);
    }
    centroids_ = segment_of(context, rows, kernel);
  }

  // Nearest lists of `count` rows; row(i, to) reads one.
  template <class Row>
  std::vector<int32_t> of_rows(int64_t count, Row&& row) const {
    std::vector<int32_t> lists;
    lists.reserve(static_cast<size_t>(count));
    std::vector<float> rows(static_cast<size_t>(std::min(kRowsAssignedAtOnce, count) * width_),
                            1.0f);
    const SearchedSegment in{centroids_.get()};
    for (int64_t first = 0; first < count; first += kRowsAssignedAtOnce) {
      const int64_t some = std::min(kRowsAssignedAtOnce, count - first);
      for (int64_t i = 0; i < some; ++i) row(first + i, rows.data() + i * width_);
      for (const auto& best : search_items(context_, {&in, 1}, {rows.data(), some, width_}, 1, {}))
        lists.push_back(static_cast<int32_t>(best[0].id));
    }
    return lists;
  }

 private:
  const Context& context_;
  int64_t dim_, width_;
  std::shared_ptr<const ItemSegment> centroids_;
};

// Means of the points of each cluster. An empty one gets half of the largest.
class Means {
 public:
  Means(int64_t lists, int64_t dim)
      : dim_(dim), sums_(static_cast<size_t>(lists * dim)), counts_(static_cast<size_t>(lists)) {}

  void add(int32_t list, const float* point) {
    double* const sum = sums_.data() + list * dim_;
    for (int64_t k = 0; k < dim_; ++k) sum[k] += point[k];
    ++counts_[list];
  }

  std::vector<float> take(Similarity similarity) {
    std::vector<float> means(sums_.size());
    for (size_t list = 0; list < counts_.size(); ++list)
      for (int64_t k = 0; k < dim_ && counts_[list] > 0; ++k)
        means[list * dim_ + k] =
            static_cast<float>(sums_[list * dim_ + k] / static_cast<double>(counts_[list]));
    for (size_t list = 0; list < counts_.size(); ++list)
      if (counts_[list] == 0) split_largest(list, means);
    for (size_t at = 0; similarity == Similarity::kCosine && at < means.size();
         at += static_cast<size_t>(dim_)) {
      const std::span mean(means.data() + at, static_cast<size_t>(dim_));
      if (length_of(mean) > 0.0) normalize(mean);
    }
    return means;
  }

 private:
  void split_largest(size_t to, std::vector<float>& means) {
    const auto largest = static_cast<size_t>(std::ranges::max_element(counts_) - counts_.begin());
    for (int64_t k = 0; k < dim_; ++k) {
      float& mean = means[largest * dim_ + k];
      const float by = k % 2 == 0 ? 1.0f / 1024 : -1.0f / 1024;
      means[to * dim_ + k] = mean * (1.0f + by);
      mean *= 1.0f - by;
    }
    counts_[to] = counts_[largest] / 2;
    counts_[largest] -= counts_[to];
  }

  int64_t dim_;
  std::vector<double> sums_;
  std::vector<int64_t> counts_;
};

// `count` of the rows, one of each part of them.
std::vector<float> draw_rows(const ItemRows& rows, int64_t count, uint64_t seed) {
  std::vector<float> drawn(static_cast<size_t>(count * rows.dim()));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * rows.count() / count, end = (i + 1) * rows.count() / count;
    const auto at = random_bits(seed, 0, static_cast<uint64_t>(i)) % (end - begin);
    rows.read(begin + static_cast<int64_t>(at), drawn.data() + i * rows.dim());
  }
  return drawn;
}

}  // namespace

std::shared_ptr<const ItemSegment> train_clusters(const Context& context, const ItemRows& rows,
                                                  const ClusterOptions& options,
                                                  const cpu::TileKernel* kernel) {
  const int64_t dim = rows.dim(), lists = options.lists,
                points = std::min(rows.count(), options.points_per_list * lists);
  const std::vector<float> drawn = draw_rows(rows, points, options.seed);
  const auto point = [&](int64_t i) { return drawn.data() + i * dim; };
  std::vector<float> centroids(static_cast<size_t>(lists * dim));
  for (int64_t list = 0; list < lists; ++list)
    std::copy_n(point(list * points / lists), dim, centroids.data() + list * dim);
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    const Nearest nearest(context, centroids, dim, options.similarity, kernel);
    const std::vector<int32_t> of_points =
        nearest.of_rows(points, [&](int64_t i, float* to) { std::copy_n(point(i), dim, to); });
    Means means(lists, dim);
    for (int64_t i = 0; i < points; ++i) means.add(of_points[i], point(i));
    centroids = means.take(options.similarity);
  }
  ItemRows result(DType::kF32, dim);
  for (int64_t list = 0; list < lists; ++list)
    result.append(std::span(centroids).subspan(list * dim, dim));
  return segment_of(context, result, kernel);
}

std::vector<int32_t> assign_clusters(const Context& context, const ItemRows& rows,
                                     const ItemSegment& centroids, Similarity similarity) {
  std::vector<float> values(static_cast<size_t>(centroids.count() * rows.dim()));
  for (int64_t list = 0; list < centroids.count(); ++list)
    centroids.items().rows.read(list, values.data() + list * rows.dim());
  const Nearest nearest(context, values, rows.dim(), similarity, &centroids.kernel());
  return nearest.of_rows(rows.count(), [&](int64_t i, float* to) { rows.read(i, to); });
}

}  // namespace emblem
