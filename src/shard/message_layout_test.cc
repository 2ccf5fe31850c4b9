#include "shard/message_layout.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

const std::vector<MessageTable> kTables = {
    {.dim = 3, .can_miss = true},
    {.dim = 4, .replicated = true, .sends_counts = true, .can_miss = true},
    {.dim = 5, .sends_counts = true}};

// What rank `from` asks of rank `to`, which a replicated table's copies are all told.
int64_t asked(int from, int to, int64_t slot, size_t table) {
  return kTables[table].replicated ? 2 + from : (from * 7 + to * 5 + slot * 3 + table) % 4;
}

MessageLayout of_asking(int self, const MessageSettings& settings) {
  MessageSettings own = settings;
  own.self = self;
  MessageLayout layout;
  layout.lay_out(kTables, own, [&](int rank, int64_t slot, size_t table) {
    return asked(self, rank, slot, table);
  });
  return layout;
}

MessageLayout of_answering(int self, const MessageSettings& settings, const MessageLayout& asking) {
  MessageSettings own = settings;
  own.self = self;
  MessageLayout layout;
  layout.lay_out(
      kTables, own,
      [&](int rank, int64_t slot, size_t table) { return asked(rank, self, slot, table); },
      &asking);
  return layout;
}

int64_t bytes(const MessageRange& range) { return range.end - range.begin; }

TEST(MessageLayout, BothSidesOfAMessageAgree) {
  for (const bool with_counts : {false, true}) {
    const MessageSettings settings{.ranks = 3, .slots = 2, .with_counts = with_counts};
    for (int from = 0; from < 3; ++from) {
      for (int to = 0; to < 3; ++to) {
        const MessageLayout a = of_asking(from, settings);
        const MessageLayout b = of_answering(to, settings, of_asking(to, settings));
        const auto f = static_cast<size_t>(from), t = static_cast<size_t>(to);
        EXPECT_EQ(bytes(a.keys()[t]), bytes(b.keys()[f]));
        EXPECT_EQ(bytes(a.answers()[t]), bytes(b.answers()[f]));
        EXPECT_EQ(bytes(a.gradients()[t]), bytes(b.gradients()[f]));
        for (int64_t slot = 0; slot < 2; ++slot) {
          for (size_t table = 0; table < kTables.size(); ++table) {
            const ItemPlace &x = a.item(to, slot, table), &y = b.item(from, slot, table);
            EXPECT_EQ(x.count, y.count);
            EXPECT_EQ(x.keys * 8 - a.keys()[t].begin, y.keys * 8 - b.keys()[f].begin);
            EXPECT_EQ(x.counts * 4 - a.keys()[t].begin, y.counts * 4 - b.keys()[f].begin);
            if (from != to) {
              EXPECT_EQ(x.rows * 4 - a.gradients()[t].begin, y.rows * 4 - b.gradients()[f].begin);
            }
          }
        }
      }
    }
  }
}

TEST(MessageLayout, WhatARankAsksOfItselfStaysInPlace) {
  const MessageSettings settings{.ranks = 3, .slots = 2};
  const MessageLayout asking = of_asking(1, settings);
  const MessageLayout answering = of_answering(1, settings, asking);
  for (size_t table = 0; table < kTables.size(); ++table) {
    EXPECT_EQ(asking.item(1, 1, table).rows, answering.item(1, 1, table).rows);
    EXPECT_EQ(asking.item(1, 1, table).flags, answering.item(1, 1, table).flags);
  }
  EXPECT_EQ(bytes(asking.answers()[1]), 0);
  EXPECT_EQ(bytes(answering.gradients()[1]), 0);
  for (const int rank : {0, 2})
    EXPECT_GE(answering.answers()[static_cast<size_t>(rank)].begin, asking.rows_end());
}

TEST(MessageLayout, RowsOfAnItemBeginAtSixteenBytes) {
  for (const int64_t element : {2, 4}) {
    const MessageSettings settings{.ranks = 2, .slots = 2, .element_bytes = element};
    const MessageLayout layout = of_asking(0, settings);
    for (const ItemPlace& item : layout.items()) EXPECT_EQ(item.rows * element % 16, 0);
  }
}

// Rows of replicated tables are not sent back, their gradients go to every rank.
TEST(MessageLayout, ReplicatedTablesAreLast) {
  const MessageLayout layout = of_asking(0, {.ranks = 2, .slots = 1});
  const MessageRange answers = layout.answers()[1], gradients = layout.gradients()[1];
  const int64_t row = layout.item(1, 0, 1).rows * int64_t{4};
  EXPECT_GE(row, answers.end);
  EXPECT_GE(row, gradients.begin);
  EXPECT_LT(row, gradients.end);
}

}  // namespace
}  // namespace emblem
