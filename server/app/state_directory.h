// The directory that a private PostgreSQL lives in, and the small files beside its data.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace idempotency {

// A directory of which this process is the only user, by a lock that the kernel drops when the
// process ends.
//
// Not thread-safe. Owns the lock, and an ephemeral directory with all its content: the destructor
// removes it.
class StateDirectory {
 public:
  // Makes the directory, and its parents, if need be and locks it. With `shared_path` other users
  // may pass through it (not list it), for a server that runs as another user. FailedPrecondition,
  // naming the other process, when one holds the lock; PermissionDenied and the like from the
  // system, with the path.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Open(const std::string& path,
                                                              bool shared_path);

  // Makes and locks a new directory under $TMPDIR or /tmp. Also removes what killed processes of
  // this user left there.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> OpenEphemeral(bool shared_path);

  ~StateDirectory();
  StateDirectory(const StateDirectory&) = delete;
  StateDirectory& operator=(const StateDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(absl::string_view name) const;

  // Writes a file of mode 0600 so that it is there whole, on disk, or not at all.
  absl::Status Write(absl::string_view name, absl::string_view content) const;

  // The content of a small file, "" if there is none that we may read.
  std::string Read(absl::string_view name) const;

  // Makes a rename or removal in the directory last.
  absl::Status Sync() const;

 private:
  StateDirectory(std::string path, int lock_fd, bool ephemeral);

  const std::string path_;
  const int lock_fd_;
  const bool ephemeral_;
  // A forked copy of the process must not remove what the original uses.
  const pid_t owner_;
};

}  // namespace idempotency
