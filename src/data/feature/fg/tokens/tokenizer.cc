#include "data/feature/fg/tokens/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/text/shallow_json.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxCachedWords = 100000;

[[noreturn]] void unsupported(const std::string& what) {
  throw Error(ErrorCode::kUnsupported, what);
}

Json read_json(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  EMBLEM_REQUIRE(stream.good(), "the file cannot be opened; check vocab_file and asset_dir");
  Json json = Json::parse(stream, shallow_json, false);
  EMBLEM_REQUIRE(json.is_object() && json.contains("model"),
                 "the file is not a tokenizer.json of Hugging Face, which has a \"model\"");
  return json;
}

// "type" of a part that may be null.
std::string type_of(const Json& json, const char* part) {
  const auto found = json.find(part);
  if (found == json.end() || found->is_null()) return "";
  return found->value("type", "");
}

std::pair<std::string, std::string> merge_of(const Json& merge) {
  if (merge.is_array() && merge.size() == 2)
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const std::string text = merge.get<std::string>();
  const size_t space = text.find(' ');
  EMBLEM_REQUIRE(space != std::string::npos, "the merge \"", text, "\" is not two tokens");
  return {text.substr(0, space), text.substr(space + 1)};
}

bool is_set(const Json& model, const char* option) {
  const auto found = model.find(option);
  if (found == model.end() || found->is_null()) return false;
  if (found->is_boolean()) return found->get<bool>();
  return !found->is_string() || !found->get<std::string>().empty();
}

void check_model(const Json& model) {
  const std::string type = model.value("type", "BPE");
  if (type != "BPE") unsupported(cat("the model is ", type, ", expected BPE"));
  for (const char* option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                             "byte_fallback", "ignore_merges"}) {
    if (is_set(model, option))
      unsupported(cat("the model has ", option, ", which is not supported"));
  }
}

PreTokenizer pre_tokenizer_of(const Json& json) {
  const std::string type = type_of(json, "pre_tokenizer");
  if (type.empty()) return PreTokenizer::kNone;
  if (type == "Whitespace") return PreTokenizer::kWhitespace;
  if (type == "WhitespaceSplit") return PreTokenizer::kWhitespaceSplit;
  if (type != "ByteLevel")
    unsupported(
        cat("the pre_tokenizer is ", type, ", expected ByteLevel, Whitespace or WhitespaceSplit"));
  return json["pre_tokenizer"].value("use_regex", true) ? PreTokenizer::kByteLevel
                                                        : PreTokenizer::kNone;
}

std::unique_ptr<Bpe> model_of(const Json& json) {
  const Json& model = json["model"];
  check_model(model);
  std::unordered_map<std::string, int64_t> vocabulary;
  for (const auto& [word, token] : model.at("vocab").items())
    vocabulary[word] = token.get<int64_t>();
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Json& merge : model.at("merges")) merges.push_back(merge_of(merge));
  Bpe::Options options;
  options.is_byte_level = type_of(json, "pre_tokenizer") == "ByteLevel";
  if (is_set(model, "unk_token")) options.unknown = model["unk_token"].get<std::string>();
  options.fuse_unknown = is_set(model, "fuse_unk");
  return std::make_unique<Bpe>(std::move(vocabulary), merges, options);
}

char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

struct Tokenizer::File {
  Json json;
};

Tokenizer::Tokenizer(const File& file)
    : pre_tokenizer_(pre_tokenizer_of(file.json)), model_(model_of(file.json)) {
  const Json& json = file.json;
  const std::string normalizer = type_of(json, "normalizer");
  if (!normalizer.empty() && normalizer != "NFC" && normalizer != "Lowercase")
    unsupported(cat("the normalizer is ", normalizer, ", expected NFC, Lowercase or none"));
  lowercase_ = normalizer == "Lowercase";
  add_prefix_space_ = type_of(json, "pre_tokenizer") == "ByteLevel" &&
                      json["pre_tokenizer"].value("add_prefix_space", true);
  if (!json.contains("added_tokens")) return;
  for (const Json& added : json["added_tokens"]) {
    const std::string text = added.at("content").get<std::string>();
    if (text.empty()) continue;
    if (is_set(added, "single_word") || is_set(added, "lstrip") || is_set(added, "rstrip"))
      unsupported(cat("the added token \"", text,
                      "\" has single_word, lstrip or rstrip, which are not supported"));
    added_tokens_.push_back({text, added.at("id").get<int64_t>()});
    starts_added_token_[static_cast<uint8_t>(text[0])] = true;
  }
  std::stable_sort(added_tokens_.begin(), added_tokens_.end(),
                   [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
}

Tokenizer::Tokenizer(const std::string& file) try : Tokenizer(File{read_json(file)}) {
} catch (const Error& error) {
  throw Error(error.code(), cat("tokenizer ", file, ": ", error.what()));
} catch (const nlohmann::json::exception&) {
  throw Error(ErrorCode::kInvalidArgument,
              cat("tokenizer ", file,
                  ": vocab, merges or added_tokens do not have the form of a tokenizer.json"));
}

const Tokenizer::AddedToken* Tokenizer::added_token_at(std::string_view text) const {
  if (!starts_added_token_[static_cast<uint8_t>(text[0])]) return nullptr;
  for (const AddedToken& added : added_tokens_)
    if (text.starts_with(added.text)) return &added;
  return nullptr;
}

void Tokenizer::encode(std::string_view text, Cache& cache, std::vector<int64_t>& tokens) const {
  std::string lower;
  if (lowercase_) {
    lower.assign(text);
    std::transform(lower.begin(), lower.end(), lower.begin(), to_lower);
    text = lower;
  }
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* added = added_token_at(text.substr(at));
    if (added == nullptr) {
      ++at;
      continue;
    }
    encode_plain(text.substr(begin, at - begin), cache, tokens);
    tokens.push_back(added->token);
    at += added->text.size();
    begin = at;
  }
  encode_plain(text.substr(begin), cache, tokens);
}

// Text without added tokens.
void Tokenizer::encode_plain(std::string_view text, Cache& cache,
                             std::vector<int64_t>& tokens) const {
  if (text.empty()) return;
  std::string spaced;
  if (add_prefix_space_ && text[0] != ' ') {
    spaced = cat(' ', text);
    text = spaced;
  }
  for (const std::string_view word : words_of(text, pre_tokenizer_)) {
    if (cache.size() > kMaxCachedWords) cache.clear();
    const auto [found, is_new] = cache.try_emplace(std::string(word));
    if (is_new) model_->encode(word, found->second);
    tokens.insert(tokens.end(), found->second.begin(), found->second.end());
  }
}

}  // namespace emblem
