#include "core/system/progress.h"

#include <gmock/gmock.h>
#include <pty.h>
#include <unistd.h>

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A clock that stands still until it is moved.
struct TestClock {
  Progress::Clock::time_point time{};

  void advance(std::chrono::milliseconds by) { time += by; }
  std::function<Progress::Clock::time_point()> reader() {
    return [this] { return time; };
  }
};

TEST(Progress, PrintsPlainLinesEveryTenSecondsWhereThereIsNoTerminal) {
  testing::internal::CaptureStderr();
  TestClock clock;
  {
    Progress progress("train", 2000, "rows", clock.reader());
    progress.update(0);
    for (int i = 1; i <= 1000; ++i) {
      clock.advance(std::chrono::milliseconds(25));
      progress.update(2 * i, "loss 0.5");
    }
    progress.finish("auc 0.81");
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text,
            "train: 40% 800 of 2.00 k rows, 80 rows/s, 15.0 s left, loss 0.5\n"
            "train: 80% 1.60 k of 2.00 k rows, 80 rows/s, 5.0 s left, loss 0.5\n"
            "train: 100% 2.00 k of 2.00 k rows, 80 rows/s, 25.0 s, auc 0.81\n");
}

TEST(Progress, ShowsCountAndRateAloneWhenTheTotalIsUnknown) {
  testing::internal::CaptureStderr();
  Progress progress("scan", 0, "files");
  progress.update(0);
  progress.update(12);
  progress.finish();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, StartsWith("scan: 12 files, "));
  EXPECT_THAT(text, Not(HasSubstr("%")));
}

TEST(Progress, FinishesOnce) {
  testing::internal::CaptureStderr();
  {
    Progress progress("train", 10);
    progress.finish();
    progress.finish();
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

// Points stderr to a terminal of its own for its lifetime.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    winsize size{.ws_row = 24, .ws_col = columns};
    int inner = -1;
    if (openpty(&outer_, &inner, nullptr, nullptr, &size) != 0) return;
    saved_ = dup(STDERR_FILENO);
    dup2(inner, STDERR_FILENO);
    close(inner);
  }
  ~Terminal() { restore(); }
  bool works() const { return saved_ >= 0; }
  std::string text() {
    restore();
    std::string text;
    char piece[4096];
    for (ssize_t n; (n = read(outer_, piece, sizeof(piece))) > 0;)
      text.append(piece, static_cast<size_t>(n));
    close(outer_);
    return text;
  }

 private:
  void restore() {
    if (saved_ < 0) return;
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    saved_ = -1;
  }
  int outer_ = -1, saved_ = -1;
};

TEST(Progress, RedrawsABarOnATerminalThatFitsItsWidth) {
  Terminal terminal(60);
  if (!terminal.works()) GTEST_SKIP() << "no pseudo-terminals here";
  {
    TestClock clock;
    Progress progress("train", 100, "rows", clock.reader());
    for (int i = 0; i <= 40; ++i) {
      progress.update(i, "a note that is much too long for a terminal of sixty columns");
      clock.advance(std::chrono::milliseconds(10));
    }
    progress.interrupt();
  }
  const std::string text = terminal.text();
  const auto redraws =
      std::count(text.begin(), text.end(), '\r') - 2;  // interrupt, and the last line's end
  EXPECT_EQ(redraws, 4) << "10 a second";
  const size_t bar = text.find("train: [#");
  ASSERT_NE(bar, std::string::npos) << text;
  EXPECT_LT(text.find('\r', bar) - bar, 60u);
  EXPECT_THAT(text, testing::EndsWith("\n"));
}

TEST(Progress, LeavesPlaceForTheTimeLeftAndTheNoteOnATerminal) {
  Terminal terminal(90);
  if (!terminal.works()) GTEST_SKIP() << "no pseudo-terminals here";
  {
    TestClock clock;
    Progress progress("training", 0, "rows", clock.reader());
    progress.update(0);
    clock.advance(std::chrono::milliseconds(110));
    progress.set_total(10000);
    progress.update(2345, "loss 0.4");
  }
  EXPECT_THAT(terminal.text(),
              testing::ContainsRegex("training: \\[#+\\.+\\] 23% 2.3[45] k of 10.00 k rows, "
                                     "[0-9.]+ k rows/s, [0-9.]+ m?s left, loss 0.4\r?\n"));
}

TEST(Progress, ShowsTheNoteOnATerminalOfEightyColumns) {
  Terminal terminal(80);
  if (!terminal.works()) GTEST_SKIP() << "no pseudo-terminals here";
  {
    TestClock clock;
    Progress progress("training", 600000, "rows", clock.reader());
    progress.update(0);
    clock.advance(std::chrono::milliseconds(110));
    progress.update(123456, "loss 0.451234, step 1234, epoch 1");
  }
  EXPECT_THAT(terminal.text(), testing::ContainsRegex("training: \\[#+\\.+\\] 21%, [0-9.]+ [kM] "
                                                      "rows/s, [^,]+ left, loss 0.451234(, step "
                                                      "1234)?\r?\n"));
}

}  // namespace
}  // namespace emblem
