// What a PostgreSQL server notes about itself in its data directory (postmaster.pid).
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "server/app/child_process.h"

namespace idempotency {

struct PostmasterFile {
  pid_t pid = 0;
  int port = 0;
  // The System V shared memory that every process of the server holds. Missing while it starts.
  std::optional<int> shared_memory_id;
};

// Nothing when there is no such file, or no process id and port in it.
std::optional<PostmasterFile> ReadPostmasterFile(const std::string& data_directory);

// The running server that the file speaks of; null when the process is gone or is something else by
// now.
std::unique_ptr<Process> FindPostmaster(const PostmasterFile& file,
                                        const std::string& data_directory);

// Removes the file where PostgreSQL would take an unrelated process, which got the same id later,
// for a running server and refuse to start. Leaves it where PostgreSQL sees by itself that it is
// stale, and where a process still holds the old server's shared memory.
void RemoveMisleadingPostmasterFile(const PostmasterFile& file, const std::string& data_directory);

}  // namespace idempotency
