// What processes cost: CPU time and memory, read from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace idempotency::bench {

// The process and everything that descends from it; empty when there is no such process.
std::vector<pid_t> ProcessTree(pid_t root);

// CPU seconds, user and system, that the tree has used so far: of its processes, and of those that
// have ended and were waited for. Counted in clock ticks of 10 ms.
double CpuSecondsOf(pid_t root);

// CPU seconds, user and system, that all processes of the machine have used since it started.
// Interrupts not counted.
double CpuSecondsOfMachine();

// The most memory that the process alone has had resident, in bytes; zero when unknown.
int64_t PeakResidentBytes(pid_t pid);

// Memory of the tree now, in bytes. What processes share counts once, which a sum of resident sizes
// would not do: every backend of PostgreSQL maps the same buffers.
int64_t ProportionalBytes(pid_t root);

}  // namespace idempotency::bench
