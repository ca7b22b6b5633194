// docs/configuration.md, made from the table of settings, the rules about settings that must go
// together, and the exit codes. A test compares it with the file: after a change of the table run
//
//   idempotencyd config docs >docs/configuration.md
#pragma once

#include <string>

namespace idempotency {

std::string ConfigurationPage();

}  // namespace idempotency
