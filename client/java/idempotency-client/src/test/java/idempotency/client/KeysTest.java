package idempotency.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

final class KeysTest {
  @Test
  void randomRequestIdIsFreshUuid4() {
    String id = Keys.randomRequestId();
    assertTrue(id.matches("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
    assertNotEquals(id, Keys.randomRequestId());
  }

  @Test
  void businessKeyLivesThirtyDays() {
    Key key = Key.business("acme", "pay", "order-7", "card");
    assertEquals(new Key("acme", "pay:order-7:card", Duration.ofDays(30)), key);
  }

  @Test
  void partWithHalfOfACharacterIsRefused() {
    InvalidFieldException refused =
        assertThrows(InvalidFieldException.class, () -> Keys.businessKey("pay", "a", "\uD83D"));
    assertEquals("parts[1]", refused.violations().get(0).field());
  }

  @Test
  void absentArgumentsAreRefused() {
    assertThrows(InvalidFieldException.class, () -> Keys.businessKey(null, "a"));
    assertThrows(InvalidFieldException.class, () -> Keys.businessKey("pay", (String[]) null));
    assertThrows(InvalidFieldException.class, () -> Keys.businessKey("pay", (String) null));
    assertThrows(
        InvalidFieldException.class, () -> DownstreamKeys.derive(null, "a", KeyShape.UUID));
    assertThrows(InvalidFieldException.class, () -> KeyShape.of(null));
  }

  @Test
  void attemptDerivesKeysOfItsRecord() {
    String downstreamKey = "6ba7b810-9dad-51d1-80b4-00c04fd430c8";
    Attempt attempt = Attempt.builder(downstreamKey).build();
    assertEquals(
        "c92324d3-254e-8ba5-8345-700dfb5c27dc",
        attempt.downstreamKeyFor("acme-bank", KeyShape.UUID));
  }

  @Test
  void unprotectedAttemptHasNoKeyToDeriveFrom() {
    Attempt attempt = Attempt.builder("").unprotected(true).build();
    assertThrows(
        InvalidFieldException.class, () -> attempt.downstreamKeyFor("acme-bank", KeyShape.UUID));
  }
}
