#include "server/ops/ops_server.h"

#include <utility>

#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"

namespace idempotency {
namespace {

constexpr char kPlain[] = "text/plain; charset=utf-8";
constexpr char kJson[] = "application/json";

constexpr char kIndex[] =
    "idempotencyd, operations port\n"
    "\n"
    "/livez             the process answers\n"
    "/readyz            this replica should be sent calls\n"
    "/readyz?verbose    the same, part by part\n"
    "/metrics           Prometheus's text format\n"
    "/version           version, commit, schema versions\n"
    "/settings          every setting and where it came from\n";

// Keeps the order in which members are written.
using Json = nlohmann::ordered_json;

std::string Text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string VersionText(const OpsOptions& options) {
  return Text({{"version", options.build.version},
               {"commit", options.build.commit},
               {"oldest_schema", options.oldest_schema},
               {"newest_schema", options.newest_schema}});
}

std::string SettingsText(const std::vector<ShownSetting>& settings) {
  Json list = Json::array();
  for (const ShownSetting& setting : settings) {
    list.push_back({{"name", setting.name}, {"value", setting.value}, {"source", setting.source}});
  }
  return Text({{"settings", std::move(list)}});
}

// A page that is the same for as long as the process runs.
HttpPage Constant(std::string body, const char* content_type = kPlain) {
  return [answer = HttpAnswer{200, content_type, std::move(body)}](const HttpQuery&) {
    return answer;
  };
}

HttpAnswer Ready(Readiness& readiness, const HttpQuery& query) {
  const ReadinessReport report = readiness.Report();
  HttpAnswer answer;
  answer.status = report.IsReady() ? 200 : 503;
  answer.body = query.Has("verbose") ? report.Verbose() : report.Summary();
  return answer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OpsServer>> OpsServer::Start(const OpsOptions& options,
                                                            Metrics* metrics,
                                                            Readiness* readiness) {
  HttpPages pages;
  pages["/"] = Constant(kIndex);
  pages["/livez"] = Constant("ok\n");
  pages["/readyz"] = [readiness](const HttpQuery& query) { return Ready(*readiness, query); };
  pages["/metrics"] = [exposition = Exposition(metrics, options.build)](const HttpQuery&) {
    return HttpAnswer{200, kExpositionContentType, exposition.Text()};
  };
  pages["/version"] = Constant(VersionText(options), kJson);
  pages["/settings"] = Constant(SettingsText(options.settings), kJson);
  ASSIGN_OR_RETURN(std::unique_ptr<HttpServer> http,
                   HttpServer::Start(options.address, std::move(pages), metrics));
  return std::unique_ptr<OpsServer>(new OpsServer(std::move(http)));
}

}  // namespace idempotency
