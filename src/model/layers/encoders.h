// model/layers/encoders.h - sequence encoders: the elements of a row as one vector, by what is
// looked for.
#pragma once

#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"
#include "model/layers/inputs.h"
#include "nn/graph.h"

namespace emblem {

// The name of the sequence group that it reads; "" means the only one.
std::string encoder_input_of(const config::SeqEncoderConfig& encoder);

// [rows, n]; 0 in rows without elements, but for the query that multi_window_din_encoder appends.
// Parameters are named "scope.i....".
Node add_encoder(Graph& graph, const std::string& scope, const SequenceInputs& inputs,
                 const config::SeqEncoderConfig& encoder);

// Attention by an MLP over [q, s, q - s, q * s]; q is extended by zeros to the width of s.
Node add_din(Graph& graph, const std::string& scope, const SequenceInputs& inputs,
             const config::MLP& attn_mlp);

// Means over windows of elements, weighted by an MLP over [s, q * s, q] without softmax, and the
// query: [rows, (windows + 1) * width of s]. Windows follow each other from the first element on.
Node add_multi_window_din(Graph& graph, const std::string& scope, const SequenceInputs& inputs,
                          const std::vector<int64_t>& windows, const config::MLP& attn_mlp);

}  // namespace emblem
