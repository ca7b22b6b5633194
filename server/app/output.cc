#include "server/app/output.h"

#include <iostream>

namespace idempotency {

ExitCode Print(const std::string& text) {
  std::cout << text << std::flush;
  if (std::cout) return ExitCode::kOk;
  return Fail(absl::UnavailableError("standard output takes no more; what was printed is cut off"));
}

ExitCode Fail(const absl::Status& status) {
  std::cerr << "idempotencyd: " << status.message() << std::endl;
  return ExitCode::kFailure;
}

}  // namespace idempotency
