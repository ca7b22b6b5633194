// The operations port: probes, metrics, and what this replica is and how it is set.
//
//   /livez     200 as long as the process answers at all; asks nothing of anybody
//   /readyz    200 or 503; with ?verbose a line for each part
//   /metrics   Prometheus's text format
//   /version   JSON: version, commit, the schema versions that this server works with
//   /settings  JSON: every setting with its value and where that came from, secrets masked
//   /          the list of these
//
// No page touches the database, and none says anything internal: no SQL, hosts, paths or secrets.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/metrics.h"
#include "server/ops/exposition.h"
#include "server/ops/http_server.h"
#include "server/ops/readiness.h"

namespace idempotency {

// A setting as it may be shown: secrets are masked by whoever makes this.
struct ShownSetting {
  std::string name;
  std::string value;
  std::string source;
};

struct OpsOptions {
  // host:port; port 0 is a free one.
  std::string address;
  BuildInfo build;
  int oldest_schema = 0;
  int newest_schema = 0;
  std::vector<ShownSetting> settings;
};

// Start, Stop and the destructor are for one thread.
class OpsServer {
 public:
  // `metrics` and `readiness` must outlive this. Statuses as HttpServer::Start's.
  static absl::StatusOr<std::unique_ptr<OpsServer>> Start(const OpsOptions& options,
                                                          Metrics* metrics, Readiness* readiness);
  OpsServer(const OpsServer&) = delete;
  OpsServer& operator=(const OpsServer&) = delete;

  const std::string& address() const { return http_->address(); }
  int port() const { return http_->port(); }

  // Returns when no page is being answered any more. Idempotent.
  void Stop() { http_->Stop(); }

 private:
  explicit OpsServer(std::unique_ptr<HttpServer> http) : http_(std::move(http)) {}

  const std::unique_ptr<HttpServer> http_;
};

}  // namespace idempotency
