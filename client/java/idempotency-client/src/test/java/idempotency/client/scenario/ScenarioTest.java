package idempotency.client.scenario;

import static org.junit.jupiter.api.Assertions.fail;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import idempotency.client.ChannelOptions;
import idempotency.client.ClientOptions;
import idempotency.client.IdempotencyClient;
import idempotency.client.IdempotencyException;
import idempotency.client.scenario.ScenarioCall.Face;
import io.grpc.InsecureChannelCredentials;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Replays client/scenarios against a real service: each by the blocking and the async face. */
final class ScenarioTest {
  @TestFactory
  List<DynamicTest> scenarios() throws Exception {
    String address = System.getenv(ScenarioHost.VARIABLE);
    if (address == null || address.isEmpty())
      return List.of(DynamicTest.dynamicTest("all", ScenarioTest::skip));
    ScenarioHost host = new ScenarioHost(address);
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonElement element : host.get("/scenarios").getAsJsonArray()) {
      String name = element.getAsJsonObject().get("name").getAsString();
      for (Face face : Face.values()) {
        tests.add(
            DynamicTest.dynamicTest(name + " " + face, () -> new Session(host, name, face).run()));
      }
    }
    if (tests.isEmpty()) fail("the scenario host has no scenarios");
    return tests;
  }

  private static void skip() {
    Assumptions.abort(
        "no scenario host: set " + ScenarioHost.VARIABLE + ", or run ./dev test-client java");
  }

  /** One scenario. */
  private static final class Session {
    private final ScenarioHost host;
    private final Face face;
    private final String path;
    private final JsonObject session;
    private final Told told = new Told();
    private final IdempotencyClient client;
    private final Map<String, ScenarioCall> calls = new ConcurrentHashMap<>();

    Session(ScenarioHost host, String name, Face face) throws Exception {
      this.host = host;
      this.face = face;
      JsonObject asked = new JsonObject();
      asked.addProperty("scenario", name);
      asked.addProperty("language", "java");
      session = host.post("/sessions", asked);
      path = "/sessions/" + session.get("id").getAsString();
      client = connect();
    }

    private IdempotencyClient connect() {
      ClientOptions.Builder options = ClientOptions.builder().hooks(told);
      if (Json.has(session, "client")) {
        JsonObject given = session.getAsJsonObject("client");
        for (Map.Entry<String, JsonElement> option : given.entrySet()) {
          Duration span = Duration.ofMillis(option.getValue().getAsLong());
          switch (option.getKey()) {
            case "rpc_timeout_ms" -> options.rpcTimeout(span);
            case "record_timeout_ms" -> options.recordTimeout(span);
            case "shutdown_timeout_ms" -> options.shutdownTimeout(span);
            default -> throw new IllegalArgumentException("option " + option.getKey());
          }
        }
      }
      return IdempotencyClient.connect(
          ChannelOptions.of(
              session.get("target").getAsString(), InsecureChannelCredentials.create()),
          options.build());
    }

    void run() throws Exception {
      String problem = "";
      try {
        for (JsonElement step : session.getAsJsonArray("steps")) run(step.getAsJsonObject());
      } catch (Exception | AssertionError thrown) {
        problem = thrown.toString();
        throw thrown;
      } finally {
        JsonObject end = new JsonObject();
        end.addProperty("passed", problem.isEmpty());
        if (!problem.isEmpty()) end.addProperty("problem", problem);
        host.post(path + "/end", end);
        client.close();
      }
    }

    private void run(JsonObject step) throws Exception {
      switch (step.get("do").getAsString()) {
        case "run_once" -> runOnce(step);
        case "await" -> judge(step, calls.get(step.get("call").getAsString()).actual().get());
        case "cancel" -> calls.get(step.get("call").getAsString()).cancel();
        case "lookup" -> judge(step, lookup(step));
        case "hooks" -> judge(step, told.json(client.unprotectedRuns()));
        case "close" -> client.close();
        default -> judged(step, host.post(path + "/steps", step));
      }
    }

    private void runOnce(JsonObject step) throws Exception {
      ScenarioCall call = new ScenarioCall(client, step, face, this::run);
      calls.put(step.get("call").getAsString(), call);
      var actual = call.start();
      boolean inBackground = Json.has(step, "background") && step.get("background").getAsBoolean();
      if (!inBackground) judge(step, actual.get());
    }

    private JsonObject lookup(JsonObject step) {
      JsonObject object = new JsonObject();
      boolean includeBody =
          Json.has(step, "include_body") && step.get("include_body").getAsBoolean();
      try {
        object.add(
            "record",
            Json.record(client.lookup(Json.key(step.getAsJsonObject("key")), includeBody)));
      } catch (IdempotencyException error) {
        object.add("error", Json.error(error).get("error"));
      }
      return object;
    }

    private void judge(JsonObject step, JsonObject actual) throws Exception {
      if (!Json.has(step, "expect")) return;
      JsonObject question = new JsonObject();
      question.add("expect", step.get("expect"));
      question.add("actual", actual);
      judged(step, host.post(path + "/judge", question));
    }

    private static void judged(JsonObject step, JsonObject verdict) {
      if (verdict.get("ok").getAsBoolean()) return;
      fail(step.get("do").getAsString() + ": " + Json.text(verdict, "problem"));
    }
  }
}
