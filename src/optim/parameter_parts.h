// optim/parameter_parts.h - which parameters each of the dense optimizers updates.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/proto/optimizer.pb.h"
#include "optim/dense_optimizer.h"

namespace emblem {

struct NamedRange {
  std::string name;  // name of a parameter: "bottom.0.weight"
  WeightRange range;
};

// First the parameters that no regex_pattern of part_optimizers matches as a whole, then those of
// each part; the first of several patterns counts. Neighbouring ranges are joined. Throws Error for
// a pattern that is not a regular expression, and for one that no parameter is left for.
std::vector<std::vector<WeightRange>> group_parameters(std::span<const NamedRange> parameters,
                                                       const config::DenseOptimizer& optimizer);

}  // namespace emblem
