// serve/http/api/json_tensor.h - tensors as arrays of JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "serve/protocol/encoding/json_reader.h"
#include "serve/protocol/memory_budget.h"
#include "serve/protocol/tensor.h"

namespace emblem {

// Reads the values of `input` (whose `data` is not used), either flat or nested like its shape, and
// returns them in the layout of a binary tensor. Integers and floating-point numbers are exact; a
// value that its type cannot hold is refused, as are FP16 and BF16, which have no JSON form.
// `lease` grows by what is returned, before it is allocated.
std::vector<std::byte> read_json_tensor(JsonReader& reader, const InputTensor& input,
                                        MemoryBudget::Lease& lease);

// Appends the values, flat, so that they read back exactly. Throws for types without a JSON form
// and for BYTES that are not UTF-8.
void append_json_tensor(std::string& out, const OutputTensor& output);
// No fewer bytes than append_json_tensor appends.
size_t most_json_bytes(const OutputTensor& output);

}  // namespace emblem
