// Rows of a result in PostgreSQL's binary format, read with checks.
//
// Nothing here trusts the server: a column of another type, length or count than expected is an
// error, never a wrong read.
#pragma once

#include <libpq-fe.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/store/postgres/params.h"

namespace idempotency {

struct ResultCloser {
  void operator()(PGresult* result) const { PQclear(result); }
};
using PgResult = std::unique_ptr<PGresult, ResultCloser>;

// Ok when the result has exactly these columns, all binary; otherwise kInternal.
absl::Status CheckShape(const PGresult* result, std::initializer_list<PgType> columns);

// Reads one row, column by column from the left. An error sticks: once a column did not fit, all
// that follow read as zero or empty, and status() tells. Views are valid while the result lives.
class RowReader {
 public:
  // REQUIRES: 0 <= row < PQntuples(result); `result` outlives the reader.
  // Begins with the column of that number.
  RowReader(const PGresult* result, int row, int column = 0)
      : result_(result), row_(row), column_(column) {}

  bool Bool();
  int16_t Int2();
  int32_t Int4();
  int64_t Int8();
  absl::Time Timestamp();
  absl::string_view Bytes();  // text or bytea
  std::array<uint8_t, 16> Uuid();
  // Whether the next column is NULL; does not read it.
  bool IsNull() const;

  // kInternal, with the first column that did not fit.
  const absl::Status& status() const { return status_; }

 private:
  // The next column's bytes, of that length (negative: any); empty after an error.
  absl::string_view Next(int length);
  uint64_t NextNumber(int length);

  const PGresult* const result_;
  const int row_;
  int column_;
  absl::Status status_;
};

}  // namespace idempotency
