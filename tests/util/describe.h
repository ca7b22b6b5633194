// Values of the record vocabulary as text, one field a line: what tests compare and print.
//
// Two values are equal exactly when their descriptions are. Pure functions.
#pragma once

#include <string>

#include "server/record/decide.h"
#include "server/record/record.h"

namespace idempotency {

std::string Describe(BeginVerdict verdict);
std::string Describe(OwnerVerdict verdict);
std::string Describe(RecordState state);
std::string Describe(const Outcome& outcome);
std::string Describe(const Failure& failure);
std::string Describe(const Answer& answer);
// Every field.
std::string Describe(const Record& record);
// "none" for null.
std::string Describe(const Record* record);
// The fields that are set after kRecorded and kRenewed (store.h).
std::string DescribeAfterWrite(const Record& record);

}  // namespace idempotency
