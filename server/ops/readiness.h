// Whether this replica should be sent calls, and if not, why: what /readyz says.
//
// Others find out (the health loop asks the database each second) and put it here; whoever asks
// reads memory, so a page is answered at once whatever the database does. What was found out goes
// stale: when no check has ended for kStaleAfter, the database counts as away.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace idempotency {

// One thing that must be right. `detail` goes to whoever asks: nothing internal stands in it.
struct ReadinessPart {
  bool is_ok = false;
  std::string detail;
};

// What one check found.
struct CheckedParts {
  ReadinessPart database;
  ReadinessPart schema;
  ReadinessPart durability;
};

struct ReadinessReport {
  struct Named {
    absl::string_view name;
    ReadinessPart part;
  };
  std::vector<Named> parts;  // database, schema, durability, draining

  bool IsReady() const;
  // One line: "ok", or "not ready: " and the names of what is not.
  std::string Summary() const;
  // A line for each part, "[+]name ok: detail" or "[-]name failed: detail", then the summary.
  std::string Verbose() const;
};

// Thread-safe.
class Readiness {
 public:
  // A check takes as long as the database; the loop runs one a second.
  static constexpr absl::Duration kStaleAfter = absl::Seconds(5);

  // `clock` must outlive this.
  explicit Readiness(Clock* clock);

  void SetChecked(CheckedParts parts);
  // For good: this replica stops.
  void SetDraining();

  ReadinessReport Report();

 private:
  Clock* const clock_;
  Mutex mu_;
  CheckedParts checked_ ABSL_GUARDED_BY(mu_);
  absl::Duration checked_at_ ABSL_GUARDED_BY(mu_);
  bool is_draining_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace idempotency
