#include <gmock/gmock.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <thread>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "serve/http/client_test.h"
#include "serve/http/server.h"
#include "serve/http/status/test_clock_test.h"

namespace emblem {
namespace {

// Writes cert.pem and key.pem, made for each other.
void write_certificate_in(const TempFolder& folder) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_sign(certificate, key, EVP_sha256());
  FILE* file = fopen(folder.path("cert.pem").c_str(), "w");
  PEM_write_X509(file, certificate);
  fclose(file);
  file = fopen(folder.path("key.pem").c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  fclose(file);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

class TlsClient : public TestClient {
 public:
  // `certificate`: a folder with cert.pem and key.pem to show.
  explicit TlsClient(uint16_t port, const TempFolder* certificate = nullptr)
      : TestClient(port), context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_)) {
    if (certificate != nullptr) {
      SSL_use_certificate_file(ssl_, certificate->path("cert.pem").c_str(), SSL_FILETYPE_PEM);
      SSL_use_PrivateKey_file(ssl_, certificate->path("key.pem").c_str(), SSL_FILETYPE_PEM);
    }
    SSL_set_fd(ssl_, fd());
    is_secure_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() override {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  bool is_secure() const { return is_secure_; }

 protected:
  ssize_t write_some(std::string_view bytes) override {
    return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
  }
  ssize_t read_some(char* bytes, size_t size) override {
    return SSL_read(ssl_, bytes, static_cast<int>(size));
  }

 private:
  SSL_CTX* context_;
  SSL* ssl_;
  bool is_secure_ = false;
};

class HttpTlsTest : public testing::Test {
 protected:
  HttpTlsTest() {
    write_certificate_in(folder_);
    HttpServerOptions options;
    options.address = "127.0.0.1";
    options.tls_certificate = folder_.path("cert.pem");
    options.tls_key = folder_.path("key.pem");
    options.authorize = [](std::string_view target,
                           const Caller& caller) -> std::optional<HttpResponse> {
      if (target == "/" || caller.authorization == "Bearer token") return std::nullopt;
      return error_response(Error(ErrorCode::kUnauthenticated, "needs a token"));
    };
    options.threads = 1;
    options.read_timeout = std::chrono::milliseconds(500);
    options.clock = clock_.function();
    server_ =
        std::make_unique<HttpServer>(options, [](HttpRequest request, const HttpReply& reply) {
          HttpResponse response;
          response.body = std::string(text_of(request.body));
          response.tensors.emplace_back(request.body.begin(), request.body.end());
          reply(std::move(response));
        });
  }

  TempFolder folder_;
  TestClock clock_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTlsTest, AnswersOverTlsWithItsToken) {
  TlsClient client(server_->port());
  ASSERT_TRUE(client.is_secure());
  const std::string big(3'000'000, 'x');
  for (const std::string& body : {std::string("hi"), big, std::string()}) {
    const TestResponse response = client.post("/v2", body, "Authorization: Bearer token\r\n");
    EXPECT_EQ(response.status, 200);
    EXPECT_TRUE(response.body == body + body);
  }
  EXPECT_EQ(client.post("/v2", "hi").status, 401);
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST_F(HttpTlsTest, ClosesConnectionsThatSpeakPlainTextOrNothing) {
  TestClient plain(server_->port());
  plain.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(plain.receive().status, 0);
  TestClient silent(server_->port());
  EXPECT_TRUE(clock_.advance_during([&] { return silent.is_closed_by_server(); }));
  TlsClient client(server_->port());
  EXPECT_EQ(client.get("/", "Connection: close\r\n").status, 200);
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST_F(HttpTlsTest, ServesManyConnections) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        TlsClient client(server_->port());
        for (int k = 0; k < 20; ++k)
          right +=
              client.post("/", std::to_string(k)).body == std::to_string(k) + std::to_string(k);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 400);
}

TEST_F(HttpTlsTest, ClientsNeedACertificateOfTheAuthorityIfThereIsOne) {
  const TempFolder known, stranger;
  write_certificate_in(known);
  write_certificate_in(stranger);
  HttpServerOptions options;
  options.address = "127.0.0.1";
  options.tls_certificate = folder_.path("cert.pem");
  options.tls_key = folder_.path("key.pem");
  options.tls_client_ca = known.path("cert.pem");
  HttpServer server(options,
                    [](HttpRequest, const HttpReply& reply) { reply(json_response("{}")); });
  EXPECT_EQ(TlsClient(server.port(), &known).get("/").status, 200);
  EXPECT_EQ(TlsClient(server.port(), &stranger).get("/").status, 0);
  EXPECT_EQ(TlsClient(server.port()).get("/").status, 0);
}

TEST_F(HttpTlsTest, RefusesAKeyThatIsNotTheCertificates) {
  const TempFolder other;
  write_certificate_in(other);
  HttpServerOptions options;
  options.tls_certificate = folder_.path("cert.pem");
  options.tls_key = other.path("key.pem");
  EXPECT_THAT([&] { HttpServer(options, [](HttpRequest, const HttpReply&) {}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("cannot be used with")));
}

TEST_F(HttpTlsTest, FilesThatCannotBeUsedAreNamedWithTheReason) {
  const TempFolder folder;
  HttpServerOptions options;
  options.tls_certificate = folder.path("none.pem");
  options.tls_key = folder.path("none.key");
  EXPECT_THAT([&] { check_tls(options); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("No such file")));
  options.tls_certificate = options.tls_key = folder.path("text");
  write_text_file_atomically(options.tls_key, "not a certificate");
  EXPECT_THAT([&] { check_tls(options); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("no start line")));
}

}  // namespace
}  // namespace emblem
