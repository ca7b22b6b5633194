// Everything that can be set about a replica, as plain values. setting_table.h names each, and
// configuration.h fills them from flags, environment and file.
#pragma once

#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "server/base/log.h"
#include "server/engine/engine.h"
#include "server/engine/merchant_limits.h"
#include "server/record/limit.h"
#include "server/rpc/validate.h"

namespace idempotency {

// How long the database is waited for, by the store's own timers.
struct StoreTimers {
  absl::Duration connect = absl::Seconds(2);    // for each host and address
  absl::Duration statement = absl::Seconds(5);  // for the results of a batch's statements
  absl::Duration commit = absl::Seconds(5);     // and then for its commit
};

// The operations port on its usual address, or on a free port of this machine when that is taken.
inline constexpr char kOpsAuto[] = "auto";
// No operations port.
inline constexpr char kOpsOff[] = "off";

struct Settings {
  // host:port; port 0 is a free one.
  std::string listen = "127.0.0.1:50051";
  // Of the operations port: host:port, kOpsAuto or kOpsOff.
  std::string ops_listen = kOpsAuto;
  // libpq's URI or keyword=value pairs. Empty: libpq's own variables name the database. May hold a
  // password: never logged.
  std::string database_url;
  // One of the table's choices; empty: not said.
  std::string durability;
  // Without authentication and encryption.
  bool insecure = false;
  LogLevel log_level = LogLevel::kInfo;
  StoreTimers store;
  // Its policy's shortest_lease is bounds.lease.shortest.
  EngineOptions engine;
  MerchantLimitOptions merchants;
  // Of answers that were handed to gRPC and not taken by their callers yet.
  size_t answer_max_bytes = 64 * kMiB;
  RequestBounds bounds;
  // Between saying NOT_SERVING and refusing calls: as long as load balancers take to notice.
  absl::Duration drain_delay = absl::Seconds(5);
  // For tests: the table's lower bounds do not hold.
  bool unsafe_test_bounds = false;
  // The configuration file's path; empty: none.
  std::string config_file;
};

// What only `idempotencyd dev` has.
struct DevSettings {
  // In a temporary directory that is gone afterwards.
  bool ephemeral = false;
  // Empty: the usual one.
  std::string directory;
  // Whether --listen was given: then that address or none.
  bool is_listen_given = false;
};

}  // namespace idempotency
