#include "server/ops/readiness.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace idempotency {

bool ReadinessReport::IsReady() const {
  for (const Named& named : parts) {
    if (!named.part.is_ok) return false;
  }
  return true;
}

std::string ReadinessReport::Summary() const {
  std::string failed;
  for (const Named& named : parts) {
    if (!named.part.is_ok) absl::StrAppend(&failed, failed.empty() ? "" : ", ", named.name);
  }
  return failed.empty() ? "ok\n" : absl::StrCat("not ready: ", failed, "\n");
}

std::string ReadinessReport::Verbose() const {
  std::string text;
  for (const auto& [name, part] : parts) {
    absl::StrAppend(&text, part.is_ok ? "[+]" : "[-]", name, part.is_ok ? " ok" : " failed",
                    part.detail.empty() ? "" : ": ", part.detail, "\n");
  }
  return absl::StrCat(text, Summary());
}

Readiness::Readiness(Clock* clock) : clock_(clock) {
  const ReadinessPart unknown = {false, "not checked yet"};
  checked_ = {unknown, unknown, unknown};
  checked_at_ = clock->BootTime();
}

void Readiness::SetChecked(CheckedParts parts) {
  MutexLock lock(&mu_);
  checked_ = std::move(parts);
  checked_at_ = clock_->BootTime();
}

void Readiness::SetDraining() {
  MutexLock lock(&mu_);
  is_draining_ = true;
}

ReadinessReport Readiness::Report() {
  CheckedParts checked;
  absl::Duration age;
  bool is_draining = false;
  {
    MutexLock lock(&mu_);
    checked = checked_;
    age = clock_->BootTime() - checked_at_;
    is_draining = is_draining_;
  }
  if (age >= kStaleAfter) {
    checked.database = {false,
                        absl::StrCat("no check has ended for ", absl::ToInt64Seconds(age), " s")};
  }
  ReadinessPart draining = {true, "not draining"};
  if (is_draining) draining = {false, "this replica is shutting down"};
  return {{{"database", std::move(checked.database)},
           {"schema", std::move(checked.schema)},
           {"durability", std::move(checked.durability)},
           {"draining", std::move(draining)}}};
}

}  // namespace idempotency
