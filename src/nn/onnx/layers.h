// nn/onnx/layers.h - the layers of a graph as nodes of ONNX, as Phase::kEval computes them.
//
// A node of the batch is a tensor [batch, cols]; one of a sequence is [batch, length, cols], with
// rows padded to a common length. Ops write themselves (Op::write_onnx); an op without a form is
// refused by its name.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "nn/graph.h"
#include "nn/onnx/onnx_graph.h"

namespace emblem {

struct Tensor;
class Op;

// Columns of an input of a graph. `make` is called once, and only if a layer reads them.
struct OnnxPiece {
  int64_t cols = 0;
  std::function<std::string()> make;
};

// A sequence whose rows have any number of elements.
struct OnnxSequence {
  std::function<std::string()> lengths;  // [batch, 1] int64
  std::function<std::string()> padded;   // [1] int64: the common length
  int64_t most = 0;                      // elements of a row; 0: no limit
};

class OnnxLayers {
 public:
  // `graph` is prepared, on a CPU; both outlive this object.
  OnnxLayers(Graph& graph, OnnxGraph& to);

  // ---- what is not computed ----
  void feed(Node node, std::vector<OnnxPiece> pieces);
  void feed(Space space, OnnxSequence sequence);

  // Writes what these nodes depend on. Throws kUnsupported that names the layer where there is no
  // form of one.
  void write(const std::vector<Node>& nodes);
  std::string value(Node node);
  std::string columns(Node node, int64_t begin, int64_t end);

  // ---- for ops ----
  OnnxGraph& graph() { return to_; }
  std::string add(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<OnnxAttribute>& attributes = {}) {
    return to_.add(op, inputs, attributes);
  }
  std::string value(const Tensor& tensor);
  std::string columns(const Tensor& tensor, int64_t begin, int64_t end);
  void set(const Tensor& tensor, const std::string& value);

  // Parameters, from where they begin in the buffer of the graph; an initializer of their name.
  std::span<const float> parameters(int64_t begin, int64_t count) const;
  std::span<const float> statistics(int64_t begin, int64_t count) const;
  std::string parameter(int64_t begin, const OnnxDims& dims);
  std::string transposed_parameter(int64_t begin, int64_t rows, int64_t cols);
  // An initializer that belongs to the op with this output.
  std::string constants(const Tensor& output, const std::string& what, const OnnxDims& dims,
                        std::span<const float> values);

  // x [.., n * dim] of the tensor as [.., n, dim]; and back, [.., cols] for `tensor`.
  std::string vectors(const Tensor& tensor, int64_t dim);
  std::string row(const Tensor& tensor, const std::string& vectors);
  std::string transposed_vectors(const Tensor& tensor, const std::string& vectors);
  std::string activate(const Activation& activation, const std::string& x);
  std::string sum(const std::string& x, int64_t axis, bool keeps_axis = true);

  // Of a sequence: whether an element exists, bool [batch, length]; "" where all of them do.
  std::string mask(Space space);
  // x [batch, length, cols] with zeros in padding.
  std::string without_padding(Space space, const std::string& x);
  std::string lengths(Space space);                       // [batch, 1] int64
  std::string float_lengths(Space space);                 // the same as floats
  std::string repeat(const std::string& x, Space space);  // [batch, length, cols]
  int64_t most_elements(Space space) const;

 private:
  struct Input {
    std::vector<OnnxPiece> pieces;
    std::vector<std::string> made;  // "" before
  };
  std::string piece(Input& input, size_t at);
  const OnnxSequence& sequence(Space space) const;
  int64_t fixed_count(Space space) const;  // 0: rows have any number of elements

  Graph& from_;
  OnnxGraph& to_;
  std::map<const Tensor*, Input> inputs_;
  std::map<const Tensor*, std::string> values_;
  std::map<int, OnnxSequence> sequences_;  // by id of the space
  std::map<int, std::string> masks_;
};

}  // namespace emblem
