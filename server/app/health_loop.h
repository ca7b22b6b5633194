// Asks the database once a second whether this replica can do its work, and says so to whoever
// routes calls to it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/base/log.h"
#include "server/base/mutex.h"
#include "server/ops/readiness.h"
#include "server/store/store.h"

namespace idempotency {

// The parts of a check's result, as /readyz shows them. `profile` is the durability that is
// promised. What could not be looked at is not ok.
CheckedParts PartsOf(const absl::Status& checked, absl::string_view profile);

class HealthLoop {
 public:
  // `tell` is called with what Store::Check said after every check, from the loop's thread. `log`
  // must outlive the loop.
  HealthLoop(std::unique_ptr<Store> store, std::function<void(const absl::Status&)> tell, Log* log);
  // Ends the thread.
  ~HealthLoop();
  HealthLoop(const HealthLoop&) = delete;
  HealthLoop& operator=(const HealthLoop&) = delete;

  // Repeats Step() each second, the first time at once. REQUIRES: not started before.
  void Start();

  // One check. A change of its result is logged. For one thread at a time; not once started.
  void Step();

 private:
  void Run();

  const std::function<void(const absl::Status&)> tell_;
  Log* const log_;
  // Owned by the thread once it runs.
  const std::unique_ptr<Store> store_;
  std::optional<bool> was_serving_;

  Mutex mu_;
  CondVar ending_changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace idempotency
