// train/report/pass_bar.h - the progress of passes over data sets as a bar on stderr.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/system/progress.h"
#include "train/predict/pass_watch.h"

namespace emblem {

// PassWatch::progress of one pass after the other, each under `title`.
inline std::function<void(const PassProgress&)> pass_bar(std::string title) {
  return [title = std::move(title),
          bar = std::make_shared<std::optional<Progress>>()](const PassProgress& pass) {
    if (!*bar) bar->emplace(title, pass.expected_rows);
    (*bar)->set_total(pass.expected_rows);
    if (pass.state != PassProgress::State::kStopped) (*bar)->update(pass.rows);
    if (pass.state == PassProgress::State::kEnded) (*bar)->finish();
    if (pass.state != PassProgress::State::kRuns) bar->reset();
  };
}

}  // namespace emblem
