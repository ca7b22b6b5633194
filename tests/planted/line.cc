// Faults in how the database's answers are taken. Wraps functions of libpq.
#include <libpq-fe.h>

#include <map>
#include <mutex>

#include "tests/planted/planted.h"

// The linker's --wrap gives these names.
// NOLINTBEGIN(bugprone-reserved-identifier)

extern "C" {
int __real_PQsendQueryPrepared(PGconn* conn, const char* name, int count, const char* const* values,
                               const int* lengths, const int* formats, int result_format);
int __real_PQisBusy(PGconn* conn);
PGresult* __real_PQgetResult(PGconn* conn);
int __real_PQenterPipelineMode(PGconn* conn);
PQnoticeReceiver __real_PQsetNoticeReceiver(PGconn* conn, PQnoticeReceiver receiver, void* arg);
}

namespace {

// What is known of a connection with the fault answer-before-ready.
struct Line {
  int unanswered = 0;     // statements whose results have not ended
  bool owes_end = false;  // the end of the pipeline is to be made up
  int made_up = 0;        // ends that were made up and whose true ones are still to come
};

std::mutex& Mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

Line& LineOf(PGconn* conn) {
  static auto* const lines = new std::map<PGconn*, Line>;
  const std::lock_guard lock(Mutex());
  return (*lines)[conn];
}

bool AnswersEarly() {
  static const bool answers = idempotency::planted::Is("answer-before-ready");
  return answers;
}

}  // namespace

extern "C" {

int __wrap_PQsendQueryPrepared(PGconn* conn, const char* name, int count, const char* const* values,
                               const int* lengths, const int* formats, int result_format) {
  const int sent =
      __real_PQsendQueryPrepared(conn, name, count, values, lengths, formats, result_format);
  // The results are asked for before the commit, as the service does with a standby anyway.
  if (sent == 1 && AnswersEarly()) {
    ++LineOf(conn).unanswered;
    PQsendFlushRequest(conn);
  }
  return sent;
}

int __wrap_PQisBusy(PGconn* conn) {
  if (AnswersEarly() && LineOf(conn).owes_end) return 0;
  return __real_PQisBusy(conn);
}

PGresult* __wrap_PQgetResult(PGconn* conn) {
  if (!AnswersEarly()) return __real_PQgetResult(conn);
  Line& line = LineOf(conn);
  if (line.owes_end) {
    line.owes_end = false;
    ++line.made_up;
    return PQmakeEmptyPGresult(conn, PGRES_PIPELINE_SYNC);
  }
  PGresult* result = __real_PQgetResult(conn);
  while (line.made_up > 0 && PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
    --line.made_up;
    PQclear(result);
    result = __real_PQgetResult(conn);
  }
  if (result == nullptr && line.unanswered > 0 && --line.unanswered == 0) line.owes_end = true;
  return result;
}

// A connection is set up: here, because nothing may be executed outside of a pipeline afterwards.
int __wrap_PQenterPipelineMode(PGconn* conn) {
  LineOf(conn) = Line();
  if (idempotency::planted::Is("delete-on-fail")) {
    PQclear(PQexec(
        conn,
        "SELECT pg_advisory_xact_lock(20230501);"
        "CREATE OR REPLACE FUNCTION planted_delete() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "DELETE FROM idempotency_record WHERE merchant_id = NEW.merchant_id AND idempotency_key = "
        "NEW.idempotency_key; RETURN NULL; END $$;"
        "CREATE OR REPLACE TRIGGER planted_delete AFTER UPDATE ON idempotency_record FOR EACH ROW "
        "WHEN (NEW.state IN (4, 6)) EXECUTE FUNCTION planted_delete()"));
  }
  return __real_PQenterPipelineMode(conn);
}

PQnoticeReceiver __wrap_PQsetNoticeReceiver(PGconn* conn, PQnoticeReceiver receiver, void* arg) {
  if (idempotency::planted::Is("trust-warning")) {
    return __real_PQsetNoticeReceiver(
        conn, [](void*, const PGresult*) {}, nullptr);
  }
  return __real_PQsetNoticeReceiver(conn, receiver, arg);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
