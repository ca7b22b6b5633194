#include "tests/client_cpp/scenario/session.h"

#include <chrono>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/security/credentials.h"
#include "httplib.h"
#include "tests/client_cpp/scenario/json_values.h"
#include "tests/util/eventually.h"

namespace idempotency::client {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// The host's own waits end after a minute.
constexpr std::chrono::seconds kHostTimeout{90};

// What a step `throw` throws.
class NamedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

json JsonOfAnswer(const httplib::Result& answer, const std::string& path) {
  if (!answer) {
    throw std::runtime_error(absl::StrCat(path, ": ", httplib::to_string(answer.error())));
  }
  if (answer->status != 200) {
    throw std::runtime_error(absl::StrCat(path, ": status ", answer->status, " ", answer->body));
  }
  return json::parse(answer->body);
}

void ExpectOk(const json& answer, const json& step) {
  if (answer.at("ok").get<bool>()) return;
  throw std::runtime_error(absl::StrCat(answer.value("problem", "not ok"), " in ", step.dump()));
}

// Leaves `*span` as it is where there is none.
template <typename Span>
void Take(const json& options, const char* name, Span* span) {
  if (options.contains(name)) *span = milliseconds(options.at(name).get<int64_t>());
}

OnLeaseExpiry ActionOf(const json& step) {
  const json name = step.value("on_lease_expiry", json());
  if (name == "TAKE_OVER") return OnLeaseExpiry::kTakeOver;
  if (name == "HOLD") return OnLeaseExpiry::kHold;
  // Forgotten, or none that there is.
  return name.is_null() ? OnLeaseExpiry() : static_cast<OnLeaseExpiry>(99);
}

Key KeyOf(const json& step) {
  const json& key = step.at("key");
  return {key.at("merchant_id").get<std::string>(), key.at("idempotency_key").get<std::string>()};
}

Request RequestOf(const json& request) {
  const auto operation = request.at("operation").get<std::string>();
  if (request.contains("payload")) {
    const json& payload = request.at("payload");
    return {operation, Payload{BytesOfJson(payload.at("data")), payload.value("content_type", "")}};
  }
  Fingerprint fingerprint;
  if (!absl::Base64Unescape(request.at("fingerprint_base64").get<std::string>(),
                            &fingerprint.sha256)) {
    throw std::runtime_error("fingerprint_base64 is not base64");
  }
  fingerprint.scheme = request.value("fingerprint_scheme", 0);
  return {operation, std::move(fingerprint)};
}

FailureDisposition Classify(const json& names, const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const NamedError& error) {
    if (names.contains(error.what())) return DispositionOfJson(names.at(error.what()));
  }
  return FailureDisposition::kUnknown;
}

RunOptions RunOptionsOf(const json& given) {
  RunOptions options;
  Take(given, "lease_duration_ms", &options.lease_duration);
  Take(given, "wait_timeout_ms", &options.wait_timeout);
  Take(given, "max_duration_ms", &options.max_duration);
  Take(given, "start_timeout_ms", &options.start_timeout);
  if (given.contains("ttl_ms")) {
    options.ttl = std::chrono::seconds(given.at("ttl_ms").get<int64_t>() / 1000);
  }
  if (given.contains("deadline_ms")) {
    options.deadline =
        std::chrono::steady_clock::now() + milliseconds(given.at("deadline_ms").get<int64_t>());
  }
  if (given.contains("labels")) given.at("labels").get_to(options.labels);
  if (given.value("on_unavailable", "FAIL") == "RUN_UNPROTECTED") {
    options.on_unavailable = OnUnavailable::kRunUnprotected;
  }
  if (given.contains("classify")) {
    options.classify = [names = given.at("classify")](const std::exception_ptr& exception) {
      return Classify(names, exception);
    };
  }
  return options;
}

}  // namespace

json ScenarioHost::Get(const std::string& path) const {
  httplib::Client http(address_);
  http.set_read_timeout(kHostTimeout);
  return JsonOfAnswer(http.Get(path), path);
}

json ScenarioHost::Post(const std::string& path, const json& body) const {
  httplib::Client http(address_);
  http.set_read_timeout(kHostTimeout);
  return JsonOfAnswer(http.Post(path, body.dump(), "application/json"), path);
}

ScenarioSession::ScenarioSession(const ScenarioHost& host, const std::string& scenario)
    : host_(host),
      session_(host.Post("/sessions", {{"scenario", scenario}, {"language", "cpp"}})),
      path_(absl::StrCat("/sessions/", session_.at("id").get<std::string>())) {
  ChannelOptions channel;
  channel.target = session_.at("target").get<std::string>();
  channel.credentials = grpc::InsecureChannelCredentials();
  client_ = std::make_unique<Client>(MakeChannels(channel),
                                     OptionsOf(session_.value("client", json::object())));
}

ScenarioSession::~ScenarioSession() { Close(); }

void ScenarioSession::Close() {
  for (const auto& [name, call] : calls_) {
    call->cancel.request_stop();
    if (call->thread.joinable()) call->thread.join();
  }
  client_.reset();
}

std::string ScenarioSession::Play() {
  try {
    for (const json& step : session_.at("steps")) {
      DoStep(step);
      if (!Problem().empty()) break;
    }
  } catch (const std::exception& fault) {
    AddProblem(fault.what());
  }
  // While the service is still there for what is recorded in the background.
  Close();
  const std::string problem = Problem();
  const json answer =
      host_.Post(path_ + "/end", {{"passed", problem.empty()}, {"problem", problem}});
  return problem.empty() && !answer.at("ok").get<bool>() ? answer.dump() : problem;
}

void ScenarioSession::DoStep(const json& step) {
  const auto what = step.at("do").get<std::string>();
  if (what == "run_once") {
    RunOnce(step);
  } else if (what == "await") {
    Await(step);
  } else if (what == "cancel") {
    Cancel(step);
  } else if (what == "lookup") {
    Judge(step, JsonOf(client_->Lookup(KeyOf(step), step.value("include_body", false))));
  } else if (what == "hooks") {
    CheckHooks(step);
  } else if (what == "close") {
    client_.reset();
  } else {
    DoStepOfTheHost(step);
  }
}

void ScenarioSession::RunOnce(const json& step) {
  auto call = std::make_shared<Call>();
  {
    const std::lock_guard lock(mu_);
    calls_[step.at("call").get<std::string>()] = call;
  }
  RunOptions options = RunOptionsOf(step.value("options", json::object()));
  options.cancel = call->cancel.get_token();
  client::Work work;
  if (!step.at("fn").is_null()) {
    work = [this, steps = step.at("fn"), raw = call.get()](const Attempt& attempt) {
      return Work(steps, attempt, raw);
    };
  }
  call->thread = std::thread([this, raw = call.get(), step, options, work] {
    json result;
    try {
      result = JsonOf(client_->RunOnce(KeyOf(step), RequestOf(step.at("request")), ActionOf(step),
                                       work, options));
    } catch (const std::exception& fault) {
      AddProblem(fault.what());
    }
    const std::lock_guard lock(raw->mu);
    result["ran"] = raw->runs > 0;
    result["runs"] = raw->runs;
    if (raw->runs > 0) result["attempt"] = raw->attempt;
    raw->result = std::move(result);
  });
  if (!step.value("background", false)) Await(step);
}

WorkResult ScenarioSession::Work(const json& steps, const Attempt& attempt, Call* call) {
  {
    const std::lock_guard lock(call->mu);
    ++call->runs;
  }
  // However it ends.
  const auto on_end = std::shared_ptr<void>(nullptr, [&](void*) {
    const std::lock_guard lock(call->mu);
    call->attempt = JsonOf(attempt, attempt.stop_reason());
  });
  for (const json& step : steps) {
    const auto what = step.at("do").get<std::string>();
    if (what == "return") return WorkOfJson(step.at("work"));
    if (what == "throw") throw NamedError(step.at("error").get<std::string>());
    if (what == "throw_timeout")
      throw std::system_error(std::make_error_code(std::errc::timed_out));
    if (what == "throw_cancelled") {
      throw std::system_error(std::make_error_code(std::errc::operation_canceled));
    }
    if (what == "crash") throw 7;  // NOLINT(hicpp-exception-baseclass)
    try {
      if (what == "await_stop") {
        if (!Eventually([&] { return attempt.stop.stop_requested(); })) {
          throw std::runtime_error("fn was not asked to stop");
        }
      } else if (what == "cancel") {
        Cancel(step);
      } else {
        DoStepOfTheHost(step);
      }
    } catch (const std::exception& fault) {
      AddProblem(absl::StrCat("in fn: ", fault.what()));
      throw;
    }
  }
  AddProblem("fn has no end");
  return WorkResult::Unknown("NO_END", "");
}

void ScenarioSession::Await(const json& step) {
  std::shared_ptr<Call> call;
  {
    const std::lock_guard lock(mu_);
    call = calls_.at(step.at("call").get<std::string>());
  }
  if (call->thread.joinable()) call->thread.join();
  if (!step.contains("expect")) return;
  const std::lock_guard lock(call->mu);
  Judge(step, call->result);
}

void ScenarioSession::Cancel(const json& step) {
  std::shared_ptr<Call> call;
  {
    const std::lock_guard lock(mu_);
    call = calls_.at(step.at("call").get<std::string>());
  }
  call->cancel.request_stop();
}

void ScenarioSession::CheckHooks(const json& step) {
  json actual;
  {
    const std::lock_guard lock(told_.mu);
    actual = {{"outcome_not_recorded", told_.not_recorded},
              {"unprotected", told_.unprotected},
              {"retries", told_.retries},
              {"refreshes", told_.refreshes}};
  }
  if (client_ != nullptr) actual["unprotected_runs"] = client_->unprotected_runs();
  Judge(step, actual);
}

void ScenarioSession::DoStepOfTheHost(const json& step) {
  ExpectOk(host_.Post(path_ + "/steps", step), step);
}

void ScenarioSession::Judge(const json& step, const json& actual) {
  if (!step.contains("expect")) return;
  const json answer =
      host_.Post(path_ + "/judge", {{"expect", step.at("expect")}, {"actual", actual}});
  if (answer.at("ok").get<bool>()) return;
  throw std::runtime_error(absl::StrCat(step.at("do").get<std::string>(), " ",
                                        step.value("call", ""), ": ", answer.value("problem", "")));
}

void ScenarioSession::AddProblem(const std::string& problem) {
  const std::lock_guard lock(mu_);
  if (problem_.empty()) problem_ = problem;
}

std::string ScenarioSession::Problem() {
  const std::lock_guard lock(mu_);
  return problem_;
}

ClientOptions ScenarioSession::OptionsOf(const json& given) {
  ClientOptions options;
  Take(given, "rpc_timeout_ms", &options.rpc_timeout);
  Take(given, "record_timeout_ms", &options.record_timeout);
  Take(given, "shutdown_timeout_ms", &options.shutdown_timeout);
  options.hooks.on_outcome_not_recorded = [this](const Key&, const WorkResult&,
                                                 const Error& error) {
    const std::lock_guard lock(told_.mu);
    told_.not_recorded.push_back(ErrorKindName(error.kind));
  };
  options.hooks.on_retry = [this](const char* rpc, const Error&) {
    const std::lock_guard lock(told_.mu);
    ++told_.retries[rpc];
  };
  options.hooks.on_unprotected = [this](const Key&, const Error&) {
    const std::lock_guard lock(told_.mu);
    ++told_.unprotected;
  };
  options.hooks.refresh_credentials = [this] {
    const std::lock_guard lock(told_.mu);
    ++told_.refreshes;
  };
  // The test's output is its verdicts.
  options.hooks.log_warning = [](const std::string&) {};
  return options;
}

}  // namespace idempotency::client
