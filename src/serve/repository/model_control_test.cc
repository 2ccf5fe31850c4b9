// What clients may load, and what the index says of models that cannot be.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "core/threads/becomes_true_test.h"
#include "serve/repository/model_server.h"
#include "serve/repository/small_model_test.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;
using Control = ModelServerOptions::Control;

class ModelControlTest : public testing::Test {
 protected:
  ModelControlTest() { setenv("TMPDIR", temporary_.path().c_str(), 1); }
  ~ModelControlTest() override { unsetenv("TMPDIR"); }

  ModelServerOptions options(Control control = Control::kExplicit) const {
    ModelServerOptions options{.repository = model_.repository(), .control = control};
    if (control == Control::kExplicit) options.models = {"ctr"};
    return options;
  }
  // The files of a version of the model, as clients send them.
  std::map<std::string, std::string> sent_files(const std::string& version = "1") const {
    std::map<std::string, std::string> files;
    const std::string folder = model_.model_folder() + "/" + version;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = entry.path().lexically_relative(folder).string();
      files["file:1/" + name] = read_text_file(entry.path().string());
    }
    return files;
  }
  static std::vector<std::string> folders_of_sent_models() {
    std::vector<std::string> folders;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::temp_directory_path())) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("emblem_model_")) folders.push_back(name);
    }
    std::sort(folders.begin(), folders.end());
    return folders;
  }
  static std::string refusal(ModelServer& server, const std::string& model,
                             const std::map<std::string, std::string>& parameters) {
    try {
      server.load(model, parameters);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const TempFolder temporary_;
  SmallServedModel model_;
};

// A file that the client cannot read, named by a feature of the model that it sends.
TEST_F(ModelControlTest, AModelThatIsSentReadsNoFilesButItsOwn) {
  const std::string secret = temporary_.write("secret/words.txt", "root:x:0:0\nroot:x:0:0\n");
  ModelServer server(options());
  const auto with_vocabulary = [&](const std::string& path) {
    std::map<std::string, std::string> files = sent_files();
    std::string& pipeline = files.at("file:1/pipeline.config");
    const size_t at = pipeline.find("feature_configs");
    pipeline.insert(at, cat("feature_configs { id_feature { feature_name: \"w\" vocab_file: \"",
                            path, "\" default_bucketize_value: 0 embedding_dim: 4 } }\n"));
    files["config"] = "{}";
    return files;
  };
  const std::string up = "assets/0123456789abcdef_x/../../../../secret/words.txt";
  std::map<std::string, std::string> climbing = with_vocabulary(up);
  climbing["file:1/assets/0123456789abcdef_x/y"] = "";  // the folder exists
  std::map<std::string, std::string> in_folder = with_vocabulary("words.txt");
  std::string& pipeline = in_folder.at("file:1/pipeline.config");
  pipeline.replace(pipeline.find("vocab_file"), 0,
                   cat("asset_dir: \"", temporary_.path("secret"), "\" "));
  for (const auto& files : {with_vocabulary(secret), with_vocabulary("/etc/passwd"),
                            with_vocabulary("words.txt"), climbing, in_folder}) {
    const std::string message = refusal(server, "sent", files);
    EXPECT_THAT(message, HasSubstr("which is not one of the model's own"));
    EXPECT_THAT(message, Not(HasSubstr("root")));
  }
  EXPECT_TRUE(folders_of_sent_models().empty());
}

TEST_F(ModelControlTest, MessagesDoNotQuoteFiles) {
  ModelServer server(options());
  std::map<std::string, std::string> files = sent_files();
  std::string& pipeline = files.at("file:1/pipeline.config");
  pipeline.insert(pipeline.find("feature_configs"),
                  "feature_configs { id_feature { feature_name: \"w\" vocab_file: "
                  "\"assets/0123456789abcdef_words.txt\" default_bucketize_value: 0 "
                  "embedding_dim: 4 } }\n");
  files["config"] = "{}";
  for (const char* words : {"hunter2\nhunter2\n", "a 1\nhunter2\n", "a hunter2\n"}) {
    files["file:1/assets/0123456789abcdef_words.txt"] = words;
    const std::string message = refusal(server, "sent", files);
    EXPECT_THAT(message, HasSubstr("0123456789abcdef_words.txt:"));
    EXPECT_THAT(message, Not(HasSubstr("hunter2")));
  }
}

TEST_F(ModelControlTest, AConfigurationThatIsNotJsonIsOneLineThatDoesNotQuoteIt) {
  ModelServer server(options());
  EXPECT_THAT(refusal(server, "ctr", {{"config", R"({"max_batch_size": 1e999})"}}),
              AllOf(HasSubstr("is not a ModelConfig in JSON: Number exceeds"), Not(HasSubstr("\n")),
                    Not(HasSubstr("1e999"))));
}

TEST_F(ModelControlTest, LookingForChangesLeavesWhatClientsSent) {
  ModelServer server(options());
  std::map<std::string, std::string> files = sent_files();
  files["config"] = "{}";
  server.load("sent", files);
  server.load("ctr", {{"config", R"({"parameters": {"note": {"string_value": "chosen"}}})"}});
  server.look_for_changes();
  EXPECT_TRUE(server.is_model_ready("sent", ""));
  EXPECT_EQ(server.config("ctr", "").parameters().at("note").string_value(), "chosen");
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(ModelControlTest, AModelThatIsNotThereIsNotSilentlyLeftOut) {
  ModelServerOptions misspelt = options();
  misspelt.models = {"ctr", "ctrr"};
  testing::internal::CaptureStderr();
  const ModelServer server(misspelt);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("model ctrr cannot be loaded"));
  EXPECT_FALSE(server.is_ready());
  const auto index = server.index();
  const auto found = std::find_if(index.begin(), index.end(),
                                  [](const auto& entry) { return entry.name == "ctrr"; });
  ASSERT_NE(found, index.end());
  EXPECT_EQ(found->state, "UNAVAILABLE");
}

// A repository in a store, an object of which cannot be read.
TEST_F(ModelControlTest, AModelThatCannotBeFetchedIsListedAndLeavesTheOthersAlone) {
  std::map<std::string, std::string> unreadable{{"other", "other/1/x: HTTP status 403"}};
  int refreshed = 0;
  const auto with_refresh = [&](Control control) {
    ModelServerOptions chosen = options(control);
    chosen.poll_seconds = 0.01;
    chosen.refresh = [&, mutex = std::make_shared<std::mutex>()] {
      const std::lock_guard lock(*mutex);
      ++refreshed;
      return unreadable;
    };
    return chosen;
  };
  {
    ModelServer server(with_refresh(Control::kAll));
    EXPECT_EQ(refreshed, 1);
    EXPECT_TRUE(server.is_model_ready("ctr", ""));
    const auto index = server.index();
    ASSERT_EQ(index.size(), 2u);
    EXPECT_EQ(index[1].name, "other");
    EXPECT_EQ(index[1].state, "UNAVAILABLE");
    EXPECT_EQ(index[1].reason, "other/1/x: HTTP status 403");
  }
  {
    ModelServer server(with_refresh(Control::kExplicit));
    EXPECT_EQ(server.index().size(), 1u) << "no client asked for it";
    EXPECT_TRUE(server.is_ready());
    EXPECT_THAT(refusal(server, "other", {}), HasSubstr("HTTP status 403"));
    EXPECT_EQ(refusal(server, "ctr", {}), "");
  }
  unreadable = {{"ctr", "ctr/config.pbtxt: HTTP status 403"}};  // it has a copy of before
  ModelServer server(with_refresh(Control::kAll));
  EXPECT_TRUE(server.is_ready());
}

TEST_F(ModelControlTest, ClientsLoadAndUnloadInExplicitModeAlone) {
  ModelServer polling(options(Control::kPoll));
  EXPECT_THAT([&] { polling.load("ctr", {}); },
              ThrowsMessage<Error>(
                  HasSubstr("explicit model load / unload is not allowed if polling is enabled")));
  EXPECT_THAT([&] { polling.unload("ctr"); }, ThrowsMessage<Error>(HasSubstr("not allowed")));
  ModelServer fixed(options(Control::kAll));
  EXPECT_THAT([&] { fixed.load("ctr", {}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("explicit model load / unload is not allowed"),
                                         HasSubstr("model control mode is NONE"),
                                         HasSubstr("--model-control-mode explicit"))));
  EXPECT_THAT([&] { fixed.unload("ctr"); }, ThrowsMessage<Error>(HasSubstr("not allowed")));
  EXPECT_TRUE(fixed.is_model_ready("ctr", ""));
}

TEST_F(ModelControlTest, ClientsCannotAskForMoreThreadsThanTheServerAllows) {
  ModelServerOptions chosen = options();
  chosen.max_client_threads = 16;
  std::atomic<int> opened = 0;
  chosen.open = [&](auto&&... arguments) {
    ++opened;
    return open_servable(arguments...);
  };
  ModelServer server(chosen);
  const int before = opened;
  const auto config = [](int instances, int threads) {
    return std::map<std::string, std::string>{
        {"config", cat(R"({"max_batch_size": 8, "instance_group": [{"count": )", instances,
                       R"(, "kind": "KIND_CPU"}], "parameters": {"threads": {"string_value": ")",
                       threads, R"("}}})")}};
  };
  EXPECT_THAT(refusal(server, "ctr", config(56, 45)),
              AllOf(HasSubstr("asks for 2576 engine threads"), HasSubstr("may ask for 16 in all"),
                    HasSubstr("--max-client-threads")));
  EXPECT_EQ(opened, before);  // nothing was started
  EXPECT_EQ(probabilities(server, SmallRows::random(1, 1).request(0, 1)).size(), 1u);
  EXPECT_EQ(refusal(server, "ctr", config(16, 1)), "");
  EXPECT_EQ(refusal(server, "ctr", config(4, 3)), "");  // in the place of the 16
  // All models of clients count.
  std::filesystem::copy(model_.model_folder(), model_.repository() + "/other",
                        std::filesystem::copy_options::recursive);
  std::filesystem::remove(model_.repository() + "/other/config.pbtxt");
  EXPECT_THAT(refusal(server, "other", config(1, 1)), HasSubstr("other models have 16"));
  EXPECT_EQ(refusal(server, "other", {}), "");  // as its folder says
  server.unload("ctr");
  EXPECT_EQ(refusal(server, "other", config(1, 1)), "");
}

TEST_F(ModelControlTest, TheIndexSaysWhyANewVersionIsNotServed) {
  ModelServer server(options());
  model_.train(1);
  model_.export_version();
  std::filesystem::resize_file(model_.model_folder() + "/2/tables/C3_emb/emb_vector", 8);
  EXPECT_THAT(refusal(server, "ctr", {}), HasSubstr("truncated"));
  const std::vector<RepositoryEntry> index = server.index();
  ASSERT_EQ(index.size(), 2u);
  EXPECT_EQ(index[0].version, "1");
  EXPECT_EQ(index[0].state, "READY");
  EXPECT_EQ(index[0].reason, "");
  EXPECT_EQ(index[1].version, "2");
  EXPECT_EQ(index[1].state, "UNAVAILABLE");
  EXPECT_THAT(index[1].reason, HasSubstr("truncated"));
  EXPECT_TRUE(server.is_ready());  // version 1 answers
  std::filesystem::remove_all(model_.model_folder() + "/2");
  EXPECT_EQ(refusal(server, "ctr", {}), "");
  EXPECT_EQ(server.index().size(), 1u);
}

TEST_F(ModelControlTest, TheLogSaysOnceWhyAVersionIsNotServed) {
  ModelServerOptions polled = options(Control::kPoll);
  polled.poll_seconds = 0.005;
  std::atomic<int> attempts = 0;
  std::atomic<const char*> problem = nullptr;
  polled.open = [&](auto&&... arguments) {
    ++attempts;
    if (const char* text = problem) throw Error(ErrorCode::kCorruption, text);
    return open_servable(arguments...);
  };
  testing::internal::CaptureStderr();
  {
    ModelServer server(polled);
    problem = "the first problem";
    model_.train(1);
    model_.export_version();
    const int before = attempts;
    EXPECT_TRUE(becomes_true([&] { return attempts >= before + 5; }));
    problem = "another problem";
    const int then = attempts;
    EXPECT_TRUE(becomes_true([&] { return attempts >= then + 5; }));
    EXPECT_EQ(server.index().back().reason, "another problem");
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(log, "the first problem"), 1u) << log;
  EXPECT_EQ(count_of(log, "another problem"), 1u) << log;
}

TEST_F(ModelControlTest, AServerWithoutModelsIsNotReadyUnlessToldOtherwise) {
  const TempFolder empty;
  EXPECT_FALSE(ModelServer({.repository = empty.path()}).is_ready());
  EXPECT_FALSE(ModelServer({.repository = empty.path(), .control = Control::kPoll}).is_ready());
  // It waits for clients to load models.
  EXPECT_TRUE(ModelServer({.repository = empty.path(), .control = Control::kExplicit}).is_ready());
  EXPECT_TRUE(ModelServer({.repository = empty.path(), .strict_readiness = false}).is_ready());
  std::filesystem::resize_file(model_.model_folder() + "/1/tables/C3_emb/emb_vector", 8);
  ModelServerOptions broken = options(Control::kAll);
  EXPECT_FALSE(ModelServer(broken).is_ready());
  broken.strict_readiness = false;
  EXPECT_TRUE(ModelServer(broken).is_ready());
}

TEST_F(ModelControlTest, AModelCanBeMadeOfFilesThatAClientSends) {
  const std::vector<std::string> folders = folders_of_sent_models();
  const SmallRows rows = SmallRows::random(5, 3);
  {
    ModelServer server(options());
    const std::vector<float> expected = probabilities(server, rows.request(0, 5));
    std::map<std::string, std::string> parameters = sent_files();
    parameters["config"] = R"({"max_batch_size": 64})";
    const auto of_sent = [&] {
      auto request = rows.request(0, 5);
      request->model = "sent";
      return probabilities(server, std::move(request));
    };
    server.load("sent", parameters);
    EXPECT_EQ(of_sent(), expected);
    EXPECT_EQ(folders_of_sent_models().size(), folders.size() + 1);
    // In the place of one from the repository, until that is loaded again.
    model_.train(30);
    model_.export_version();
    std::map<std::string, std::string> second = sent_files("2");
    second["config"] = R"({"max_batch_size": 64})";
    server.load("ctr", second);
    EXPECT_NE(probabilities(server, rows.request(0, 5)), expected);
    EXPECT_EQ(server.metadata("ctr", "").versions.back(), "1");
    server.load("sent", second);
    EXPECT_NE(of_sent(), expected);
    server.load("ctr", {});
    EXPECT_EQ(server.metadata("ctr", "").versions.back(), "2");
    EXPECT_EQ(folders_of_sent_models().size(), folders.size() + 1);
    server.unload("sent");
    EXPECT_EQ(folders_of_sent_models(), folders);
    EXPECT_THAT(refusal(server, "sent", {}), HasSubstr("no model 'sent' in the repository"));
    server.load("sent", parameters);
  }
  EXPECT_EQ(folders_of_sent_models(), folders);
}

// A manifest of brackets took 80 times its size when it was read.
TEST_F(ModelControlTest, TextsOfSentModelsAreTakenFromTheBudgetBeforeTheyAreRead) {
  MemoryBudget budget(8 << 20);
  ModelServerOptions limited = options();
  limited.requests.memory = &budget;
  ModelServer server(limited);
  std::map<std::string, std::string> files = sent_files();
  files["config"] = "{}";
  EXPECT_EQ(refusal(server, "sent", files), "");
  const std::string brackets(1 << 17, '[');
  std::string header("\0\0\2\0\0\0\0\0", 8);  // its length
  for (const auto& [name, text] : std::map<std::string, std::string>{
           {"file:1/manifest.json", brackets},
           {"file:1/pipeline.config", brackets},
           {"file:1/pipeline.config.d/x.config", "feature_name: \"Z{1..100000}\""},
           {"file:1/assets/words", brackets},
           {"file:1/dense.safetensors", header + brackets}}) {
    auto bad = files;
    bad[name] = text;
    EXPECT_THAT(refusal(server, "sent", bad), HasSubstr("--max-memory")) << name;
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST_F(ModelControlTest, FilesNeedAConfigurationAndStayInTheirFolder) {
  const std::vector<std::string> folders = folders_of_sent_models();
  ModelServer server(options());
  EXPECT_THAT(refusal(server, "sent", {{"file:1/manifest.json", "{}"}}),
              AllOf(HasSubstr("failed to load 'sent'"), HasSubstr("'config'")));
  for (const char* path : {"../1/x", "1/../../x", "/etc/x", "1", "1/", "0/x", "x/y", "1//x",
                           "1/./x", "", "config.pbtxt", "1/..", "1/a\\..\\..\\x", "1/a\nb"})
    EXPECT_THAT(refusal(server, "sent", {{"config", "{}"}, {cat("file:", path), "text"}}),
                HasSubstr("expected VERSION/FILE"))
        << path;
  EXPECT_THAT(refusal(server, "sent", {{"config", "{}"}, {"file:1/a", "x"}, {"file:1/a/b", "y"}}),
              HasSubstr("cannot be written"));
  EXPECT_THAT(refusal(server, "../sent", {{"config", "{}"}, {"file:1/a", "x"}}),
              HasSubstr("not a valid name"));
  EXPECT_THAT(refusal(server, "ctr", {{"other", "x"}}), HasSubstr("'other' is not supported"));
  EXPECT_NE(refusal(server, "sent", {{"config", "{}"}, {"file:1/a", "x"}}), "");  // no model
  EXPECT_EQ(server.index().size(), 1u);
  EXPECT_TRUE(server.is_ready());
  EXPECT_EQ(folders_of_sent_models(), folders);
}

}  // namespace
}  // namespace emblem
