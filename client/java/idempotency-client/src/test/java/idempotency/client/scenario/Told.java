package idempotency.client.scenario;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import idempotency.client.Hooks;
import idempotency.client.IdempotencyException;
import idempotency.client.Key;
import idempotency.client.WorkResult;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What the hooks were told. Thread-safe. */
final class Told implements Hooks {
  private final List<String> notRecorded = new ArrayList<>();
  private final Map<String, Integer> retries = new TreeMap<>();
  private int unprotected;
  private int refreshes;

  @Override
  public synchronized void onOutcomeNotRecorded(
      Key key, WorkResult work, IdempotencyException error) {
    notRecorded.add(error.kind().title());
  }

  @Override
  public synchronized void onRetry(String rpc, IdempotencyException error) {
    retries.merge(rpc, 1, Integer::sum);
  }

  @Override
  public synchronized void onUnprotected(Key key, IdempotencyException error) {
    unprotected++;
  }

  @Override
  public synchronized void refreshCredentials() {
    refreshes++;
  }

  synchronized JsonObject json(long unprotectedRuns) {
    JsonObject object = new JsonObject();
    JsonArray kinds = new JsonArray();
    notRecorded.forEach(kinds::add);
    object.add("outcome_not_recorded", kinds);
    JsonObject counts = new JsonObject();
    retries.forEach(counts::addProperty);
    object.add("retries", counts);
    object.addProperty("unprotected", unprotected);
    object.addProperty("refreshes", refreshes);
    object.addProperty("unprotected_runs", unprotectedRuns);
    return object;
  }
}
