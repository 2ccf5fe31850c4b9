// data/format/binary/message_decoder.h - messages of a stream as blocks of typed columns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/format/decoder.h"

namespace emblem {

// Consecutive messages of one partition, and what is to be read of them.
struct MessageChunk {
  int32_t partition = 0;
  std::string bytes;             // bytes of all messages, one after the other
  std::vector<size_t> ends;      // in `bytes`, by message
  std::vector<int64_t> offsets;  // by message
  int64_t first_row = 0;         // rows of the first message before this one were read already
  int64_t newest_unix_ms = 0;    // the largest of the times of the messages

  size_t messages() const { return ends.size(); }
  std::string_view message(size_t i) const {
    const size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(begin, ends[i] - begin);
  }
  void clear() { *this = {}; }
};

// Where a row is in its partition, as DecodedPiece::positions have it: the offset of its message
// and its number there.
inline constexpr int kMessageRowBits = 20;
inline constexpr int64_t kMostRowsOfMessage = int64_t{1} << kMessageRowBits;
inline int64_t row_position(int64_t offset, int64_t row) { return offset << kMessageRowBits | row; }
inline int64_t offset_of(int64_t position) { return position >> kMessageRowBits; }
inline int64_t row_of(int64_t position) { return position & (kMostRowsOfMessage - 1); }

// Made once; const methods may run concurrently.
class MessageDecoder {
 public:
  virtual ~MessageDecoder() = default;

  // Columns of all blocks: one per request, in the order of the requests. Null: messages say
  // what columns they have.
  virtual const std::vector<ColumnSpec>* columns() const = 0;

  // Messages that a chunk may have at most.
  virtual size_t most_messages() const = 0;

  // Overwrites `out` with the rows of `chunk` that `sample` keeps and that fulfil
  // data_config.filters. DecodedPiece::file is the
  // partition; messages that cannot be read are bad rows. Returns the columns of the block, which
  // live as long as this and are the same object for the same columns; null for a block without
  // rows.
  virtual const std::vector<ColumnSpec>* decode(const MessageChunk& chunk, const RowSample& sample,
                                                DecodedPiece& out) const = 0;
};

// One function for each kind of messages; message_decoder.cc has those of text.
std::unique_ptr<MessageDecoder> make_arrow_messages(std::vector<ColumnRequest> requests,
                                                    std::vector<std::string> na_strings,
                                                    const std::vector<std::string>& filters);

// The decoder for data.stream_format. Throws Error when requests or filters do not fit the
// columns that are configured.
std::unique_ptr<MessageDecoder> make_message_decoder(const config::DataConfig& data,
                                                     const std::vector<ColumnRequest>& requests);

}  // namespace emblem
