// serve/protocol/request_names.h - the parameters that a request, its inputs and its outputs may
// have, over HTTP and gRPC alike. Unknown names are refused: what a misspelt one asks for would be
// missing from the answer without a word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace emblem {

// Names of parameters; also those that have no effect here and that clients send by themselves.
const std::vector<std::string>& request_parameters();
const std::vector<std::string>& input_parameters();
const std::vector<std::string>& output_parameters();

// Throws kInvalidArgument: `parameter "top-k" of the request is unknown; did you mean "top_k"?
// (known: ...)`. `what` it is, and `owner` that has it: "parameter", "the request".
[[noreturn]] void refuse_unknown(std::string_view what, std::string_view name,
                                 std::string_view owner, const std::vector<std::string>& known);

// The parameter content_type of KServe and MLServer says what values were before they became those
// of the tensor. Throws kInvalidArgument for types whose values would have to be decoded.
void check_content_type(std::string_view type);

// The parameters sequence_id, sequence_start and sequence_end. Throws kUnsupported when one is set.
void check_sequence_parameter(std::string_view name, bool is_set);

}  // namespace emblem
