// train/dense_values.h - everything a learner trains besides its tables, in host memory and in
// dense.safetensors.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "train/learner.h"

namespace emblem {

struct DenseValues {
  std::vector<float> parameters, statistics;  // as the graph lays them out
  std::vector<float> optimizer_state;         // [states, parameters], without padding
};

DenseValues read_dense(Learner& learner);
void write_dense(Learner& learner, const DenseValues& values);

// Parameters and statistics by tensor name, optimizer state as [states, parameters]. Valid while
// `values` is.
std::vector<TensorRef> dense_tensors(Learner& learner, const DenseValues& values);

// The values of one parameter or statistic.
template <class T>
std::span<T> part_of(std::span<T> all, const Parameter& part) {
  return all.subspan(part.begin, part.rows * part.cols);
}

// A statistic's name in dense.safetensors; a parameter is stored under its own.
std::string statistic_tensor(const Parameter& statistic);
inline constexpr const char* kOptimizerStateTensor = "optimizer.state";

}  // namespace emblem
