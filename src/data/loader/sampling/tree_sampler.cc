#include "data/loader/sampling/tree_sampler.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "data/items/id_file.h"
#include "data/loader/place_number.h"
#include "data/loader/source.h"
#include "emblem/error.h"

namespace emblem {
namespace {

TreeSamplerSpec sampler_in(const config::DataConfig& data) { return *tree_sampler_of(data); }

// How often a level between root and items is kept, of `inner` of them; `at` counts from 0.
double weight_of(TreeSamplerSpec::Remain remain, int64_t at, int64_t inner) {
  switch (remain) {
    case TreeSamplerSpec::Remain::kArithmetic:
      return static_cast<double>(at + 1);
    case TreeSamplerSpec::Remain::kReciprocal:
      return 1.0 / static_cast<double>(inner - at);
    case TreeSamplerSpec::Remain::kUniform:
      break;
  }
  return 1.0;
}

}  // namespace

std::vector<int64_t> draw_distinct(Random& random, int64_t count, int64_t bound) {
  std::vector<int64_t> drawn;
  std::unordered_set<int64_t> seen;
  for (int64_t last = bound - count; last < bound; ++last) {
    const auto number = static_cast<int64_t>(random.below(static_cast<uint64_t>(last) + 1));
    drawn.push_back(seen.insert(number).second ? number : last);
    if (drawn.back() == last) seen.insert(last);
  }
  return drawn;
}

TreeSampler::TreeSampler(const config::DataConfig& data, const FeatureLayout& layout,
                         const LoaderOptions& options)
    : spec_(sampler_in(data)),
      seed_(
          random_bits(options.seed, 0x7472656573000000ull, static_cast<uint64_t>(options.stream))),
      rows_(data, layout, spec_,
            {.nodes = spec_.nodes_path,
             .edges = spec_.children_path.empty() ? spec_.ancestors_path : spec_.children_path,
             .storage = storage_of_files(
                 data, {spec_.nodes_path, spec_.ancestors_path, spec_.children_path},
                 options.storage),
             .kind = spec_.children_path.empty() ? TreeEdges::kAncestors : TreeEdges::kChildren,
             .field_delimiter = spec_.field_delimiter,
             .attr_delimiter = spec_.attr_delimiter}) {
  check_levels();
}

void TreeSampler::check_levels() const {
  const ItemTree& tree = rows_.tree();
  EMBLEM_REQUIRE(spec_.levels() == tree.levels(), kTreeSampler, ".layer_num_sample has ",
                 spec_.levels(), " numbers, but the tree in ", rows_.path(), " has ", tree.levels(),
                 " levels; give one for each, 0 for the root");
  for (int64_t level = 1; level < tree.levels(); ++level) {
    const int64_t others = tree.level(level).count() - 1;
    const int64_t samples = spec_.samples[static_cast<size_t>(level)];
    EMBLEM_REQUIRE(samples <= others, kTreeSampler, ".layer_num_sample is ", samples, " for level ",
                   level, ", which has ", others, " nodes besides a positive one in ", rows_.path(),
                   "; give at most ", others);
  }
}

// The levels that a batch has nodes of, in order; that of items is always one.
std::vector<int64_t> TreeSampler::draw_levels(Random& random) const {
  const int64_t inner = spec_.levels() - 2;
  const auto count =
      static_cast<int64_t>(std::nearbyint(spec_.remain_ratio * static_cast<double>(inner)));
  // Those with the least log(u) / weight: as if one were drawn after the other.
  std::vector<std::pair<double, int64_t>> order;
  for (int64_t at = 0; at < inner; ++at) {
    const double u = 1.0 - static_cast<double>(random.bits() >> 11) * 0x1p-53;  // in (0, 1]
    order.emplace_back(count < inner ? -std::log(u) / weight_of(spec_.remain, at, inner) : 0.0,
                       at + 1);
  }
  std::ranges::sort(order);
  std::vector<int64_t> levels = {spec_.levels() - 1};
  for (int64_t i = 0; i < count; ++i) levels.push_back(order[static_cast<size_t>(i)].second);
  std::ranges::sort(levels);
  return levels;
}

void TreeSampler::sample(const Batch& read, Batch& out) const {
  const ItemTree& tree = rows_.tree();
  Random random{.seed = seed_, .stream = place_number(read.next)};
  const std::vector<int64_t> levels = draw_levels(random);
  std::vector<NodeRows::Row> rows, positives, negatives;
  std::vector<int32_t> path(static_cast<size_t>(tree.levels()));  // from the root to an item
  for (uint32_t row = 0; row < static_cast<uint32_t>(read.rows); ++row) {
    rows.push_back({row});
    if (!read.bad.empty() && read.bad[row] != 0) continue;
    int32_t node = rows_.leaf_of(read, row);
    for (size_t level = path.size(); level-- > 0; node = tree.parent(node)) path[level] = node;
    for (const int64_t level : levels) {
      const int32_t own = path[static_cast<size_t>(level)];
      const ItemTree::Nodes nodes = tree.level(level);
      if (own < tree.leaves().begin) positives.push_back({row, own});
      const int64_t samples = spec_.samples[static_cast<size_t>(level)];
      for (const int64_t drawn : draw_distinct(random, samples, nodes.count() - 1)) {
        const int32_t other = nodes.begin + static_cast<int32_t>(drawn);
        negatives.push_back({row, other < own ? other : other + 1});
      }
    }
  }
  const size_t first = rows.size(), second = first + positives.size();
  rows.insert(rows.end(), positives.begin(), positives.end());
  rows.insert(rows.end(), negatives.begin(), negatives.end());
  rows_.gather(read, rows, out);
  const size_t labels = rows.empty() ? 0 : out.labels.size() / rows.size();
  for (size_t at = first * labels; at < out.labels.size(); ++at)
    out.labels[at] = at < second * labels ? 1.0f : 0.0f;
  out.next = read.next;
  out.last_in_epoch = read.last_in_epoch;
  out.unix_ms = read.unix_ms;
  out.stored.clear();
}

double TreeSampler::rows_of_row() const {
  const auto inner = static_cast<double>(spec_.levels() - 2);
  double samples = 0;
  for (int64_t level = 1; level + 1 < spec_.levels(); ++level)
    samples += static_cast<double>(spec_.samples[static_cast<size_t>(level)]);
  const double kept = inner > 0 ? std::nearbyint(spec_.remain_ratio * inner) / inner : 0.0;
  return 1.0 + static_cast<double>(spec_.samples.back()) + kept * (inner + samples);
}

std::unique_ptr<Loader::Source> Loader::Source::with_nodes(const config::DataConfig& data,
                                                           const FeatureLayout& features,
                                                           const LoaderOptions& options) {
  class WithNodes : public Wrapper {
   public:
    WithNodes(const config::DataConfig& data, const FeatureLayout& features,
              const LoaderOptions& options)
        : Wrapper(open(data, features, options)),
          memory_(options.memory),
          read_(batch_in(memory_)),
          sampled_(batch_in(memory_)),
          sampler_(data, features, options) {}

    bool next(Batch& batch) override {
      if (!rows().next(read_)) return false;
      sampler_.sample(read_, sampled_);
      given_ += sampled_.rows;
      std::swap(batch, sampled_);
      if (sampled_.memory() != memory_) sampled_ = batch_in(memory_);
      return true;
    }
    int64_t expected_rows() const override {
      const int64_t left = rows().expected_rows() - rows().statistics().rows;
      return left < 0 ? 0
                      : given_ + std::llround(static_cast<double>(left) * sampler_.rows_of_row());
    }

   private:
    std::pmr::memory_resource* memory_;
    Batch read_, sampled_;
    int64_t given_ = 0;
    TreeSampler sampler_;
  };
  return std::make_unique<WithNodes>(data, features, options);
}

}  // namespace emblem
