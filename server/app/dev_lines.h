// What `idempotencyd dev` prints: an order's way through the service, as commands to paste.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace idempotency {

struct DevLine {
  // What the command shows, for a person.
  std::string explanation;
  // One line for a shell. To be run in the order given; each works when pasted at once after the
  // one before.
  std::string command;
};

// Begin → duplicate → Complete → replay, another body, a takeover, a lookup. `order` makes the
// keys, and must not have been used on this database before; `address` is host:port.
std::vector<DevLine> DevLines(absl::string_view address, absl::string_view order);

}  // namespace idempotency
