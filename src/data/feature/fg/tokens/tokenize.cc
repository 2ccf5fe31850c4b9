#include <optional>

#include "data/feature/fg/cell_operator.h"
#include "data/feature/fg/tokens/text_normalizer.h"
#include "data/feature/fg/tokens/tokenizer.h"

namespace emblem {
namespace {

// Tokens of texts. A missing text is default_value, whose tokens are taken.
class TokenizeOperator final : public CellOperator {
 public:
  explicit TokenizeOperator(const FeatureSpec& feature)
      : CellOperator(feature, {{ColumnType::kText, ""}}, ColumnType::kInt64),
        tokenizer_(file_of(feature)) {
    const config::TokenizeFeature& tokenize = feature.config.tokenize_feature();
    if (tokenize.has_text_normalizer())
      normalizer_.emplace(tokenize.text_normalizer(), tokenize.asset_dir(), feature.name);
    std::string missing = tokenize.default_value();
    if (missing.empty() && feature.sequence >= 0) missing = "0";
    Tokenizer::Cache cache;
    tokenizer_.encode(missing, cache, default_tokens_);
  }

 private:
  static std::string file_of(const FeatureSpec& feature) {
    const config::TokenizeFeature& tokenize = feature.config.tokenize_feature();
    if (tokenize.tokenizer_type() == "sentencepiece")
      throw Error(ErrorCode::kUnsupported,
                  cat("feature \"", feature.name,
                      "\": tokenizer_type sentencepiece is not supported; convert its model to a "
                      "tokenizer.json with BPE, or tokenize before training and read the tokens "
                      "with an id_feature"));
    EMBLEM_REQUIRE(tokenize.tokenizer_type() == "bpe", "feature \"", feature.name,
                   "\": tokenizer_type is \"", tokenize.tokenizer_type(), "\", expected bpe");
    EMBLEM_REQUIRE(!tokenize.vocab_file().empty(), "feature \"", feature.name,
                   "\" has no vocab_file; name the tokenizer.json");
    return tokenize.asset_dir().empty() ? tokenize.vocab_file()
                                        : tokenize.asset_dir() + "/" + tokenize.vocab_file();
  }

  void compute(std::span<const CellReader> inputs, const Cells& cells, CellWriter& out,
               const ReportRow&) const override {
    Tokenizer::Cache cache;
    std::vector<int64_t> tokens;
    std::string buffer;
    for (int64_t cell = 0; cell < cells.count; ++cell) {
      tokens.clear();
      const ValueRange range = inputs[0].values(cell);
      if (!range.empty()) {
        const std::string_view text = inputs[0].text(range.begin, buffer);
        if (normalizer_)
          tokenizer_.encode(normalizer_->apply(text), cache, tokens);
        else
          tokenizer_.encode(text, cache, tokens);
      }
      for (const int64_t token : tokens.empty() ? default_tokens_ : tokens) out.add(token);
      out.end_cell();
    }
  }

  Tokenizer tokenizer_;
  std::optional<TextNormalizer> normalizer_;
  std::vector<int64_t> default_tokens_;
};

// Tokens are the elements of a sequence.
class TokenSequenceOperator final : public FgOperator {
 public:
  explicit TokenSequenceOperator(const FeatureSpec& feature) : tokens_(feature) {
    inputs_ = tokens_.inputs();
    output_ = tokens_.output();
  }

  void apply(std::span<const Column* const> inputs, int64_t rows, Column& out,
             const ReportRow& report) const override {
    tokens_.apply(inputs, rows, out, report);
    if (out.offsets.empty()) {
      out.sequence_offsets.resize(static_cast<size_t>(rows) + 1);
      for (int64_t row = 0; row <= rows; ++row)
        out.sequence_offsets[row] = static_cast<int32_t>(row);
    } else {
      std::swap(out.sequence_offsets, out.offsets);
    }
    out.offsets.clear();
  }

 private:
  TokenizeOperator tokens_;
};

}  // namespace

std::unique_ptr<FgOperator> make_tokenize(const FeatureSpec& feature) {
  if (feature.config.tokenize_feature().tokens_as_sequence())
    return std::make_unique<TokenSequenceOperator>(feature);
  return std::make_unique<TokenizeOperator>(feature);
}

}  // namespace emblem
