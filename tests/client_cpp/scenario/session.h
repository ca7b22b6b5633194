// Plays one scenario of client/scenarios with the C++ client: its own steps itself, all others by
// the scenario host, which also judges what came of them.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "idempotency/client/client.h"
#include "nlohmann/json.hpp"

namespace idempotency::client {

// The host at an address such as http://127.0.0.1:4711. Thread-safe.
class ScenarioHost {
 public:
  explicit ScenarioHost(std::string address) : address_(std::move(address)) {}

  // Throw std::runtime_error where the host does not answer with JSON and status 200.
  nlohmann::json Get(const std::string& path) const;
  nlohmann::json Post(const std::string& path, const nlohmann::json& body) const;

 private:
  const std::string address_;
};

// For one thread, once; `fn` of its calls runs on others.
class ScenarioSession {
 public:
  ScenarioSession(const ScenarioHost& host, const std::string& scenario);
  ~ScenarioSession();
  ScenarioSession(const ScenarioSession&) = delete;
  ScenarioSession& operator=(const ScenarioSession&) = delete;

  // Tells the host how it ended, too. Empty: it passed; else the first thing that was not ok.
  std::string Play();

 private:
  // What the hooks were told.
  struct Told {
    std::mutex mu;  // guards what follows
    nlohmann::json not_recorded = nlohmann::json::array();
    std::map<std::string, int> retries;
    int unprotected = 0;
    int refreshes = 0;
  };

  struct Call {
    std::stop_source cancel;
    std::thread thread;
    std::mutex mu;  // guards what follows
    int runs = 0;
    nlohmann::json attempt;
    nlohmann::json result;
  };

  // Calls that go on are cancelled.
  void Close();
  // Each throws std::runtime_error at what is not ok.
  void DoStep(const nlohmann::json& step);
  void RunOnce(const nlohmann::json& step);
  WorkResult Work(const nlohmann::json& steps, const Attempt& attempt, Call* call);
  void Await(const nlohmann::json& step);
  void Cancel(const nlohmann::json& step);
  void CheckHooks(const nlohmann::json& step);
  void DoStepOfTheHost(const nlohmann::json& step);
  void Judge(const nlohmann::json& step, const nlohmann::json& actual);

  // The first one stays.
  void AddProblem(const std::string& problem);
  std::string Problem();
  ClientOptions OptionsOf(const nlohmann::json& options);

  const ScenarioHost& host_;
  nlohmann::json session_;
  std::string path_;
  Told told_;
  std::unique_ptr<Client> client_;

  std::mutex mu_;  // guards what follows
  std::map<std::string, std::shared_ptr<Call>> calls_;
  std::string problem_;
};

}  // namespace idempotency::client
