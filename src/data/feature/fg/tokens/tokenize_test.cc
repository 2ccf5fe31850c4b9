#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "data/feature/fg/test_operator.h"
#include "data/feature/fg/tokens/pre_tokenizer.h"
#include "data/feature/fg/tokens/text_normalizer.h"
#include "data/feature/fg/tokens/tokenizer.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TokenizerFile {
 public:
  explicit TokenizerFile(const std::string& json)
      : path_(std::filesystem::path(testing::TempDir()) /
              cat("tokenizer_", reinterpret_cast<uintptr_t>(this), ".json")) {
    std::ofstream(path_) << json;
  }
  ~TokenizerFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// "low", "er" and " low" are merged; U+0120 stands for a space.
constexpr char kByteLevel[] = R"({
  "added_tokens": [{"id": 12, "content": "<end>", "special": true}],
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "model": {"type": "BPE",
    "vocab": {"l": 0, "o": 1, "w": 2, "e": 3, "r": 4, "\u0120": 5, "lo": 6, "low": 7, "er": 8,
              "\u0120low": 9, "\u00c3": 10, "\u00a9": 11, "0": 13},
    "merges": ["l o", "lo w", "e r", "\u0120 low"]}})";

std::vector<int64_t> tokens_of(const Tokenizer& tokenizer, std::string_view text) {
  Tokenizer::Cache cache;
  std::vector<int64_t> tokens;
  tokenizer.encode(text, cache, tokens);
  return tokens;
}

std::string error_of_tokenizer(const std::string& json) {
  const TokenizerFile file(json);
  try {
    const Tokenizer tokenizer(file.path());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PreTokenizer, ByteLevelKeepsTheSpaceBeforeAWord) {
  const auto words = [](std::string_view text) { return words_of(text, PreTokenizer::kByteLevel); };
  EXPECT_THAT(words("abc efg"), ElementsAre("abc", " efg"));
  EXPECT_THAT(words("it's 12ab  !?"), ElementsAre("it", "'s", " 12", "ab", " ", " !?"));
  EXPECT_THAT(words("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(words("a  "), ElementsAre("a", "  "));
  EXPECT_THAT(words("'re 'x"), ElementsAre("'re", " '", "x"));
  EXPECT_THAT(words("裙子 x"), ElementsAre("裙子", " x"));
  EXPECT_THAT(words("\xff\xfe"), ElementsAre("\xff\xfe"));
}

TEST(PreTokenizer, WordsBetweenSpaces) {
  EXPECT_THAT(words_of("a_1, b!", PreTokenizer::kWhitespace), ElementsAre("a_1", ",", "b", "!"));
  EXPECT_THAT(words_of(" a_1, b!", PreTokenizer::kWhitespaceSplit), ElementsAre("a_1,", "b!"));
  EXPECT_THAT(words_of("a b", PreTokenizer::kNone), ElementsAre("a b"));
}

TEST(Tokenizer, MergesInTheirOrder) {
  const TokenizerFile file(kByteLevel);
  const Tokenizer tokenizer(file.path());
  EXPECT_THAT(tokens_of(tokenizer, "low lower"), ElementsAre(7, 9, 8));
  EXPECT_THAT(tokens_of(tokenizer, "wol"), ElementsAre(2, 1, 0));
  EXPECT_THAT(tokens_of(tokenizer, ""), ElementsAre());
  EXPECT_THAT(tokens_of(tokenizer, "é"), ElementsAre(10, 11));
  EXPECT_THAT(tokens_of(tokenizer, "low<end>er"), ElementsAre(7, 12, 8));
  EXPECT_THAT(tokens_of(tokenizer, "xlow"), ElementsAre(7));
}

TEST(Tokenizer, CharactersThatAreNotInTheVocabulary) {
  const TokenizerFile file(R"({"pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "BPE",
      "unk_token": "?", "fuse_unk": true, "vocab": {"?": 0, "裙": 1, "子": 2, "裙子": 3},
      "merges": [["裙", "子"]]}})");
  EXPECT_THAT(tokens_of(Tokenizer(file.path()), "裙子 xy 子"), ElementsAre(3, 0, 2));
}

TEST(Tokenizer, WhatIsNotSupportedIsNamed) {
  const auto model = [](const std::string& model, const std::string& rest = "") {
    return "{" + rest + "\"model\": {" + model + "\"vocab\": {}, \"merges\": []}}";
  };
  EXPECT_THAT(error_of_tokenizer("[]"), HasSubstr("not a tokenizer.json"));
  EXPECT_THAT(error_of_tokenizer("{"), HasSubstr("not a tokenizer.json"));
  EXPECT_THAT(error_of_tokenizer(model("\"type\": \"WordPiece\", ")),
              HasSubstr("the model is WordPiece, expected BPE"));
  EXPECT_THAT(error_of_tokenizer(model("\"byte_fallback\": true, ")), HasSubstr("byte_fallback"));
  EXPECT_THAT(error_of_tokenizer(model("", "\"pre_tokenizer\": {\"type\": \"Metaspace\"}, ")),
              HasSubstr("the pre_tokenizer is Metaspace"));
  EXPECT_THAT(error_of_tokenizer(model("", "\"normalizer\": {\"type\": \"NFKC\"}, ")),
              HasSubstr("the normalizer is NFKC"));
  EXPECT_THAT(error_of_tokenizer("{\"model\": {\"vocab\": {}, \"merges\": [\"a b\"]}}"),
              HasSubstr("which is not in the vocabulary"));
  EXPECT_THAT(error_of_tokenizer("{\"model\": {\"vocab\": 3}}"), HasSubstr("do not have the form"));
  EXPECT_THROW(Tokenizer("/does/not/exist.json"), Error);
}

std::string tokenize(const TokenizerFile& file, const std::string& settings) {
  return "tokenize_feature { expression: 'item:t' vocab_file: '" + file.path() + "' " + settings +
         " }";
}

TEST(TokenizeFeature, AMissingTextHasTheTokensOfTheDefault) {
  const TokenizerFile file(kByteLevel);
  const TestInput input{{"low er", "", "low"}};
  const TestOutput out = apply_operator(tokenize(file, ""), {input});
  EXPECT_EQ(out.type, ColumnType::kInt64);
  EXPECT_THAT(out.cells, ElementsAre(Bag{"7", "5", "8"}, Bag{}, Bag{"7"}));
  EXPECT_THAT(apply_operator(tokenize(file, "default_value: 'er'"), {input}).cells[1],
              ElementsAre("8"));
}

TEST(TokenizeFeature, TokensCanBeASequence) {
  const TokenizerFile file(kByteLevel);
  const TestOutput out = apply_operator(
      tokenize(file, "tokens_as_sequence: true default_value: 'er'"), {{{"low er", "", "low"}}});
  EXPECT_THAT(out.cells, ElementsAre(Bag{"7"}, Bag{"5"}, Bag{"8"}, Bag{"8"}, Bag{"7"}));
  EXPECT_THAT(out.sequence_offsets, ElementsAre(0, 3, 4, 5));
  EXPECT_THAT(
      apply_operator(tokenize(file, "tokens_as_sequence: true"), {{{"l", "o"}}}).sequence_offsets,
      ElementsAre(0, 1, 2));
}

TEST(TokenizeFeature, ElementsOfASequenceAreTexts) {
  const TokenizerFile file(kByteLevel);
  const std::string text = tokenize(file, "");
  FeatureSpec spec = spec_of(text, {{}});
  spec.sequence = 0;
  const auto made = make_operator(spec);
  const Column column = column_of({{"low er;low", ""}, ";"}, made->inputs()[0]);
  const Column* const columns[] = {&column};
  Column out;
  made->apply(columns, 2, out, [](int64_t, const std::string&) {});
  // In sequences the default is "0".
  EXPECT_THAT(read_output(out, 2).cells, ElementsAre(Bag{"7", "5", "8"}, Bag{"7"}, Bag{"13"}));
}

TEST(TokenizeFeature, OtherTokenizersAreRefusedByName) {
  EXPECT_THAT(error_of_operator("tokenize_feature { tokenizer_type: 'sentencepiece' }", 1),
              HasSubstr("sentencepiece is not supported; convert"));
}

TEST(TokenizeFeature, TheTokenizerOfTorchEasyRecsTests) {
  const char* folder = std::getenv("EMBLEM_TORCHEASYREC");
  const std::string file = cat(folder == nullptr ? "" : folder, "/data/test/tokenizer.json");
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "needs EMBLEM_TORCHEASYREC";
  const Tokenizer tokenizer(file);
  EXPECT_THAT(tokens_of(tokenizer, "abc efg"), ElementsAre(19758, 299, 16054));
  EXPECT_THAT(tokens_of(tokenizer, "hij"), ElementsAre(73, 1944));
  EXPECT_THAT(tokens_of(tokenizer, "xyz"), ElementsAre(35609));
  EXPECT_THAT(tokens_of(tokenizer, "0"), ElementsAre(17));
}

std::string normalized_text(const std::string& text, const std::string& options) {
  config::TextNormalizer config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(options, &config));
  return TextNormalizer(config, "", "f").apply(text);
}

TEST(TextNormalizer, EveryOption) {
  EXPECT_EQ(normalized_text("aBc", "norm_options: TEXT_LOWER2UPPER"), "ABC");
  EXPECT_EQ(normalized_text("ABC efg", "norm_options: TEXT_UPPER2LOWER"), "abc efg");
  EXPECT_EQ(normalized_text("ＡＢ１　！", "norm_options: TEXT_SBC2DBC"), "AB1 !");
  EXPECT_EQ(normalized_text("a,b。c! 裙", "norm_options: TEXT_FILTER"), "abc 裙");
  EXPECT_EQ(normalized_text("连衣裙abc", "norm_options: TEXT_SPLITCHRS"), "连 衣 裙 abc");
  EXPECT_EQ(normalized_text("a b\tc", "norm_options: TEXT_REMOVE_SPACE"), "abc");
  EXPECT_EQ(normalized_text("ABC", "norm_options: TEXT_UPPER2LOWER max_length: 2"), "ABC");
}

TEST(TextNormalizer, TraditionalChineseIsRefusedByName) {
  config::TextNormalizer config;
  EXPECT_THROW(TextNormalizer(config, "", "f"), Error);
  config.add_norm_options(config::TEXT_CHT2CHS);
  EXPECT_THROW(TextNormalizer(config, "", "f"), Error);
}

}  // namespace
}  // namespace emblem
