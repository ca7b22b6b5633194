#include "server/app/scheduling.h"

#include <sched.h>

#include <cerrno>

namespace idempotency {

void ScheduleAsBatch(Log* log) {
  const sched_param parameters{};
  if (sched_setscheduler(0, SCHED_BATCH, &parameters) != 0) {
    log->Warn("scheduling",
              {{"detail", "SCHED_BATCH was refused; throughput is lower"}, {"errno", errno}});
  }
}

}  // namespace idempotency
