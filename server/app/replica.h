// One replica of the service, whole: the composition root.
//
// Built bottom up (store, engine, rpc, operations port, gRPC server, health) and stopped top down,
// but for the operations port, which tells of the end until it is over.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/app/clock_watch.h"
#include "server/app/config_view.h"
#include "server/app/event_log.h"
#include "server/app/health_loop.h"
#include "server/app/settings.h"
#include "server/auth/authenticator.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/engine/engine.h"
#include "server/ops/ops_server.h"
#include "server/ops/readiness.h"
#include "server/rpc/answer_room.h"
#include "server/rpc/call_log.h"
#include "server/rpc/idempotency_service.h"
#include "server/rpc/server.h"
#include "server/rpc/worker_pool.h"
#include "server/store/store.h"

namespace idempotency {

// The stores that settings ask for, with everything optional around them. What wraps a Store
// (metrics, a Redis tier, injected faults) is put on here and nowhere else. `metrics` must outlive
// every store.
StoreFactory MakeStores(const Settings& settings, Metrics* metrics);

// Not thread-safe: one thread starts and stops it.
class Replica {
 public:
  // Listens, and serves as soon as the database answers and its schema fits; until then calls are
  // answered UNAVAILABLE and health says NOT_SERVING. The operations port, if one is set, is there
  // first; `effective` is what its page /settings shows. `metrics` and `log` must outlive the
  // replica. Statuses as Server::Start's.
  static absl::StatusOr<std::unique_ptr<Replica>> Start(
      const Settings& settings, const StoreFactory& stores, Metrics* metrics, Log* log,
      const std::vector<EffectiveSetting>& effective = {});
  // As Stop without delay.
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // host:port.
  const std::string& address() const { return server_->address(); }
  int port() const { return server_->port(); }
  // host:port of the operations port; empty when it is off.
  std::string ops_address() const { return ops_ == nullptr ? "" : ops_->address(); }

  // Health and /readyz say that it stops; after `drain_delay` new calls are refused with DRAINING,
  // what was accepted is answered, and the port is closed; the operations port last. Returns when
  // no call is left. Idempotent.
  void Stop(absl::Duration drain_delay);

 private:
  Replica(const Settings& settings, const StoreFactory& stores, Metrics* metrics, Log* log);

  Log* const log_;
  InsecureAuthenticator authenticator_;
  EventLog events_;
  const std::unique_ptr<Engine> engine_;
  Readiness readiness_;
  std::unique_ptr<OpsServer> ops_;
  MerchantLimits merchants_;
  AnswerRoom answers_;
  WorkerPool workers_;
  CallLog calls_;
  IdempotencyService service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<HealthLoop> health_;
  std::unique_ptr<ClockWatch> clock_watch_;
  bool is_stopped_ = false;
};

}  // namespace idempotency
