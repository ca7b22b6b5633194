// How the kernel gives the processors to this process's threads.
#pragma once

#include "server/base/log.h"

namespace idempotency {

// The calling thread, and the threads and processes it starts from now on, are scheduled as batch
// work (SCHED_BATCH): one that wakes up waits for the running thread's turn to end instead of
// cutting it short. On processors with nothing else to do that changes nothing; on busy ones calls
// gather, so that batches and writes to sockets are larger and there are fewer switches
// (docs/adr/0013). Needs no privilege. Where the system forbids it, the log says so and the process
// goes on as it is.
void ScheduleAsBatch(Log* log);

}  // namespace idempotency
