#include "data/source/uri.h"

#include <gmock/gmock.h>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST(Uri, AddressesOfStores) {
  const ObjectUri s3 = parse_object_uri("s3://bucket/day=1/part-0.csv");
  EXPECT_EQ(s3.kind, StoreKind::kS3);
  EXPECT_EQ(s3.authority, "bucket");
  EXPECT_EQ(s3.key, "day=1/part-0.csv");
  EXPECT_EQ(s3.text(), "s3://bucket/day=1/part-0.csv");
  EXPECT_EQ(parse_object_uri("s3a://bucket/x").text(), "s3://bucket/x");
  EXPECT_EQ(parse_object_uri("gcs://bucket").text(), "gs://bucket/");
  EXPECT_EQ(parse_object_uri("hdfs:///data/x").key, "data/x");
  EXPECT_EQ(parse_object_uri("abfss://box@account.dfs.core.windows.net/a/b").authority,
            "box@account.dfs.core.windows.net");
  EXPECT_EQ(parse_object_uri("https://host:8443/a?b=c").key, "a?b=c");
}

TEST(Uri, PathsAndServicesAreNotObjects) {
  for (const char* path : {"/data/x", "data/x", "odps://project/tables/t", "kafka://broker/topic",
                           "s3:/bucket", "", "://"})
    EXPECT_FALSE(is_object_uri(path)) << path;
  for (const char* path : {"s3://b/x", "gs://b", "abfs://c@a/x", "hdfs://n:8020/x", "https://h/x"})
    EXPECT_TRUE(is_object_uri(path)) << path;
}

TEST(Uri, SecretsAreRefusedAndNotShown) {
  for (const char* text : {"s3://key:hidden@bucket/x", "https://user:hidden@host/x",
                           "abfs://account:hidden@box/x", "gs://hidden@bucket/x"}) {
    EXPECT_THAT([&] { parse_object_uri(text); },
                ThrowsMessage<Error>(AllOf(HasSubstr("omit them"), Not(HasSubstr("hidden")))))
        << text;
    EXPECT_THAT(shown_uri(text), Not(HasSubstr("hidden")));
  }
  EXPECT_EQ(shown_uri("https://host/a.csv?X-Amz-Signature=hidden"), "https://host/a.csv?...");
  EXPECT_EQ(parse_object_uri("https://host/a.csv?sig=hidden").shown(), "https://host/a.csv?...");
}

TEST(Uri, WhatNamesNothingIsRefused) {
  EXPECT_THAT([] { parse_object_uri("s3:///x"); },
              ThrowsMessage<Error>(HasSubstr("names no bucket; expected s3://BUCKET/PATH")));
  EXPECT_THAT([] { parse_object_uri("ftp://host/x"); },
              ThrowsMessage<Error>(HasSubstr("is not the address of an object")));
}

TEST(Uri, Patterns) {
  EXPECT_TRUE(is_glob("day=*/x"));
  EXPECT_TRUE(is_glob("part-[01]"));
  EXPECT_FALSE(is_glob("day=1/x"));
  EXPECT_TRUE(matches_segment("part-*.csv", "part-17.csv"));
  EXPECT_TRUE(matches_segment("part-[0-3]", "part-2"));
  EXPECT_FALSE(matches_segment("part-[0-3]", "part-4"));
  EXPECT_FALSE(matches_segment("*", ".hidden"));
  EXPECT_TRUE(is_hidden_name("_SUCCESS"));
  EXPECT_TRUE(is_hidden_name(".x"));
  EXPECT_FALSE(is_hidden_name("x_y"));
}

TEST(Uri, FoldersAndNames) {
  EXPECT_EQ(join_uri("s3://b/dir", "a/b"), "s3://b/dir/a/b");
  EXPECT_EQ(join_uri("s3://b/dir/", "a"), "s3://b/dir/a");
  EXPECT_THAT([] { join_uri("s3://", "a"); }, ThrowsMessage<Error>(HasSubstr("names no bucket")));
}

}  // namespace
}  // namespace emblem
