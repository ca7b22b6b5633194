// What the engine reports, as log lines. Takeovers, resumes, sweeps and answers that were refused
// or given up are audit lines: they say what may have happened to money, and are never dropped.
//
// No line holds a body, an attempt id or a fingerprint.
#pragma once

#include "server/base/log.h"
#include "server/engine/engine.h"

namespace idempotency {

// Thread-safe. `log` must outlive it.
class EventLog : public EngineEvents {
 public:
  explicit EventLog(Log* log) : log_(log) {}

  void OnTakeover(const Record& record, const TraceId& trace) override;
  void OnResume(const Record& record, const TraceId& trace) override;
  void OnRefusedOutcome(const OwnerItem& item, const OwnerResult& result,
                        const TraceId& trace) override;
  void OnGivenUp(const OwnerItem& item, const absl::Status& why, const TraceId& trace) override;
  void OnSwept(const SweptRecord& swept) override;
  void OnPurgedUnsettled(const SweptRecord& purged) override;
  void OnMaintenanceFailed(const absl::Status& status) override;

 private:
  void WriteSwept(absl::string_view event, const SweptRecord& swept);

  Log* const log_;
};

}  // namespace idempotency
