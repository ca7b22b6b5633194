#include "server/app/file.h"

#include <errno.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace idempotency {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

absl::Status SystemError(absl::string_view what, const std::string& path) {
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

}  // namespace idempotency
