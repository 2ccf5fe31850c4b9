// nn/capsules.h - layers of models that have several vectors for each row (MIND's interests).
#pragma once

#include <cstdint>
#include <string>

#include "core/device/host_device.h"
#include "core/math/random.h"
#include "nn/graph.h"

namespace emblem {

// Dynamic routing of the elements x_t of a row to capsules. Each element is divided among the
// capsules of its row: its shares are softmax(scale * logits), and logits' = shares + v_k . x_t /
// |x_t| for the sums v_k = sum_t shares_tk x_t, `iterations` times. Of the last shares and sums,
// capsule k is squash(v_k) = (|v_k|^2 / (1 + |v_k|^2))^squash_power v_k / |v_k|.
struct CapsuleOptions {
  static constexpr int kMost = 64;  // capsules

  enum class Count { kByLength, kFixed };
  enum class Start { kNormal, kZeros };

  int capsules = 5;  // of a row, at most
  Count count = Count::kByLength;
  int iterations = 3;
  int64_t most_elements = 0;  // the first ones of a row, which alone are read; 0: all
  float scale = 20.0f;
  Start start = Start::kNormal;
  float deviation = 1.0f;  // of the first logits
  float squash_power = 1.0f;

  // Capsules of a row with `elements` elements: all, or 1 and those k with 2^k < elements.
  EMBLEM_HD int capsules_of(int32_t elements) const {
    if (count == Count::kFixed) return capsules;
    int there = 1;
    while (there < capsules && there < 31 && (int32_t{1} << there) < elements) ++there;
    return there;
  }
  EMBLEM_HD int32_t elements_read(int32_t elements) const {
    return most_elements > 0 && most_elements < elements ? static_cast<int32_t>(most_elements)
                                                         : elements;
  }
  // By the place of an element in its row, and the capsule, alone: equal in all runs and rows.
  EMBLEM_HD float first_logit(int32_t element, int capsule) const {
    if (start == Start::kZeros) return 0.0f;
    constexpr uint64_t kSeed = 0x63617073756c6573ull;
    return deviation * random_normal(kSeed, 0, static_cast<uint64_t>(element) * kMost + capsule);
  }
};

// A sequence of which every row has `count` elements; it is not fed.
Space add_fixed_sequence(Graph& graph, std::string name, int64_t count);

// The capsules of the elements of each row, x [elements, n]; out [rows, options.capsules * n], with
// zeros for those that a row does not have. Gradients flow through the last sums alone.
Node capsules(Graph& graph, Node x, const CapsuleOptions& options);
// [rows, options.capsules]: `there` where a row has the capsule, else `missing`; without gradient.
Node capsule_mask(Graph& graph, Node x, const CapsuleOptions& options, float there, float missing);

// The vectors of each row, x [rows, count * n], as elements of a sequence of `count` elements a row
// [elements, n]; and back.
Node split_vectors(Graph& graph, Node x, Space sequence);
Node join_vectors(Graph& graph, Node x);

// The first element of each row, [rows, n]; zeros where there is none.
Node first_elements(Graph& graph, Node x);

}  // namespace emblem
