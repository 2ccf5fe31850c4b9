#include "data/source/objects/s3_signature.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

using testing::Contains;
using testing::EndsWith;
using testing::IsEmpty;

const S3Credentials kExample = {.access_key = "AKIAIOSFODNN7EXAMPLE",
                                .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                .region = "us-east-1"};

// Examples of the documentation of Amazon S3: "Authenticating Requests: Using the Authorization
// Header".
TEST(S3Signature, IsThatOfTheDocumentation) {
  const S3Request lifecycle = {"GET", "examplebucket.s3.amazonaws.com", "/", {{"lifecycle", ""}}};
  EXPECT_THAT(
      signed_headers(lifecycle, kExample, "20130524T000000Z"),
      Contains("Authorization: AWS4-HMAC-SHA256 "
               "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
               "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
               "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  const S3Request list = {
      "GET", "examplebucket.s3.amazonaws.com", "/", {{"prefix", "J"}, {"max-keys", "2"}}};
  EXPECT_THAT(
      signed_headers(list, kExample, "20130524T000000Z"),
      Contains(EndsWith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")));
}

TEST(S3Signature, TargetsAreEncoded) {
  EXPECT_EQ(target_of({"GET", "h", "/b/a b+c/ü", {{"uploadId", "x/y="}, {"uploads", ""}}}),
            "/b/a%20b%2Bc/%C3%BC?uploadId=x%2Fy%3D&uploads=");
  EXPECT_EQ(target_of({"GET", "h", "/b", {}}), "/b");
}

TEST(S3Signature, IsAbsentWithoutCredentials) {
  EXPECT_THAT(signed_headers({"GET", "h", "/b", {}}, {}, "20130524T000000Z"), IsEmpty());
}

}  // namespace
}  // namespace emblem
