// The database's clock in the hand of a test, to the microsecond.
//
// The service's statements read the time only as unqualified clock_timestamp(). A connection with
// this clock's conninfo() finds a function of that name in a schema before pg_catalog; what it
// returns stands in a one-row table. Statements of other connections keep the real time.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace idempotency {

// For one thread at a time; the database's sessions see a move with their next reading. What fails
// ends the test binary with a message.
class TestClock {
 public:
  // Installs the clock in the database; from then on it stands still at `now`. `conninfo` is in
  // libpq's keyword=value form and of a role that may create a schema.
  TestClock(const std::string& conninfo, absl::Time now);
  ~TestClock();
  TestClock(const TestClock&) = delete;
  TestClock& operator=(const TestClock&) = delete;

  // For connections that are to have this clock.
  const std::string& conninfo() const { return conninfo_; }

  absl::Time Now() const { return now_; }
  // Stops the clock at an instant, which is cut to whole microseconds.
  void FreezeAt(absl::Time now);
  // `by` may be negative.
  void Advance(absl::Duration by) { FreezeAt(now_ + by); }
  // Makes the database's clock go, `ahead` of the real one (or behind it); Now() then is no use.
  void Run(absl::Duration ahead);

  // Runs SQL on the clock's own connection, which sees this clock as well.
  void Exec(const std::string& sql);

 private:
  struct Connection;

  const std::string conninfo_;
  const std::unique_ptr<Connection> connection_;
  absl::Time now_;
};

}  // namespace idempotency
