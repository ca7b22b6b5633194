#include "server/store/postgres/rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace idempotency {

absl::Status CheckShape(const PGresult* result, std::initializer_list<PgType> columns) {
  const int count = static_cast<int>(columns.size());
  if (PQnfields(result) != count) {
    return absl::InternalError(
        absl::StrCat("a result of ", PQnfields(result), " columns in place of ", count));
  }
  int column = 0;
  for (const PgType type : columns) {
    if (PQftype(result, column) != static_cast<Oid>(type) || PQfformat(result, column) != 1) {
      return absl::InternalError(absl::StrCat("column ", column, " is of type ",
                                              PQftype(result, column), ", format ",
                                              PQfformat(result, column)));
    }
    ++column;
  }
  return absl::OkStatus();
}

bool RowReader::IsNull() const {
  return column_ < PQnfields(result_) && PQgetisnull(result_, row_, column_) == 1;
}

absl::string_view RowReader::Next(int length) {
  const int column = column_++;
  if (!status_.ok()) return {};
  if (column >= PQnfields(result_)) {
    status_ = absl::InternalError(absl::StrCat("no column ", column));
    return {};
  }
  const int found = PQgetlength(result_, row_, column);
  if (PQgetisnull(result_, row_, column) == 1 || (length >= 0 && found != length)) {
    status_ = absl::InternalError(absl::StrCat("column ", column, " (", PQfname(result_, column),
                                               ") is NULL or of ", found, " bytes"));
    return {};
  }
  return absl::string_view(PQgetvalue(result_, row_, column), static_cast<size_t>(found));
}

uint64_t RowReader::NextNumber(int length) {
  uint64_t number = 0;
  for (const char byte : Next(length)) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

bool RowReader::Bool() { return NextNumber(1) != 0; }
int16_t RowReader::Int2() { return static_cast<int16_t>(NextNumber(2)); }
int32_t RowReader::Int4() { return static_cast<int32_t>(NextNumber(4)); }
int64_t RowReader::Int8() { return static_cast<int64_t>(NextNumber(8)); }
absl::Time RowReader::Timestamp() { return FromPgMicros(Int8()); }
absl::string_view RowReader::Bytes() { return Next(-1); }

std::array<uint8_t, 16> RowReader::Uuid() {
  std::array<uint8_t, 16> uuid{};
  const absl::string_view bytes = Next(16);
  std::copy(bytes.begin(), bytes.end(), uuid.begin());
  return uuid;
}

}  // namespace idempotency
