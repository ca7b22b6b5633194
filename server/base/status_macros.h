// RETURN_IF_ERROR and ASSIGN_OR_RETURN: hand a fault on to the caller. (Abseil of 2022 has
// neither.)
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define IDEM_CONCAT_INNER(a, b) a##b
#define IDEM_CONCAT(a, b) IDEM_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                                   \
  do {                                                                \
    if (absl::Status idem_status = (expression); !idem_status.ok()) { \
      return idem_status;                                             \
    }                                                                 \
  } while (false)

// ASSIGN_OR_RETURN(declaration, expression): `declaration` is assigned the value, or the status is
// returned.
#define ASSIGN_OR_RETURN(declaration, expression) \
  IDEM_ASSIGN_OR_RETURN(IDEM_CONCAT(idem_status_or_, __LINE__), declaration, expression)

// A name and a declaration cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define IDEM_ASSIGN_OR_RETURN(variable, declaration, expression) \
  auto variable = (expression);                                  \
  if (!variable.ok()) {                                          \
    return std::move(variable).status();                         \
  }                                                              \
  declaration = *std::move(variable)
// NOLINTEND(bugprone-macro-parentheses)
